"""Builds the rehearsal image (two layers, a configuration, a manifest) and pushes it without a Docker daemon.

The lower layer is the real Triton (rehearsal/triton_root.py), large and kept; the upper one has the stand-ins
(rehearsal/llmapi/), small and rebuilt on changes. Both are gzip layers of a Docker schema 2 manifest.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from rehearsal import triton_root
from rehearsal.artifacts import digest_of, made_once
from rehearsal.places import cache

REPOSITORY = "nvidia/tritonserver"
TAG = "24.10-rehearsal-trtllm-python-py3"
RUNTIMES = {"vllm/vllm-openai": "v0.26.0-rehearsal", "nvidia/tensorrt-llm/release": "1.2.1-rehearsal"}
"""The same image under the names of images of LLMs beside Triton: it has stand-ins of their programs too."""
LAYER_TYPE = "application/vnd.docker.image.rootfs.diff.tar.gzip"
CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
STAND_INS = Path(__file__).parent / "llmapi"
ENGINE_STAND_INS = Path(__file__).parent / "inflight"
RUNTIME_STAND_INS = Path(__file__).parent / "runtimes"
# The stand-in programs parse their command lines by the rows that the product's own catalog has.
# Not the catalog's rows: the image has to reveal errors in them.
FLAGS = STAND_INS / "upstream-flags.json"

ENVIRONMENT = {
    "PATH": "/opt/tritonserver/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    "TRITON_SERVER_VERSION": "2.51.0",
    "NVIDIA_TRITON_SERVER_VERSION": "24.10",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,video",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_REQUIRE_CUDA": "cuda>=9.0",
    "NVIDIA_PRODUCT_NAME": "Triton Server",
    "TRITON_SERVER_USER": "triton-server",
    "PYTHONDONTWRITEBYTECODE": "1",
}
LABELS = {
    "com.nvidia.build.id": "rehearsal",
    "com.nvidia.tritonserver.version": "2.51.0",
    "com.nvidia.tensorrtllm.version": "1.2.1",
    "com.nvidia.volumes.needed": "nvidia_driver",
    "org.opencontainers.image.version": TAG,
    "rehearsal": "stand-in",
}
CREATED = "2026-01-01T00:00:00Z"


def image() -> Path:
    """Returns a folder with `manifest.json` and every blob it names (`sha256-<hex>`), made unless the cache has it."""
    key = digest_of(STAND_INS, ENGINE_STAND_INS, RUNTIME_STAND_INS, Path(__file__), base_layer().name)
    return made_once("image", key, _make_image)


def base_layer() -> Path:
    """Returns a folder with `layer.tar.gz` and `diff_id`, made unless the cache has it."""
    return made_once("image-base", digest_of(Path(triton_root.__file__)), _make_base)


def image_digest(folder: Path) -> str:
    """Returns the digest by which the registry knows the image."""
    return "sha256:" + hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def _make_base(into: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".root-") as work:
        root = Path(work) / "root"
        triton_root.make_root(root, Path(work))
        exclude = ["--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*"]
        pack_layer(["-C", str(root), *exclude, "-c", "."], into)


def pack_layer(words: list[str], into: Path) -> None:
    """Writes tar's output for these words to `into`/layer.tar.gz, and the unpacked digest to `diff_id`."""
    total = hashlib.sha256()
    command = ["tar", "--numeric-owner", "--sort=name", *words]
    with (into / "layer.tar.gz").open("wb") as layer, subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        pack = subprocess.Popen(["pigz", "-1", "-n"], stdin=subprocess.PIPE, stdout=layer)
        assert tar.stdout and pack.stdin
        while block := tar.stdout.read(1 << 20):
            total.update(block)
            pack.stdin.write(block)
        pack.stdin.close()
        if tar.wait() or pack.wait():
            raise RuntimeError("tar or pigz stopped before the layer was whole")
    (into / "diff_id").write_text("sha256:" + total.hexdigest())


def _make_image(into: Path) -> None:
    write_image(into, [base_layer()], stand_in_tar(triton_root.SITE))


def write_image(into: Path, bases: list[Path], upper: bytes) -> None:
    """Writes the blobs and the manifest of an image: the packed layers, lowest first, and `upper`, a tar."""
    layers = [_linked_blob(into, base / "layer.tar.gz") for base in bases]
    layers.append(_blob(into, gzip.compress(upper, mtime=0)))
    diff_ids = [(base / "diff_id").read_text() for base in bases] + ["sha256:" + hashlib.sha256(upper).hexdigest()]
    configuration = _blob(into, json.dumps(_configuration(diff_ids), sort_keys=True).encode())
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, **configuration},
        "layers": [{"mediaType": LAYER_TYPE, **layer} for layer in layers],
    }
    (into / "manifest.json").write_text(json.dumps(manifest, indent=2))


