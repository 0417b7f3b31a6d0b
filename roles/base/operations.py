"""Commands for the difference between a host's base facts and its wanted state. Pure; `step` runs them."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from shlex import join

from deploy.catalog import SYSTEMS
from deploy.refusals import Refusal
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from deploy.spec import DataDisk, Mirrors
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping.apt import armoured, install
from roles._shipping.places import PROGRAMS
from roles._shipping.proxy_files import left_files
from roles.base.defaults import DIRECTORIES, JOURNAL, PARTS, REPOSITORIES, SOURCES, SYSTEM_KEY, SYSTEM_LIST, Defaults
from roles.base.facts import TIME_SERVICES

FILES = Path(__file__).parents[2] / "files" / "shell"
HELPERS = ("adopt-disk", "patient-apt")
FETCHING = ("ca-certificates", "python3")
"""Packages that the fetch of weights needs; the others are installed while it runs."""
LABEL = "enginehouse"
"""File system label of a disk that adopt-disk formatted."""


_PROBED = {"FSTYPE": "TYPE", "LABEL": "LABEL", "UUID": "UUID"}
"""lsblk's names for properties that blkid found."""
_BEFORE = "x-systemd.before=docker.service,x-systemd.before=containerd.service"
_END = "nofail,x-systemd.device-timeout=30s 0 2"
"""Options in the fstab line that adopt-disk writes."""


@cache
def programs() -> Mapping[str, str]:
    return {f"{PROGRAMS}/{name}": (FILES / name).read_text() for name in HELPERS}


def missing_programs(facts: HostFacts) -> Iterator[Command]:
    for path, content in programs().items():
        if not facts.holds(path, content):
            yield write(path, content, mode="0755")


def sources(facts: HostFacts, mine: Slice | MonitorSlice | BalancerSlice) -> Iterator[Command]:
    """Commands after which apt reads the distribution's mirror, and of all other sources only this project's."""
    mirror = mine.mirrors.system
    assert mirror
    wanted = {SYSTEM_KEY: armoured(mirror.key_file), SYSTEM_LIST: system_list(mine), SOURCES: settings_of_apt(mine)}
    changed = [path for path, content in wanted.items() if not facts.holds(path, content)]
    if changed:
        yield f"install -d -m 0755 {PARTS} /etc/apt/keyrings"
        for name in REPOSITORIES:
            file = f"enginehouse-{name}.list"
            yield f"ln -sfn /etc/apt/sources.list.d/{file} {PARTS}/{file}"
        for path in changed:
            yield write(path, wanted[path])
        yield f"{PROGRAMS}/patient-apt update"


def is_sourced(mine: Slice | MonitorSlice | BalancerSlice) -> bool:
    """True if apt reads a mirror of the distribution, or a bundle, in place of the host's sources."""
    return bool(mine.mirrors.system and (mine.bundle or isinstance(mine, Slice)))


def system_list(mine: Slice | MonitorSlice | BalancerSlice) -> str:
    """The source list of the distribution at its mirror."""
    system, mirror = SYSTEMS[mine.machine.os if isinstance(mine, Slice) else mine.os], mine.mirrors.system
    assert mirror
    url = mirror.url.rstrip("/")
    lines = (f"{url}/{folder} {suite} {system.components}" for folder, suite in system.archive)
    return "".join(f"deb [signed-by={SYSTEM_KEY}] {line}\n" for line in lines)


def settings_of_apt(mine: Slice | MonitorSlice | BalancerSlice) -> str:
    """apt's settings for the mirror. A bundle has each list in one form, without translations."""
    settings = {"Dir::Etc::SourceList": SYSTEM_LIST, "Dir::Etc::SourceParts": PARTS}
    if mine.bundle:
        settings |= {"Acquire::http::Proxy::127.0.0.1": "DIRECT", "Acquire::Check-Valid-Until": "false"}
        settings |= {"Acquire::By-Hash": "no", "Acquire::PDiffs": "false", "Acquire::Languages": "none"}
    return "".join(f'{name} "{value}";\n' for name, value in settings.items())


