"""Paths of the control machine as an inventory names them; no text raises an exception. Locks on its folders."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def local_path(name: str | Path, root: Path = Path()) -> Path:
    """The path of a name, relative to `root`; `~user` of an unknown user is unchanged."""
    try:
        return root / Path(name).expanduser()
    except RuntimeError:
        return root / name


def is_file(path: Path) -> bool:
    """True if the path is a file here; False for a text that cannot be a path, such as one of 5,000 letters."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def sibling(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}") if path.name else path


def json_object(file: Path, form: type = dict) -> Any:
    """The JSON object, or list as `form`, in a file; empty if the file is missing or holds something else."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return form()
    return content if isinstance(content, form) else form()


@contextmanager
def turn(folder: Path, is_patient: bool = True) -> Iterator[None]:
    """A lock on the folder, held inside the `with`; commands that change its files wait for each other.

    Raises: BlockingIOError if another command has it and `is_patient` is False; OSError if there is no such folder.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # gevent, which pyinfra installs, closes a directory some time later
        os.close(handle)
