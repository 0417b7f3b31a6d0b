"""A second image in the rehearsal's registry: the first one plus a layer of random bytes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from rehearsal import registry, triton_image
from rehearsal.services import Services

EXTRA_MIB = 48


def push(running: Services, folder: Path, state: Path) -> str:
    """Pushes the second image to the registry; returns its digest."""
    folder.mkdir(parents=True, exist_ok=True)
    source = triton_image.image()
    manifest = json.loads((source / "manifest.json").read_text())
    configuration = json.loads((source / manifest["config"]["digest"].replace(":", "-")).read_text())
    layer = _layer()
    zipped = gzip.compress(layer, 1)
    configuration["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(layer).hexdigest()}")
    configuration["history"].append({"created": configuration["created"], "created_by": "more"})
    manifest["layers"].append({**manifest["layers"][0], **_blob(folder, zipped)})
    manifest["config"] |= _blob(folder, json.dumps(configuration).encode())
    for published in manifest["layers"][:-1]:
        name = published["digest"].replace(":", "-")
        if not (folder / name).exists():
            (folder / name).symlink_to(source / name)
    text = json.dumps(manifest)
    (folder / "manifest.json").write_text(text)
    login = base64.b64encode(f"{registry.USER}:{running.ngc_key}".encode()).decode()
    port = int((state / "services/backend-port").read_text())
    with pytest.MonkeyPatch.context() as patch:
        # The registry's storage is shared, and the first image keeps its tag.
        patch.setattr(triton_image, "TAG", "other")
        triton_image.push(folder, port, f"Basic {login}")
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _layer() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("opt/rehearsal-more")
        entry.size = EXTRA_MIB << 20
        tar.addfile(entry, io.BytesIO(os.urandom(entry.size)))
    return packed.getvalue()


def _blob(folder: Path, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / f"sha256-{digest}").write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}
