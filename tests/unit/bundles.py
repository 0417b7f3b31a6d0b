"""Small bundles for tests, signed by a separate key."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

from deploy.bundle.contents import Contents, Part
from deploy.io.bundle_store import Store, write_list
from deploy.spec import EngineTrust

COMMIT = "ab" * 20
BIG = bytes(range(256)) * 4096 * 3
MANIFEST = json.dumps({"mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []}).encode()
FILES = {
    "apt/debian-12/system/debian/pool/main/c/curl/curl_1+b1_amd64.deb": b"a package",
    "apt/debian-12/nvidia/debian12/x86_64/linux-headers-6.1.0-28-amd64_1_amd64.deb": b"headers",
    f"images/{hashlib.sha256(MANIFEST).hexdigest()}/{hashlib.sha256(MANIFEST).hexdigest()}": MANIFEST,
    f"weights/example/mine/{COMMIT}/model.safetensors": BIG,
    f"weights/example/mine/{COMMIT}/config.json": b"{}",
    "keys/debian-12-system.asc": b"a key\n",
    "control/wheels/some.whl": b"a wheel",
}


def key_pair(path: Path) -> EngineTrust:
    """A new signing key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return EngineTrust(key=str(path))


def made(
    directory: Path, trust: EngineTrust, files: dict[str, bytes] = FILES, split: int = 0, base: str = ""
) -> Contents:
    """A signed bundle of these files, with the packages of a plain Debian 12 host."""
    store, parts = Store(directory), []
    directory.mkdir(exist_ok=True)
    for path, content in files.items():
        source = directory / "source"
        source.write_bytes(content)
        sha256, size = store.take(source, split)
        source.unlink()
        parts.append(Part(path=path, sha256=sha256, size=size, source="a test"))
    contents = Contents(parts=tuple(parts), packages={"debian-12": ("curl",)}, made="2026-11-27", base=base)
    write_list(store, contents, trust)
    return contents