def own_sources(facts: HostFacts, mirrors: Mirrors | None) -> Iterator[Command]:
    if SOURCES in facts.files and not (mirrors and mirrors.system):
        yield f"rm -f {SOURCES} && {PROGRAMS}/patient-apt update"


def tools(facts: HostFacts, mine: Slice | MonitorSlice | BalancerSlice, chosen: Defaults) -> Iterator[Command]:
    """Commands that install the tools of a fetch and of the declared disk, from the inventory's sources, through its
    proxy or without one."""
    if mine.proxy is None:
        yield from left_files(facts)
    yield from own_sources(facts, mine.mirrors if is_sourced(mine) else None)
    wanted = {name: "" for name in chosen.packages if name in FETCHING}
    if place := mine.data_disk():
        wanted |= {"xfsprogs" if place.file_system == "xfs" else "e2fsprogs": ""}
    yield from install(wanted, facts.packages)


def other_tools(facts: HostFacts, chosen: Defaults) -> Iterator[Command]:
    yield from install({name: "" for name in chosen.packages if name not in FETCHING}, facts.packages)


def clock(facts: HostFacts) -> Iterator[Command]:
    """Commands that install and enable a time service if the host has none; any of the usual ones is enough.

    Synchronisation is not checked: in some virtual machines the hypervisor keeps the clock and the service never runs.
    Preflight compares the clock itself.
    """
    kept = [name for name in TIME_SERVICES if facts.unit(name).exists]
    if not kept:
        yield from install({"systemd-timesyncd": ""}, facts.packages)
        yield "systemctl enable --now systemd-timesyncd.service"
    elif not any(facts.unit(name).starts_at_boot for name in kept):
        yield f"systemctl enable --now {kept[0]}"


def journal(facts: HostFacts, chosen: Defaults) -> Iterator[Command]:
    """Commands that bound the journal."""
    content = f"[Journal]\nSystemMaxUse={chosen.journal_max_mib}M\n"
    if not facts.holds(JOURNAL, content):
        yield write(JOURNAL, content, then="systemctl try-restart systemd-journald.service")


def directories(facts: HostFacts) -> Iterator[Command]:
    """The command that makes the directories that are missing or have another mode or owner."""
    present = set(facts.value("directories").splitlines())
    lacking = [path for path in DIRECTORIES if f"755 root {path}" not in present]
    if lacking:
        yield f"install -d -m 0755 -o root -g root {' '.join(lacking)}"


def disk(facts: HostFacts, wanted: DataDisk) -> Iterator[Command]:
    """The command that formats, mounts and records a blank disk; no command for a disk that has all this, a refusal for
    any other disk."""
    rows = [dict(re.findall(r'([A-Z]+)="([^"]*)"', line)) for line in facts.value("disk").splitlines()]
    if rows:
        probed = dict(line.partition("=")[::2] for line in facts.value("probed").splitlines())
        rows[0] |= {name: probed[key] for name, key in _PROBED.items() if key in probed}
    problem = _problem(rows, facts, wanted)
    if problem:
        yield Refuse(problem)
    elif not _is_adopted(rows[0], facts, wanted):
        yield f"{PROGRAMS}/adopt-disk {join((wanted.device, wanted.mount, wanted.file_system))}"


def _is_adopted(row: dict[str, str], facts: HostFacts, wanted: DataDisk) -> bool:
    """True if the disk is mounted and has today's line in /etc/fstab, or an edited form of this line."""
    ours = f"UUID={row['UUID']} {wanted.mount} {wanted.file_system} defaults,noatime,{_BEFORE},{_END}"
    kept = [line for line in facts.value("fstab").splitlines() if not _ours(line) or line == ours]
    is_kept = len(kept) == len(facts.value("fstab").splitlines()) and any(_names(line, row, wanted) for line in kept)
    return row["LABEL"] == LABEL and row["MOUNTPOINT"] == wanted.mount and is_kept


