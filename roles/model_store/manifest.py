"""The sha256 of every file of a directory on the control machine: what the host must end up with.

Hashing 40 GB takes minutes, so sums are remembered by path, size and modification time under ~/.cache/enginehouse.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
from pathlib import Path

from deploy.errors import Refusal

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack")
MEMORY = Path("~/.cache/enginehouse/sha256.json")


def chosen(directory: Path, patterns: tuple[str, ...]) -> list[str]:
    """Files that the patterns name, sorted. Refuses a pickle among them, and a choice without safetensors."""
    found = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    names = [name for name in found if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    pickles = [name for name in names if name.lower().endswith(PICKLES)]
    if pickles:
        raise _refusal(
            directory, f"{pickles[0]} is a pickle: loading it runs its author's code", "list safetensors only"
        )
    if not any(name.endswith(".safetensors") for name in names):
        raise _refusal(
            directory, f"no safetensors among {', '.join(patterns)}", "convert the weights, or correct `files`"
        )
    return names


def manifest(directory: Path, names: list[str], memory: Path = MEMORY) -> str:
    """The text of manifest.sha256, as `sha256sum -c` reads it."""
    memory = memory.expanduser()
    known: dict[str, str] = json.loads(memory.read_text()) if memory.exists() else {}
    keys = {name: _key(directory / name) for name in names}
    missing = {key: name for name, key in keys.items() if key not in known}
    if missing:
        known |= {key: _sha256(directory / name) for key, name in missing.items()}
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(known))
    return "".join(f"{known[keys[name]]}  {name}\n" for name in names)


def _key(path: Path) -> str:
    seen = path.stat()
    return f"{path.resolve()} {seen.st_size} {seen.st_mtime_ns}"


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _refusal(directory: Path, problem: str, attempt: str) -> Refusal:
    return Refusal(f"{directory}: {problem}", attempt=attempt, state="no weights were sent", kind="weights")
