"""Files of `group_data/` that pyinfra would leave out in silence, or whose data no host would get."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from deploy.catalog.names import slip_of
from deploy.refusals import Refusal, refuse


def unread_group_data(folders: Iterable[Path]) -> Iterator[Refusal]:
    """A refusal for each file of data that pyinfra would leave out in silence: it reads `*.py` there, and no folder.

    A Python file that names a file of data probably reads it.
    """
    by_place = {folder.resolve(): folder for folder in folders if folder.is_dir()}
    for folder in by_place.values():
        code = "".join(file.read_text("utf-8", "replace") for file in folder.glob("*.py") if file.is_file())
        for path in sorted(path for path in folder.iterdir() if _is_data(path) and path.name not in code):
            yield refuse(
                "unread-group-data",
                f"nothing reads {path}: pyinfra takes the data of a group from a Python file",
                where=str(path),
                seen="a folder" if path.is_dir() else path.suffix,
                wanted="group_data/GROUP.py with KEY = VALUE in each line",
                attempt=f"{path.with_suffix('.py')} in its place",
            )


def unmatched_group_data(folders: Collection[Path], groups: Collection[str]) -> Iterator[Refusal]:
    """A refusal for each file of data whose name misspells a group: pyinfra gives its data to no host.

    A name that another file beside the inventory has may be a group of that inventory.
    """
    beside = [file for folder in folders for file in folder.parent.glob("*.py") if file.is_file()]
    others = "".join(file.read_text("utf-8", "replace") for file in beside)
    for path in sorted({path for folder in folders if folder.is_dir() for path in folder.glob("*.py")}):
        meant = slip_of(path.stem, groups)
        is_known = re.search(rf"\b{re.escape(path.stem)}\b", others)
        if meant and not is_known and not (path.parent / f"{meant}.py").exists():
            yield refuse(
                "unread-group-data",
                f"no group is called {path.stem}, so nothing reads {path}",
                where=str(path),
                seen=f"groups {', '.join(sorted(groups)[:8])}",
                wanted="a file with the name of a group",
                attempt=f"mv {shlex.quote(str(path))} {shlex.quote(str(path.with_stem(meant)))}",
            )


def _is_data(path: Path) -> bool:
    is_folder = path.is_dir() and any(path.glob("*.y*ml"))
    return is_folder or path.suffix.lower() in (".yml", ".yaml", ".json", ".toml", ".ini")