def _ours(line: str) -> bool:
    return bool(re.fullmatch(rf"UUID=[^ ]+ [^ ]+ (ext4|xfs) defaults,noatime,({_BEFORE},)?{_END}", line))


def _names(line: str, row: dict[str, str], wanted: DataDisk) -> bool:
    """True if the line of /etc/fstab is for this disk, by adopt-disk's own rule."""
    spec = line.split()[0].replace('"', "")
    return spec in {f"UUID={row['UUID'] or 'none'}", f"LABEL={LABEL}", wanted.device, f"/dev/{row['NAME']}"}


def _problem(rows: list[dict[str, str]], facts: HostFacts, wanted: DataDisk) -> Refusal | None:
    """The reason why this disk may not be formatted, or None for a whole blank disk and for one that we formatted."""
    evidence = {"found": "; ".join(facts.value("disk").splitlines()) or "nothing", "wanted": "a blank disk"}
    if not rows:
        return _refusal(wanted, "is not on this host", evidence, "`lsblk` lists the present disks")
    row = rows[0]
    if row.get("LABEL") == LABEL and row["FSTYPE"] == wanted.file_system and row["MOUNTPOINT"] in ("", wanted.mount):
        return _shadow(row, facts, wanted)
    if row.get("RO") == "1":
        return _refusal(wanted, "is read-only", evidence, "attach it writable")
    if len(rows) > 1 or row["FSTYPE"] or row["MOUNTPOINT"] or facts.value("signatures"):
        how = f"if nothing on it is needed: wipefs --all {wanted.device}, then run again"
        if row["MOUNTPOINT"] == wanted.mount:
            how = "leave data_disk out of the inventory: what is mounted there is used as it is"
        return _refusal(wanted, "is not blank and was left alone", evidence, how)
    return _shadow(row, facts, wanted)


def _shadow(row: dict[str, str], facts: HostFacts, wanted: DataDisk) -> Refusal | None:
    """The refusal to mount over files: hidden weights and releases would be fetched a second time."""
    lines = facts.value("fstab").splitlines()
    foreign_line = next((line for line in lines if not _ours(line) and not _names(line, row, wanted)), "")
    source = next(iter(facts.value("mounted").split()), "")
    if foreign_line or (row["MOUNTPOINT"] != wanted.mount and source and source != f"/dev/{row['NAME']}"):
        occupants = [f"{source} is mounted there"] * bool(source) + [f"/etc/fstab: {foreign_line}"] * bool(foreign_line)
        evidence = {"found": "; ".join(occupants), "wanted": "nothing, or this disk"}
        how = (
            f"leave data_disk out of the inventory to use {source or 'that one'} as it is; or stop Docker and the"
            f" servers, umount {wanted.mount}, take its line out of /etc/fstab, then run again"
        )
        what = f"cannot take the place of {source or foreign_line.split()[0]} at {wanted.mount}"
        return _refusal(wanted, what, evidence, how)
    files = facts.value("in-the-way").splitlines()
    if row["MOUNTPOINT"] == wanted.mount or not files:
        return None
    evidence = {"found": ", ".join(files), "wanted": "nothing but empty directories"}
    how = f"move them away from {wanted.mount}, then run again"
    if any(name.startswith(("docker/", "containerd/")) for name in files):
        how = f"Docker began a store there: systemctl stop docker.socket docker containerd, {how}"
    return _refusal(wanted, f"would hide the files in {wanted.mount}", evidence, how)


def _refusal(wanted: DataDisk, what: str, evidence: dict[str, str], attempt: str) -> Refusal:
    state = "the tools of the base role are in place; no disk was touched"
    return Refusal(f"data disk {wanted.device} {what}", facts=evidence, attempt=attempt, state=state, kind="data-disk")
