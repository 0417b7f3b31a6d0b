"""The sha256 of every file of a directory on the control machine: the wanted files on the host.

Hashing 40 GB takes minutes, so sums are cached by path, size and modification time under ~/.cache/enginehouse. If the
cache cannot be read or written, the next run hashes again. A separate thread reads the files, because pyinfra's own
thread serves every connection and would block them meanwhile.
"""

import contextlib
import fnmatch
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import gevent
from gevent.lock import BoundedSemaphore

from deploy.io.bundle_store import sha256_of
from deploy.io.local_paths import json_object
from deploy.models.files import TOKENIZER_FILES
from deploy.refusals import Refusal

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".h5", ".msgpack")
MEMORY = Path("~/.cache/enginehouse/sha256.json")
T = TypeVar("T")
SHA1, SHA256 = re.compile("[0-9a-f]{40}"), re.compile("[0-9a-f]{64}")


_turn = BoundedSemaphore()


def chosen(directory: Path, patterns: tuple[str, ...]) -> list[str]:
    """Files that match the patterns, sorted. Refuses a pickle among them, and a choice without safetensors; for a
    gateway's copy of a tokenizer, one without tokenizer.json."""
    paths = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    names = [name for name in paths if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    pickles = [name for name in names if name.lower().endswith(PICKLES)]
    if pickles:
        raise _refusal(
            directory, f"{pickles[0]} is a pickle: loading it runs its author's code", "list safetensors only"
        )
    if set(patterns) <= set(TOKENIZER_FILES):
        if "tokenizer.json" not in names:
            raise _refusal(directory, "no tokenizer.json", "put the model's tokenizer.json and chat template beside it")
    elif not any(name.endswith(".safetensors") for name in names):
        raise _refusal(
            directory,
            f"no safetensors among {', '.join(patterns)}",
            'correct `files`; of a hub\'s encoder fetch_on="host" rewrites pytorch_model.bin as safetensors',
        )
    return names


def sent(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern for pattern in patterns if not pattern.endswith("pytorch_model.bin"))


def manifest(directory: Path, names: list[str], memory: Path = MEMORY) -> str:
    """The text of manifest.sha256, as `sha256sum -c` reads it."""
    memory = memory.expanduser()
    with _turn:  # the first host's thread reads the files for all hosts
        known = _remembered(memory)
        keys = {name: _key(directory / name) for name in names}
        missing = {key: directory / name for name, key in keys.items() if key not in known}
        if missing:
            known |= dict(zip(missing, _beside(sha256_of, missing.values()), strict=True))
            _remember(memory, known)
    return "".join(f"{known[keys[name]]}  {name}\n" for name in names)


def _remembered(memory: Path) -> dict[str, str]:
    """The sums of earlier runs; none if a full disk or a power cut truncated the file."""
    sums = json_object(memory)
    return {key: digest for key, digest in sums.items() if isinstance(digest, str) and SHA256.fullmatch(digest)}


def _remember(memory: Path, known: dict[str, str]) -> None:
    """Writes by rename, so that another run never reads a part of the file. On a full disk only the next run takes
    longer."""
    with contextlib.suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=memory.parent, prefix=f".{memory.name}.")
        try:
            with os.fdopen(handle, "w") as new:
                new.write(json.dumps(known))
            os.replace(name, memory)
        except OSError:
            os.unlink(name)
            raise


def spoiled(directory: Path, names: list[str], memory: Path = MEMORY) -> list[str]:
    """The files of `names` whose bytes do not match the hub's checksum.

    huggingface_hub checks sizes only; it stores the checksum beside its downloads: the sha256 of a large file and git's
    sha1 of a small one; a mirror may give the plain sha1. Files with any other checksum are not judged.
    """
    sums = [line.split("  ", 1)[0] for line in manifest(directory, names, memory).splitlines()]
    return [name for name, sha256 in zip(names, sums, strict=True) if not _is_held(directory, name, sha256)]


def _is_held(directory: Path, name: str, sha256: str) -> bool:
    noted = directory / ".cache/huggingface/download" / f"{name}.metadata"
    wanted = (noted.read_text().split() if noted.exists() else [])[1:2]
    if wanted and SHA1.fullmatch(wanted[0]):
        return wanted[0] in _beside(_sha1s, [directory / name])[0]
    return not wanted or not SHA256.fullmatch(wanted[0]) or wanted[0] == sha256


def _sha1s(path: Path) -> tuple[str, str]:
    """git's sha1, which includes the size, and the plain sha1."""
    git, plain = (
        hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False),
        hashlib.sha1(usedforsecurity=False),
    )
    with path.open("rb") as content:
        while piece := content.read(1 << 20):
            git.update(piece)
            plain.update(piece)
    return git.hexdigest(), plain.hexdigest()


def _beside(work: Callable[[Path], T], paths: Iterable[Path]) -> list[T]:
    return list(gevent.get_hub().threadpool.spawn(lambda: [work(path) for path in paths]).get())


def _key(path: Path) -> str:
    facts = path.stat()
    return f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}"


def _refusal(directory: Path, problem: str, attempt: str) -> Refusal:
    return Refusal(f"{directory}: {problem}", attempt=attempt, state="no weights were sent", kind="weights")
