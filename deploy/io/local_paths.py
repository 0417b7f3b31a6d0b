"""Paths of the control machine as an inventory names them; no text raises an exception."""

from pathlib import Path


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


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}") if path.name else path
