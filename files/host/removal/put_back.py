"""Foreign files with merged settings of this project: our part is removed, the former state restored."""

from __future__ import annotations

import functools
import glob
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from host.removal.host_state import BEFORE, PREFIX, SETTINGS, Step, no_act, remove_empty

OWN_KEYS = {"features": ("cdi",), "log-driver": (), "log-opts": ("max-size", "max-file"), "data-root": ()}


def merged_settings() -> Iterator[Step]:
    """Keys of daemon.json and containerd's config.toml: ours are removed, former values restored, other keys stay."""
    path, kept = Path(f"{PREFIX}/etc/docker/daemon.json"), BEFORE / "daemon.json"
    if BEFORE.exists() and path.exists():
        now, before = json.loads(path.read_text()), json.loads(kept.read_text() or "{}") if kept.exists() else {}
        wanted = unmerged(now, before)
        if wanted != now:
            keys = ", ".join(changed(now, wanted))
            # No restart: it would stop foreign containers.
            yield (
                f"keys of {path} (a Docker that stays reads it at its next start): {keys}",
                lambda: rewrite(path, wanted, kept, before),
            )
    yield from root_of_containerd()
    yield from certificates()


def root_of_containerd() -> Iterator[Step]:
    """Restores the data directory of containerd."""
    path, kept = Path(f"{PREFIX}/etc/containerd/config.toml"), BEFORE / "config.toml"
    if kept.exists() and path.exists() and path.read_text() != kept.read_text():
        if without_root(path.read_text()) == without_root(kept.read_text()):
            yield f"the root in {path}", functools.partial(shutil.copy2, kept, path)
        else:
            yield f"stays: {path}, which was also changed by others", no_act


def certificates() -> Iterator[Step]:
    for settings in glob.glob(f"{SETTINGS}/pull/*.json"):
        folder = Path(f"{PREFIX}/etc/docker/certs.d") / json.loads(Path(settings).read_text())["registry"]
        if (folder / "ca.crt").exists():
            yield f"certificate: {folder}/ca.crt", functools.partial(remove_certificate, folder)


def unmerged(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """`now` with our keys in their former state; new keys are removed, and objects that become empty."""
    wanted = dict(now)
    for key, inner in OWN_KEYS.items():
        if inner and isinstance(now.get(key), dict):
            inside, was = dict(now[key]), before.get(key, {})
            for name in inner:
                inside.pop(name, None)
            inside |= {name: was[name] for name in inner if name in was}
            wanted[key] = inside
            if not inside and key not in before:
                del wanted[key]
        elif key in before:
            wanted[key] = before[key]
        else:
            wanted.pop(key, None)
    return wanted


def changed(now: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [key for key in now if now[key] != wanted.get(key)]


def rewrite(path: Path, wanted: dict[str, Any], kept: Path, before: dict[str, Any]) -> None:
    """Restores the file byte by byte if nothing else changed; removes it if it is new and nothing is left."""
    if kept.exists() and wanted == before:
        shutil.copy2(kept, path)
    elif wanted or kept.exists():
        path.write_text(json.dumps(wanted, indent=4) + "\n")
    else:
        path.unlink()


def without_root(config: str) -> str:
    return re.sub(r'(?m)^root\s*=\s*".*"\n*', "", config).strip()


def remove_certificate(folder: Path) -> None:
    """Removes the certificate, and folders that held nothing else."""
    (folder / "ca.crt").unlink()
    remove_empty(folder, folder.parent)


def apt_sources() -> Iterator[Step]:
    for kept in sorted(path for path in (BEFORE / "apt").rglob("*") if path.is_file()):
        path = Path(f"{PREFIX}/etc/apt") / kept.relative_to(BEFORE / "apt")
        aside = path.with_name(f"{path.name}.disabled")
        if not path.exists() and aside.exists():
            yield f"set aside: {path} is restored", functools.partial(aside.rename, path)
        elif path.exists() and path.read_text() != kept.read_text():
            ours = re.sub(r"(?m)^# set aside by enginehouse: ", "", path.read_text()).replace("main contrib", "main")
            if ours == kept.read_text().replace("main contrib", "main"):
                yield f"our changes in {path}", functools.partial(shutil.copy2, kept, path)
