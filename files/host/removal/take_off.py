"""Removes everything that this project installed on a host. The role removal runs it on standard input.

    list       prints a line for each item to remove, or to keep with the reason; changes nothing
    remove     prints the same lines, and removes the items; after an interruption the next call does the rest

Our files are recognised by name (units, programs, settings, apt files, data), and packages and merged settings by the
record of the host before the first deploy (/etc/enginehouse/before, remember.sh). Without a record, packages,
daemon.json and apt's own files are kept. A package that foreign software needs is kept, and so is Docker while foreign
containers exist. The record is removed last.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from host.removal.host_state import (
    DATA,
    LABELS,
    PREFIX,
    SETTINGS,
    Step,
    contents,
    docker,
    empty,
    gib,
    recorded,
    remove_empty,
    run,
)
from host.removal.packages import packages, roots_of_docker
from host.removal.put_back import apt_sources, merged_settings

SYSTEMD = f"{PREFIX}/etc/systemd/system"
UNITS = ("triton@*", "llm@*", "enginehouse-*")
FILES = (
    *(f"{SYSTEMD}/{unit}" for unit in UNITS),
    *(f"{SYSTEMD}/*.wants/{unit}" for unit in UNITS),
    f"{SYSTEMD}/nvidia-persistenced.service.d/52-enginehouse.conf",
    f"{SYSTEMD}/docker.service.d/52-enginehouse.conf",
    f"{SYSTEMD}/docker.service.d/52-enginehouse-proxy.conf",
    f"{PREFIX}/etc/systemd/journald.conf.d/52-enginehouse.conf",
    f"{PREFIX}/etc/apt/apt.conf.d/52enginehouse-*",
    f"{PREFIX}/etc/apt/sources.list.d/enginehouse-*",
    f"{PREFIX}/etc/apt/keyrings/enginehouse-*",
    f"{PREFIX}/etc/needrestart/conf.d/52-enginehouse-*",
    f"{PREFIX}/etc/modprobe.d/enginehouse-*",
    f"{PREFIX}/usr/local/lib/enginehouse",
    *(f"{PREFIX}/etc/{depth}*.enginehouse-{half}" for depth in ("*/", "*/*/") for half in ("new", "undo")),
    f"{PREFIX}/run/enginehouse",
    f"{PREFIX}/run/enginehouse-*",
    f"{PREFIX}/var/lib/enginehouse-gateway",
)
EMPTIED = (
    "nvidia-persistenced.service.d",
    "docker.service.d",
    "docker.service.wants",
    "../journald.conf.d",
    "../../needrestart/conf.d",
    "../../needrestart",
)
USERS = ("enginehouse-traffic", "enginehouse-gateway", "enginehouse-fetch", "enginehouse-share")
OWN_RULES, OWN_CHAIN = ("enginehouse: no way out", "enginehouse: no way in"), "ENGINEHOUSE-LOCAL"
FSTAB_END = "nofail,x-systemd.device-timeout=30s 0 2"


def main(arguments: list[str]) -> int:
    """0 after listing every step, and with `remove` doing it."""
    for sentence, act in steps():
        print(sentence, flush=True)
        if arguments == ["remove"]:
            act()
    return 0


def steps() -> Iterator[Step]:
    """Every step in order: users of an item before the item, the record last."""
    yield from units()
    yield from containers()
    yield from firewall_rules()
    yield from images()
    yield from merged_settings()
    yield from apt_sources()
    yield from disk()
    docker_roots, is_ours = roots_of_docker(), bool(contents(DATA))  # read before the files are removed
    yield from files()
    yield from users()
    if contents(DATA):
        yield f"data: {DATA} ({gib(DATA)} GiB: {contents(DATA)})", lambda: empty(DATA)
    yield from packages(docker_roots, is_ours)
    if Path(SETTINGS).exists():
        yield f"settings: {SETTINGS}", lambda: shutil.rmtree(SETTINGS)


def units() -> Iterator[Step]:
    """Steps for servers, timers and long work, which are stopped and disabled."""
    listed = run("systemctl", "list-units", "--all", "--plain", "--no-legend", *UNITS).splitlines()
    names = sorted(line.split()[0] for line in listed if line.strip() and line.split()[1] != "not-found")
    if names:
        # Timers first, so that none fires in between. Their links for boot are removed with the files.
        ordered = sorted(names, key=lambda name: (not name.endswith(".timer"), name))

        def stop() -> None:
            run("systemctl", "stop", *ordered)
            if any(name.startswith("enginehouse-swap@") for name in names):
                # A stopped swap restores the earlier release and starts it.
                run("systemctl", "stop", *ordered)

        yield f"units: {', '.join(names)}", stop


def containers() -> Iterator[Step]:
    """Steps for our containers, probes and network."""
    ids = [line for label in LABELS for line in docker("ps", "--all", "--quiet", "--filter", f"label={label}")]
    if ids:
        yield f"containers: {len(ids)}", lambda: docker("rm", "--force", *ids)
    if docker("network", "ls", "--quiet", "--filter", "name=^enginehouse$"):
        yield "network: enginehouse", lambda: docker("network", "rm", "enginehouse")


def users() -> Iterator[Step]:
    for user in USERS:
        if run("getent", "passwd", user):
            yield f"user: {user}", functools.partial(run, "userdel", user)


def firewall_rules() -> Iterator[Step]:
    for program in ("iptables", "ip6tables"):
        listed = run(program, "-w", "-S").splitlines()
        rules = [rule for rule in listed if any(comment in rule for comment in OWN_RULES)]
        chain = f"-N {OWN_CHAIN}" in listed
        if rules or chain:
            name = f"{program}: {len(rules)} rules of ours" + (f", chain {OWN_CHAIN}" if chain else "")
            yield name, functools.partial(delete_rules, program, rules, chain)


def delete_rules(program: str, rules: list[str], chain: bool) -> None:
    """Deletes the rules, and then the chain that they refer to."""
    for rule in rules:
        words = re.findall(r'"[^"]*"|\S+', rule)
        run(program, "-w", "-D", *(word.strip('"') for word in words[1:]))
    for action in ("-F", "-X") if chain else ():
        run(program, "-w", action, OWN_CHAIN)


def images() -> Iterator[Step]:
    """Steps for images that this project pulled."""
    records = [Path(path) for path in sorted(glob.glob(f"{DATA}/images/*.json"))]
    for reference in [json.loads(record.read_text())["reference"] for record in records]:
        if docker("image", "inspect", "--format", "{{.Id}}", reference):
            yield f"image: {reference}", functools.partial(docker, "image", "rm", reference)


def disk() -> Iterator[Step]:
    """The step that unmounts the data disk; its file system is kept, because its content may be needed."""
    table, mount = Path(f"{PREFIX}/etc/fstab"), "/var/lib/enginehouse"
    # Only the unchanged line of adopt-disk: any other line for this mount belongs to somebody else.
    written = rf"UUID=[^ ]+ {re.escape(mount)} (ext4|xfs) defaults,noatime,(x-systemd[^ ]+,)?{FSTAB_END}\n?"
    lines = table.read_bytes().splitlines(keepends=True) if table.exists() else []
    ours = [line for line in lines if re.fullmatch(written.encode(), line)]
    if ours:

        def unmount() -> None:
            empty(f"{DATA}/docker", f"{DATA}/containerd", DATA)
            run("umount", mount)
            new = table.with_name("fstab.enginehouse-new")
            shutil.copy2(table, new)
            new.write_bytes(b"".join(line for line in table.read_bytes().splitlines(keepends=True) if line not in ours))
            new.rename(table)

        yield f"disk: {mount}: our files are removed and it is unmounted; its file system stays", unmount


def files() -> Iterator[Step]:
    """Steps for programs, units, and our files of apt and other programs."""
    ours = sorted(path for pattern in FILES for path in glob.glob(pattern))
    if not ours:
        return

    def remove() -> None:
        for path in ours:
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        known = recorded("paths")
        for name in EMPTIED:
            folder = os.path.normpath(f"{SYSTEMD}/{name}")
            if folder.removeprefix(PREFIX) not in known:
                remove_empty(Path(folder))
        run("systemctl", "daemon-reload")
        run("systemctl", "reset-failed", *UNITS)
        if any("journald" in path for path in ours):
            run("systemctl", "try-restart", "systemd-journald.service")
        if any("modprobe.d" in path for path in ours):
            run("update-initramfs", "-u")

    yield f"files: {', '.join(ours)}", remove
