"""A bundle's directory: objects named by their digest, whole or in pieces, beside the signed list.

    bundle.json, bundle.json.sig      the list and its signature
    objects/ab/abcd…                  a file; in a split bundle abcd….000, abcd….001 and so on
    keys/OS-REPOSITORY.asc            public keys of repositories, also in the list

Objects are written under another name and renamed, so that an existing object is complete.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from deploy.bundle.contents import LIST, SIGNATURE, Contents
from deploy.io.signatures import sign
from deploy.spec import EngineTrust

CHUNK = 1 << 20
MIB = 1 << 20


@dataclass(frozen=True)
class Store:
    """The objects of a directory."""

    directory: Path

    def place(self, sha256: str) -> Path:
        return self.directory / "objects" / sha256[:2] / sha256

    def files(self, sha256: str) -> list[Path]:
        """The file of an object, or its pieces in order; empty if the object is not here."""
        whole = self.place(sha256)
        if whole.is_file():
            return [whole]
        # Only plain files, because the medium is not trusted: reading a pipe would never end.
        return sorted(piece for piece in whole.parent.glob(f"{sha256}.[0-9][0-9][0-9]") if piece.is_file())

    def has(self, sha256: str, size: int) -> bool:
        """True if the object is here in full length."""
        files = self.files(sha256)
        return bool(files) and sum(file.stat().st_size for file in files) == size

    def read(self, sha256: str, start: int = 0) -> Iterator[bytes]:
        for file in self.files(sha256):
            size = file.stat().st_size
            if start >= size:
                start -= size
                continue
            with file.open("rb") as content:
                content.seek(start)
                start = 0
                while chunk := content.read(CHUNK):
                    yield chunk

    def take(self, file: Path, split_mib: int = 0) -> tuple[str, int]:
        """(digest, size) of a file that becomes an object; by a hard link if the file system is the same."""
        sha256, size = sha256_of(file), file.stat().st_size
        self.keep(file, sha256, size, split_mib)
        return sha256, size

    def keep(self, file: Path, sha256: str, size: int, split_mib: int = 0) -> None:
        """Stores the bytes of `file` as the object."""
        if self.has(sha256, size):
            return
        target = self.place(sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        if split_mib and size > split_mib * MIB:
            self._split(file, target, split_mib * MIB)
            return
        unfinished = target.with_name(f".{sha256}.new")
        unfinished.unlink(missing_ok=True)
        try:
            os.link(file, unfinished)
        except OSError:  # another file system, or one without links
            shutil.copyfile(file, unfinished)
        os.replace(unfinished, target)

    def write(self, content: bytes) -> tuple[str, int]:
        """(digest, size) of an object with this content."""
        sha256 = hashlib.sha256(content).hexdigest()
        target = self.place(sha256)
        if not self.has(sha256, len(content)):
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = target.with_name(f".{sha256}.new")
            unfinished.write_bytes(content)
            os.replace(unfinished, target)
        return sha256, len(content)

    def _split(self, file: Path, target: Path, most: int) -> None:
        with file.open("rb") as content:
            for number in range(-(-file.stat().st_size // most)):
                unfinished = target.with_name(f".{target.name}.new")
                with unfinished.open("wb") as piece:
                    _copy(content, piece, most)
                os.replace(unfinished, target.with_name(f"{target.name}.{number:03}"))

    def forget_others(self, wanted: Iterable[str]) -> None:
        """Removes unfinished objects, and objects that are not in `wanted`."""
        kept = set(wanted)
        for path in (self.directory / "objects").glob("*/*"):
            if path.name.lstrip(".")[:64] not in kept or path.name.startswith("."):
                path.unlink()


def _copy(source: BinaryIO, target: BinaryIO, most: int) -> None:
    while most and (chunk := source.read(min(CHUNK, most))):
        target.write(chunk)
        most -= len(chunk)


def sha256_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_list(store: Store, contents: Contents, trust: EngineTrust) -> None:
    """Writes the signed list to the directory, with keys beside it. The signature comes last."""
    text = contents.to_text().encode()
    signature = sign(text, trust)
    for part in contents.below("keys"):
        target = store.directory / part.path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(b"".join(store.read(part.sha256)))
    for name, content in ((SIGNATURE, signature), (LIST, text)):
        unfinished = store.directory / f".{name}.new"
        unfinished.write_bytes(content)
        os.replace(unfinished, store.directory / name)
