"""Builds Debian packages from the folders under packages/, whose texts have @HOLES@ to fill.

A source folder holds `control` and, if needed, maintainer scripts, `files/` (the tree as installed) and `build` (a
program that adds compiled things to the tree). Each folder says which package it replaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

PACKAGES = Path(__file__).parent / "packages"
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")
DATA = ("conffiles", "triggers")


def filled(text: str, holes: Mapping[str, str]) -> str:
    """Returns `text` with every @NAME@ of `holes` replaced."""
    for name, value in holes.items():
        text = text.replace(f"@{name}@", value)
    return text


def build_deb(
    source: Path,
    holes: Mapping[str, str],
    into: Path,
    *,
    payload: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Builds the .deb of one source folder; `payload` is a ready tree installed beside the folder's own files."""
    with tempfile.TemporaryDirectory(prefix="deb-") as scratch:
        tree = Path(scratch)
        tree.chmod(0o755)
        if payload:
            shutil.copytree(payload, tree, symlinks=True, dirs_exist_ok=True)
        _install_files(source / "files", tree, holes)
        _run_build(source / "build", tree, holes, environment or {})
        _write_control(source, tree / "DEBIAN", holes)
        return _packed(tree, into)


def _install_files(files: Path, tree: Path, holes: Mapping[str, str]) -> None:
    for file in sorted(files.rglob("*")) if files.is_dir() else ():
        if file.is_dir():
            continue
        target = tree / filled(str(file.relative_to(files)), holes)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(filled(file.read_text(), holes))
        target.chmod(0o755 if os.access(file, os.X_OK) else 0o644)


def _run_build(build: Path, tree: Path, holes: Mapping[str, str], environment: Mapping[str, str]) -> None:
    if not build.exists():
        return
    script = filled(build.read_text(), holes)
    surroundings = {**os.environ, "SOURCES": str(PACKAGES / "sources"), **environment}
    subprocess.run(["sh", "-c", script, "build", str(tree)], check=True, env=surroundings)


def _write_control(source: Path, control: Path, holes: Mapping[str, str]) -> None:
    control.mkdir()
    described = filled((source / "control").read_text(), holes)
    maintainer = "Maintainer: enginehouse rehearsal <rehearsal@localhost>\n"
    (control / "control").write_text(described.replace("Description:", f"{maintainer}Description:", 1))
    for name in (*SCRIPTS, *DATA):
        if (source / name).exists():
            (control / name).write_text(filled((source / name).read_text(), holes))
            (control / name).chmod(0o755 if name in SCRIPTS else 0o644)


def _packed(tree: Path, into: Path) -> Path:
    for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir() and not path.is_symlink())]:
        folder.chmod(0o755)
    into.mkdir(parents=True, exist_ok=True)
    # zstd at its fastest: the packages are installed on throw-away machines far more often than they are downloaded.
    command = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "--build", str(tree), str(into)]
    output = subprocess.run(command, check=True, text=True, capture_output=True).stdout
    return Path(output.rsplit("'", 2)[1])
