"""`models.lock.json` beside an inventory: the facts that `enginehouse pin` read about its models, for review."""

import json
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.io.hub import COMMIT, Resolved
from deploy.io.local_paths import turn
from deploy.io.local_weights import is_file_name
from deploy.refusals import Refusal, json_fault, refuse, shortened
from deploy.spec.sources import HUB_NAME
from deploy.spec.surroundings import LocalWeights

NAME = "models.lock.json"
FORM = 1
MOST_COUNT = 2**53


def lock_of(inventory: str | Path) -> Path:
    return Path(inventory).parent / NAME


def read_lock(file: Path) -> dict[str, LocalWeights]:
    """Repositories by the name that an inventory uses; empty without a lock.

    Raises: a Refusal for a lock that was edited or merged badly.
    """
    return {name: _files(name, entry, file) for name, entry in read_entries(file).items()}


def read_entries(file: Path) -> dict[str, Any]:
    """The entries of the file, unchanged."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(file, str(error)) from None
    try:
        lock = json.loads(text)
        if lock["form"] != FORM:
            raise _broken(file, f"form {lock['form']!r}, and this enginehouse reads {FORM}")
        return dict(lock["models"])
    except ValueError as error:
        raise _broken(file, json_fault(text, error)) from None
    except (KeyError, TypeError, RecursionError) as error:
        raise _broken(file, f"{type(error).__name__}: {error}") from None


def entry_of(resolved: Resolved) -> dict[str, Any]:
    """An entry: all recorded facts about one repository."""
    files = resolved.files
    return {
        "repository": files.repository,
        "commit": files.revision,
        "bytes": files.stored_bytes,
        "elements": dict(resolved.elements),
        "config": dict(files.config),
        "files": dict(sorted(resolved.sizes.items())),
        "beside": [name for name in files.files if name not in resolved.sizes],
    }


def write_lock(file: Path, entries: Mapping[str, Any]) -> None:
    """Writes the lock as a whole, or leaves the old one unchanged."""
    text = json.dumps({"form": FORM, "models": dict(sorted(entries.items()))}, indent=2, ensure_ascii=False) + "\n"
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(4)}.new")
    try:
        unfinished.write_text(text, "utf-8")
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def add_entry(file: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Writes one entry into the lock. Entries that another command wrote in the meantime are kept."""
    with turn(file.parent):
        write_lock(file, read_entries(file) | {name: entry})


def _files(name: str, entry: Any, file: Path) -> LocalWeights:
    try:
        commit, repository = str(entry["commit"]), str(entry["repository"])
        names, beside = [tuple(map(str, entry[key])) for key in ("files", "beside")]
        counts = [int(entry["bytes"]), *(int(count) for count in entry["elements"].values())]
        if not COMMIT.fullmatch(commit) or not HUB_NAME.fullmatch(repository):
            raise ValueError("no repository at a commit of 40 hex digits")
        if repository != name.partition("@")[0]:
            raise ValueError(f"another repository, {shortened(repository)}")
        if outside := [path for path in (*names, *beside) if not is_file_name(path)]:
            raise ValueError(f"no file of a repository: {shortened(outside[0])}")
        if min(counts) < 0 or max(counts) > MOST_COUNT:
            raise ValueError("a number of bytes or elements that no model has")
        return LocalWeights(
            revision=commit,
            stored_bytes=counts[0],
            parameters=sum(counts[1:]),
            files=tuple(sorted({*names, *beside})),
            config=dict(entry["config"]),
            repository=repository,
            fetched=names,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _broken(file, f"{name}: {type(error).__name__}: {error}") from None


def _broken(file: Path, seen: str) -> Refusal:
    return refuse(
        "broken-lock",
        f"{file} is not a lock of models",
        where=str(file),
        seen=seen,
        wanted="the file as `enginehouse pin` wrote it",
        attempt=f"git checkout --theirs -- {shlex.quote(str(file))} (or --ours), then enginehouse pin INVENTORY"
        if seen.startswith("two versions")
        else f"git checkout -- {file}; or remove it and type enginehouse pin INVENTORY",
    )
