"""Rehearsal machines: lists them, makes them from a base or snapshot, takes snapshots and deletes them.

A machine is a stack of read-only layers (a root file system from the cache, then snapshots) under a layer of its own,
plus the few directories that must be plain ones. Its identity (machine id, host keys, name, address) goes into its own
layer at the fork, so forks of one snapshot never share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rehearsal import apt_sources, forks, gateway, network, requirements, ssh
from rehearsal.hardware import Hardware, h100
from rehearsal.machine import Machine
from rehearsal.places import Places, RehearsalRefused
from rehearsal.qemu_machine import QemuMachine
from rehearsal.rootfs import remove_tree

PREFIXES = {f"{apt_sources.system(release)[0]}{release[:2]}": release for release in apt_sources.CODENAMES}


def known(places: Places | None = None) -> list[Machine]:
    """Returns every machine of the rehearsal, by name."""
    places = places or Places.here()
    return [_machine(path.parent.name, places) for path in sorted(places.machines.glob("*/machine.json"))]


def _machine(name: str, places: Places) -> Machine:
    """Returns the machine of a record: sharing the outer kernel, or with its own."""
    nspawn_machine = Machine(name, places)
    return QemuMachine(name, places) if nspawn_machine.kind == "qemu" else nspawn_machine


def named(name: str, places: Places | None = None) -> Machine:
    """Returns the machine of that name; refuses an unknown name with a list of the machines."""
    candidates = {candidate.name: candidate for candidate in known(places)}
    if name in candidates:
        return candidates[name]
    names = ", ".join(candidates) or "none"
    raise RehearsalRefused(f"there is no machine {name}\n  known   {names}\n  try     python -m rehearsal up {name}")


def release_of(name: str) -> str:
    """The release that a machine of that name has unless another is chosen: d12a Debian 12, u24a Ubuntu 24.04."""
    return next((release for prefix, release in PREFIXES.items() if name.startswith(prefix)), "13")


def up(
    names: Sequence[str] = ("d13a",),
    release: str = "13",
    hardware: Hardware | None = None,
    places: Places | None = None,
    snapshot: str | None = None,
    kind: str = "nspawn",
) -> list[Machine]:
    """Starts the named machines until they answer over SSH; leaves running ones unchanged.

    Refuses: missing `requirements` on the outer machine; a bridge that belongs to another rehearsal.
    """
    places = places or Places.here()
    requirements.require(places, kind, has_root=snapshot is not None)
    with places.locked():
        ssh.make_key(places.identity_file)
        network.bring_up(places)
        wanted = [_existing_or_new(name, release, hardware or h100(), places, snapshot, kind) for name in names]
        for machine in wanted:
            machine.power_on()
        write_ssh_config(places)
    for machine in wanted:
        machine.wait()
    return wanted


def down(places: Places | None = None) -> None:
    """Removes every machine, mount, rule and process of this rehearsal; keeps snapshots and the cache."""
    places = places or Places.here()
    with places.locked():
        gateway.shut(places)
        for machine in known(places):
            machine.destroy()
        # A machine whose making was interrupted has a directory but no record.
        remove_tree(places.machines)
        remove_tree(ssh.control_directory(places))
        network.take_down(places)
        write_ssh_config(places)


def snapshot(source: Machine, name: str) -> Path:
    """Keeps the stopped machine's state under `name` for forks; the machine continues from it."""
    if source.state != "off":
        raise RehearsalRefused(
            f"{source.name} is {source.state}; a snapshot is taken of a machine that is off\n"
            f"  try     python -m rehearsal stop {source.name}"
        )
    take = forks.take_virtual_snapshot if source.kind == "qemu" else forks.take_snapshot
    return take(source.directory, source.places.snapshots / name)


def write_ssh_config(places: Places) -> None:
    """Writes ssh_config and known_hosts for the current machines."""
    records = [machine.record for machine in known(places)]
    ssh.write_config(
        places, [(str(record["name"]), str(record["address"]), str(record["host_key"])) for record in records]
    )


def _existing_or_new(
    name: str, release: str, hardware: Hardware, places: Places, snapshot: str | None, kind: str
) -> Machine:
    directory = Machine(name, places).directory
    if not (directory / "machine.json").exists():
        remove_tree(directory)
        make = forks.fork_virtual if kind == "qemu" else forks.fork
        make(directory, places, release, hardware, snapshot)
    return _machine(name, places)
