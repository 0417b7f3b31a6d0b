"""Verifies a bundle: its signature, every object, every byte. No part of an incomplete bundle is used."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.bundle.contents import LIST, SIGNATURE, UNTOUCHED, Contents
from deploy.io.bundle_store import Store, sha256_of
from deploy.io.local_paths import json_object
from deploy.io.signatures import is_signed
from deploy.refusals import Refusal
from deploy.spec import EngineTrust

MEMORY = Path("~/.cache/enginehouse/bundle-sums.json")
"""File of verified digests, by path, size and modification time."""


def opened(directory: Path, trust: EngineTrust | None) -> Contents:
    """The list of a bundle whose signature is valid. Raises: a Refusal for a missing, foreign or unreadable list."""
    text, signature = directory / LIST, directory / SIGNATURE
    if not text.is_file() or not signature.is_file():
        unfinished = (directory / ".work").is_dir()
        raise _refusal(
            f"{directory} is not a finished bundle",
            "an unfinished one" if unfinished else f"no {LIST if not text.is_file() else SIGNATURE}",
            f"{LIST} and {SIGNATURE}",
            f"enginehouse bundle INVENTORY {directory} on a connected machine; it continues the unfinished bundle",
            "bundle-unfinished",
        )
    if trust is None:
        raise _refusal(
            f"the inventory names no key that verifies the bundle {directory}",
            "no engine_trust in the inventory",
            "the key that signed it, or its public half among the signers",
            'engine_trust=EngineTrust(key="~/.ssh/engines")',
            "bundle-without-trust",
        )
    with text.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES or not is_signed(content, signature, trust):
        raise _refusal(
            f"the bundle {directory} is not signed by a key of this inventory",
            "a foreign signature, or a list that was changed after it was signed",
            f"a signature by {trust.key} or one of its {len(trust.signers)} further signers",
            'EngineTrust(key=…, signers=("ssh-ed25519 …",)) with the signer\'s public key, or bundle anew',
            "bundle-signature",
        )
    return Contents.of_text(content.decode("utf-8", "replace"))


MOST_BYTES = 2**28
"""Bytes of a list, which is read before its signature is verified; 100,000 files take 30 MiB."""
Mapped = Callable[[Callable[[str], str], Iterable[str]], Iterable[str]]
"""Signature of `map`: calls the function for each item."""


def confirm_whole(directory: Path, contents: Contents, *, remember: bool = False, mapping: Mapped | None = None) -> int:
    """The number of bytes read to verify that every object is present and has its digest.

    With `remember`, unchanged files that were verified before are not read again. Raises: a Refusal that names missing
    or wrong objects.
    """
    store = Store(directory)
    missing = [sha256 for sha256, size in contents.objects.items() if not store.has(sha256, size)]
    if missing:
        raise _incomplete(directory, contents, missing)
    known = json_object(MEMORY.expanduser()) if remember else {}
    pending = {sha256: _key(store.files(sha256)) for sha256 in contents.objects}
    pending = {sha256: key for sha256, key in pending.items() if known.get(key) != sha256}
    with ThreadPoolExecutor(2) as pool:
        actual = (mapping or pool.map)(lambda sha256: digest_of(store, sha256), pending)
        sums = dict(zip(pending, actual, strict=True))
    spoiled = [sha256 for sha256, digest in sums.items() if digest != sha256]
    spoiled += [part.sha256 for part in contents.below("keys") if _differs(directory / part.path, part.sha256)]
    if spoiled:
        raise _spoiled(directory, contents, spoiled)
    if remember:
        _remember(known | {key: sha256 for sha256, key in pending.items()})
    return sum(contents.objects[sha256] for sha256 in pending)


def digest_of(store: Store, sha256: str) -> str:
    """The current digest of an object's bytes."""
    files = store.files(sha256)
    if len(files) == 1:
        return sha256_of(files[0])
    digest = hashlib.sha256()
    for chunk in store.read(sha256):
        digest.update(chunk)
    return digest.hexdigest()


def _differs(file: Path, sha256: str) -> bool:
    return not file.is_file() or sha256_of(file) != sha256


def _key(files: list[Path]) -> str:
    facts = [(str(file.resolve()), file.stat()) for file in files]
    return " ".join(f"{path} {fact.st_size} {fact.st_mtime_ns} {fact.st_ino}" for path, fact in facts)


def _remember(known: dict[str, str]) -> None:
    """Saves the verified files; an entry that cannot be saved is verified again by the next run."""
    path = MEMORY.expanduser()
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(known), "utf-8")
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)


def unpack(directory: Path, contents: Contents, target: Path) -> int:
    """The bytes written: each part that the control machine needs is put below `target` by its name, verified."""
    store, written = Store(directory), 0
    for part in contents.below("control"):
        path = target / part.path.removeprefix("control/")
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.new")
        if write_verified(store, part.sha256, unfinished) != part.sha256:
            unfinished.unlink()
            raise _spoiled(directory, contents, [part.sha256])
        os.replace(unfinished, path)
        written += part.size
    return written


def write_verified(store: Store, sha256: str, target: Path) -> str:
    """The digest of the written bytes. Uses no thread: pyinfra, once loaded, makes threads wait for each other."""
    digest = hashlib.sha256()
    with target.open("wb") as content:
        for chunk in store.read(sha256):
            digest.update(chunk)
            content.write(chunk)
    return digest.hexdigest()


def _names(contents: Contents, digests: Iterable[str]) -> str:
    wanted = set(digests)
    paths = [part.path for part in contents.parts if part.sha256 in wanted]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _incomplete(directory: Path, contents: Contents, missing: list[str]) -> Refusal:
    if contents.base:
        return _refusal(
            f"the bundle {directory} is a difference, and its base is not here",
            f"{len(missing)} of {len(contents.objects)} objects missing: {_names(contents, missing)}",
            f"the bundle whose list has the sha256 {contents.base}",
            f"copy the difference over its base: cp -r {directory}/. BASE, and name BASE",
            "bundle-without-base",
        )
    return _refusal(
        f"the bundle {directory} is not whole",
        f"missing or cut: {_names(contents, missing)}",
        f"{len(contents.objects)} objects",
        f"copy it again: rsync -a --partial SOURCE/ {directory}/",
        "bundle-missing-part",
    )


def _spoiled(directory: Path, contents: Contents, spoiled: list[str]) -> Refusal:
    return _refusal(
        f"the bundle {directory} has other bytes than it was signed with",
        _names(contents, spoiled),
        f"sha256 {spoiled[0]}",
        f"copy it again: rsync -a --checksum SOURCE/ {directory}/",
        "bundle-changed",
    )


def _refusal(problem: str, seen: str, wanted: str, attempt: str, kind: str) -> Refusal:
    return Refusal(problem, facts={"seen": seen, "wanted": wanted}, attempt=attempt, state=UNTOUCHED, kind=kind)
