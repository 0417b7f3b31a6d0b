"""The folder of an export: the programs of Pods or jobs, read from this repository, and the written files."""

import ast
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.refusals import refuse

FILES = Path(__file__).parents[2] / "files"
OF_PODS = ("host.__main__", "host.pod")
OF_JOBS = (*OF_PODS, "host.job", "host.prove", "host.traffic.main")
STEPS = "job.sh"
"""The steps of a job, which every batch file of a folder reads."""
MARK = "kustomization.yaml"


def programs(modules: Sequence[str] = OF_PODS) -> dict[str, str]:
    """The named modules of files/host and the modules that they import, by path."""
    texts, names = dict[str, str](), list(modules)
    while names:
        path = _file(names.pop())
        if path and str(path.relative_to(FILES)) not in texts:
            texts[str(path.relative_to(FILES))] = path.read_text("utf-8")
            names += _imported(path)
    return texts | {"host/__init__.py": (FILES / "host/__init__.py").read_text("utf-8")}


def steps() -> str:
    return (FILES / "shell" / "slurm-job.sh").read_text("utf-8")


def _file(module: str) -> Path | None:
    path = FILES / f"{module.replace('.', '/')}.py"
    return path if path.exists() else None


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "host":
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def confirm_folder(folder: Path, mark: str = MARK) -> None:
    """Raises: a Refusal unless the folder is new, empty, or an earlier export; `-` is standard output elsewhere."""
    if str(folder) == "-":
        raise refuse(
            "folder-of-others",
            "an export is several files, and standard output takes one",
            where="-o",
            seen="-",
            wanted="a folder",
            attempt="-o export",
        )
    if (
        folder.suffix.lower() in (".yaml", ".yml", ".json", ".zip", ".tar", ".tgz", ".gz", ".sh")
        and not folder.exists()
    ):
        raise refuse(
            "folder-of-others",
            f"an export is several files, and {folder} is the name of one",
            where="-o",
            seen=str(folder),
            wanted="a folder",
            attempt=f"-o {shlex.quote(str(folder.with_suffix('')))}",
        )
    if folder.exists() and any(folder.iterdir()) and not (folder / mark).exists():
        raise refuse(
            "folder-of-others",
            f"{folder} holds files of another origin, and an export replaces the whole folder",
            where="-o",
            seen=", ".join(sorted(path.name for path in folder.iterdir())[:5]),
            wanted="a new folder, an empty one, or one of an earlier export",
            attempt=f"-o {folder / 'export'}",
        )


def written(texts: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Each file once it is written; other files of an earlier export are removed."""
    for place in {path.split("/")[0] for path in texts if "/" in path}:
        shutil.rmtree(folder / place, ignore_errors=True)
    for name, text in sorted(texts.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        yield path
