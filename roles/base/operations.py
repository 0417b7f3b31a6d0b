"""From what the base role saw to the commands that are missing. Pure; `step` runs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from deploy.errors import Refusal
from deploy.spec import DataDisk
from roles.apt import install
from roles.base.defaults import Defaults
from roles.base.facts import TIME_SERVICES
from roles.base.paths import DIRECTORIES, JOURNAL
from roles.places import PROGRAMS
from roles.seen import Seen
from roles.steps import Command, Refuse, write

FILES = Path(__file__).parents[2] / "files" / "base"
LABEL = "enginehouse"
"""File system label of a disk that adopt-disk formatted."""


_PROBED = {"FSTYPE": "TYPE", "LABEL": "LABEL", "UUID": "UUID"}
"""lsblk's names of what blkid found."""


def programs() -> dict[str, str]:
    """The helper programs of this role: path on the host, content."""
    return {f"{PROGRAMS}/{path.name}": path.read_text() for path in sorted(FILES.iterdir())}


def missing_programs(seen: Seen) -> Iterator[Command]:
    """Commands that place every helper program that differs."""
    for path, content in programs().items():
        if not seen.holds(path, content):
            yield write(path, content, mode="0755")


def packages(seen: Seen, chosen: Defaults, disk: DataDisk | None) -> Iterator[Command]:
    """Commands that install the tools, and what formats the declared disk."""
    wanted = dict.fromkeys(chosen.packages, "")
    if disk:
        wanted |= {"xfsprogs" if disk.file_system == "xfs" else "e2fsprogs": ""}
    yield from install(wanted, seen.packages)


def clock(seen: Seen) -> Iterator[Command]:
    """Commands that install and enable a time service where none is; any of the usual ones will do.

    Not whether it is synchronised: in some virtual machines the hypervisor keeps the clock and the service never runs.
    Preflight compares the clock itself.
    """
    kept = [name for name in TIME_SERVICES if seen.unit(name).exists]
    if not kept:
        yield from install({"systemd-timesyncd": ""}, seen.packages)
        yield "systemctl enable --now systemd-timesyncd.service"
    elif not any(seen.unit(name).starts_at_boot for name in kept):
        yield f"systemctl enable --now {kept[0]}"


def journal(seen: Seen, chosen: Defaults) -> Iterator[Command]:
    """Commands that bound the journal."""
    content = f"[Journal]\nSystemMaxUse={chosen.journal_max_mib}M\n"
    if not seen.holds(JOURNAL, content):
        yield write(JOURNAL, content, then="systemctl try-restart systemd-journald.service")


def directories(seen: Seen) -> Iterator[Command]:
    """Commands that make each directory that is missing or has another mode or owner."""
    found = set(seen.value("directories").splitlines())
    for path, mode in DIRECTORIES:
        if f"{mode} root {path}" not in found:
            yield f"install -d -m 0{mode} -o root -g root {path}"


def disk(seen: Seen, wanted: DataDisk) -> Iterator[Command]:
    """The command that formats, mounts and records a blank disk, nothing where that is done, a refusal for any
    other."""
    rows = [dict(re.findall(r'([A-Z]+)="([^"]*)"', line)) for line in seen.value("disk").splitlines()]
    if rows:
        probed = dict(line.partition("=")[::2] for line in seen.value("probed").splitlines())
        rows[0] |= {name: probed[key] for name, key in _PROBED.items() if key in probed}
    problem = _problem(rows, seen, wanted)
    if problem:
        yield Refuse(problem)
    elif not _is_adopted(rows[0], seen, wanted):
        yield f"{PROGRAMS}/adopt-disk {wanted.device} {wanted.mount} {wanted.file_system}"


def _is_adopted(row: dict[str, str], seen: Seen, wanted: DataDisk) -> bool:
    return row["LABEL"] == LABEL and row["MOUNTPOINT"] == wanted.mount and _is_kept(seen, f"UUID={row['UUID']} ")


def _is_kept(seen: Seen, start: str) -> bool:
    """Whether /etc/fstab names this disk, and no line of ours there is an earlier version's or a replaced disk's."""
    lines = seen.value("fstab").splitlines()
    ours = [line for line in lines if line.endswith(",nofail,x-systemd.device-timeout=30s 0 2")]
    return any(line.startswith(start) for line in lines) and all(
        line.startswith(start) and "x-systemd.before=docker.service" in line for line in ours
    )


def _problem(rows: list[dict[str, str]], seen: Seen, wanted: DataDisk) -> Refusal | None:
    """Why this disk may not be formatted, or None. Only a whole blank disk, or one this role formatted, is taken."""
    facts = {"found": "; ".join(seen.value("disk").splitlines()) or "nothing", "wanted": "a blank disk"}
    if not rows:
        return _refusal(wanted, "is not on this host", facts, "`lsblk` lists what is there")
    row = rows[0]
    if row.get("LABEL") == LABEL and row["FSTYPE"] == wanted.file_system and row["MOUNTPOINT"] in ("", wanted.mount):
        return _shadow(row, seen, wanted)
    if row.get("RO") == "1":
        return _refusal(wanted, "is read-only", facts, "attach it writable")
    if len(rows) > 1 or row["FSTYPE"] or row["MOUNTPOINT"] or seen.value("signatures"):
        how = f"if nothing on it is needed: wipefs --all {wanted.device}, then run again"
        return _refusal(wanted, "is not blank and was left alone", facts, how)
    return _shadow(row, seen, wanted)


def _shadow(row: dict[str, str], seen: Seen, wanted: DataDisk) -> Refusal | None:
    """Mounting over files would hide them: weights and releases would be fetched a second time, unseen."""
    source = next(iter(seen.value("mounted").split()), "")
    if row["MOUNTPOINT"] != wanted.mount and source and source != f"/dev/{row['NAME']}":
        facts = {"found": f"{source} is mounted there", "wanted": "nothing, or this disk"}
        how = f"name {source} as the data disk; or stop the servers and umount {wanted.mount}, then run again"
        return _refusal(wanted, f"cannot take the place of {source} at {wanted.mount}", facts, how)
    names = seen.value("in-the-way").split()
    ours = {path.rsplit("/", 1)[1] for path, _ in DIRECTORIES}
    if row["MOUNTPOINT"] == wanted.mount or not set(names) - ours - {"lost+found"}:
        return None
    facts = {"found": ", ".join(names), "wanted": "an empty directory"}
    return _refusal(wanted, f"would hide the files in {wanted.mount}", facts, f"move them away from {wanted.mount}")


def _refusal(wanted: DataDisk, what: str, facts: dict[str, str], attempt: str) -> Refusal:
    state = "the tools of the base role are in place; no disk was touched"
    return Refusal(f"data disk {wanted.device} {what}", facts=facts, attempt=attempt, state=state, kind="data-disk")