def _configuration(diff_ids: list[str]) -> dict[str, object]:
    below = ["Triton of nvidia-pytriton, and what it runs on"] * (len(diff_ids) - 1)
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": {
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": ["/opt/nvidia/nvidia_entrypoint.sh"],
            "WorkingDir": "/opt/tritonserver",
            "Labels": LABELS,
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created": CREATED, "created_by": step} for step in [*below, "rehearsal stand-ins"]],
    }


def stand_in_tar(site: str, more: Mapping[Path, str] | None = None) -> bytes:
    """Returns the uppermost layer, a tar with the paths of NVIDIA's image: the packages in `site`, then `more`."""
    places = {
        STAND_INS / "all_models": "app/all_models/llmapi",
        STAND_INS / "packages": site,
        STAND_INS / "nvidia_entrypoint.sh": "opt/nvidia",
        STAND_INS / "bin": "usr/local/bin",
        STAND_INS / "examples": "app/examples",
        RUNTIME_STAND_INS / "packages": site,
        RUNTIME_STAND_INS / "bin": "usr/local/bin",
        ENGINE_STAND_INS / "all_models": "app/all_models/inflight_batcher_llm",
        ENGINE_STAND_INS / "backend": "opt/tritonserver/backends/tensorrtllm",
        **(more or {}),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for source, target in places.items():
            for file in sorted(path for path in [source, *source.rglob("*")] if path.is_file()):
                if "__pycache__" in file.parts:
                    continue
                inside = file.relative_to(source) if source.is_dir() else Path(file.name)
                is_program = file.suffix == ".sh" or source.name == "bin"
                _add(tar, file, f"{target}/{inside}", 0o755 if is_program else 0o644)
        _add(tar, FLAGS, f"{site}/tensorrt_llm/stand_in/flags.json", 0o644)
    return packed.getvalue()


def _add(tar: tarfile.TarFile, file: Path, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = file.stat().st_size, mode, 1767225600
    tar.addfile(entry, io.BytesIO(file.read_bytes()))


def _blob(folder: Path, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / f"sha256-{digest}").write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def _linked_blob(folder: Path, file: Path) -> dict[str, object]:
    with file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    (folder / f"sha256-{digest}").hardlink_to(file)
    return {"digest": f"sha256:{digest}", "size": file.stat().st_size}


def push(folder: Path, port: int, authorization: str) -> None:
    """Pushes the image's missing blobs and its tags to the registry on loopback port `port`."""
    manifest = json.loads((folder / "manifest.json").read_text())
    headers = {"Authorization": authorization, "Content-Type": MANIFEST_TYPE}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        for repository, tag in [(REPOSITORY, TAG), *RUNTIMES.items()]:
            for blob in [manifest["config"], *manifest["layers"]]:
                _push_blob(connection, folder, repository, blob["digest"], authorization)
            path = f"/v2/{repository}/manifests/{tag}"
            _ask(connection, "PUT", path, headers, (folder / "manifest.json").read_bytes(), wanted=201)


def _push_blob(
    connection: http.client.HTTPConnection, folder: Path, repository: str, digest: str, authorization: str
) -> None:
    headers = {"Authorization": authorization}
    connection.request("HEAD", f"/v2/{repository}/blobs/{digest}", headers=headers)
    answer = connection.getresponse()
    answer.read()
    if answer.status == 200:
        return
    mount = "" if repository == REPOSITORY else f"?mount={digest}&from={REPOSITORY}"
    wanted = 202 if not mount else 201  # mounted from the first repository, which has it
    location = _ask(connection, "POST", f"/v2/{repository}/blobs/uploads/{mount}", headers, b"", wanted=wanted)
    if mount:
        return
    joint = "&" if "?" in location else "?"
    with (folder / digest.replace(":", "-")).open("rb") as content:
        sized = {**headers, "Content-Type": "application/octet-stream", "Content-Length": str(_size(content))}
        _ask(connection, "PUT", f"{location}{joint}digest={digest}", sized, content, wanted=201)


def _size(content: io.BufferedReader) -> int:
    return Path(content.name).stat().st_size


def _ask(connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str],
         body: bytes | io.BufferedReader, wanted: int) -> str:  # fmt: skip
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    body_text = answer.read().decode(errors="replace")
    if answer.status != wanted:
        raise RuntimeError(f"the registry answered {answer.status} to {method} {path}: {body_text[:200]}")
    return answer.getheader("Location", "")
