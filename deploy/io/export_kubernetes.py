"""Manifests of Kubernetes: the programs that Pods run, read from this repository, and the folder that is written."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from deploy.refusals.refuse import refuse

FILES = Path(__file__).parents[2] / "files"
START = ("host.__main__", "host.pod")
MARK = "kustomization.yaml"


def programs() -> dict[str, str]:
    """The modules of files/host that Pods run, and those that they import, by path."""
    texts, names = dict[str, str](), list(START)
    while names:
        path = _file(names.pop())
        if path and str(path.relative_to(FILES)) not in texts:
            texts[str(path.relative_to(FILES))] = path.read_text("utf-8")
            names += _imported(path)
    return texts | {"host/__init__.py": (FILES / "host/__init__.py").read_text("utf-8")}


def _file(module: str) -> Path | None:
    path = FILES / f"{module.replace('.', '/')}.py"
    return path if path.exists() else None


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "host":
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def confirm_folder(folder: Path) -> None:
    """Confirms that the folder is new, empty, or an earlier export. Raises: a Refusal for any other."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise refuse(
            "folder-of-others",
            f"{folder} holds files of somebody else, and an export replaces all of a folder",
            where="-o",
            seen=", ".join(sorted(path.name for path in folder.iterdir())[:5]),
            wanted="a new folder, an empty one, or one of an earlier export",
            attempt=f"-o {folder / 'kubernetes'}",
        )


def written(texts: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Each file once it is written; those of an earlier export are gone."""
    for place in {path.split("/")[0] for path in texts if "/" in path}:
        shutil.rmtree(folder / place, ignore_errors=True)
    for name, text in sorted(texts.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        yield path
