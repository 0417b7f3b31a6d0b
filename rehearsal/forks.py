"""Layers of machines: quick forks of a root file system or a snapshot, each with its own identity.

A machine's identity (machine id, host keys, name, address, login key, hardware) goes into its own layer before its
first start, so forks of one snapshot never share it. Other modules start machines.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

from rehearsal import disk, network, nspawn, ssh
from rehearsal.apt_sources import system
from rehearsal.hardware import Hardware
from rehearsal.places import Places, RehearsalRefused
from rehearsal.rootfs import LOGIN_USER, root_file_system

GOOD_NAME = re.compile(r"^[a-z][a-z0-9]{0,8}$")  # the link `vb-r0-<name>` has room for 15 characters


def fork(directory: Path, places: Places, release: str, hardware: Hardware, snapshot: str | None) -> None:
    """Makes a machine in `directory`, with the directory's name, over a snapshot or a bare system; the machine was
    never started."""
    name = directory.name
    _require_good_name(name)
    origin = _origin(places, release, snapshot)
    _make_layer(directory)
    (directory / "root").mkdir(parents=True)
    if snapshot:
        _copy(places.snapshots / snapshot / "volumes", directory / "volumes")
    for volume in nspawn.VOLUMES:
        (directory / "volumes" / volume).mkdir(parents=True, exist_ok=True)
    address = _free_address(places)
    host_key = _write_identity(_Layer(directory / "upper", origin["lowers"]), name, address, places)
    _write_hardware(_Layer(directory / "upper", origin["lowers"]), hardware)
    decided = {"name": name, "number": places.number, "address": address, "host_key": host_key, "rate": None}
    write_record(directory, decided | {"gpu": hardware.gpu, "binds": hardware.binds()} | origin)


def fork_virtual(directory: Path, places: Places, release: str, hardware: Hardware, snapshot: str | None) -> None:
    """Acts like `fork` for a machine with its own kernel: makes a disk over the base or a snapshot, and an identity."""
    name = directory.name
    _require_good_name(name)
    origin = _virtual_origin(places, release, snapshot)
    files = directory / "identity"
    files.mkdir(parents=True)
    disk.own_disk(Path(origin["disk"]), directory / "disk.qcow2")
    address = _free_address(places)
    layer = _Layer(files, [str(files)])
    (files / "home" / LOGIN_USER / ".ssh").mkdir(parents=True)
    host_key = _write_identity(layer, name, address, places)
    for path in (files / "home" / LOGIN_USER, *(files / "home" / LOGIN_USER).rglob("*")):
        os.chown(path, disk.LOGIN_ID, disk.LOGIN_ID)
    (files / "home" / LOGIN_USER / ".ssh").chmod(0o700)
    # PID 1 reads the machine id before any disk except the root is mounted, so the kernel's command line has it.
    machine_id = (files / "etc/machine-id").read_text().strip()
    (files / "etc/machine-id").unlink()
    _write_hardware(layer, hardware)
    disk.identity_disk(files, directory / "identity.raw")
    decided = {"name": name, "number": places.number, "address": address, "host_key": host_key, "rate": None}
    decided |= {"gpu": hardware.gpu}
    write_record(directory, decided | origin | {"kind": "qemu", "machine_id": machine_id})


def take_virtual_snapshot(directory: Path, place: Path) -> Path:
    """Acts like `take_snapshot` for a machine with its own kernel; the machine continues in a new layer over its
    disk."""
    _refuse_a_second(place)
    record = read_record(directory)
    making = place.with_name(f"{place.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    kept = {key: record[key] for key in ("os", "base")} | {"kind": "qemu", "disk": str(place / "disk.qcow2")}
    write_record(making, kept)
    (directory / "disk.qcow2").rename(making / "disk.qcow2")
    making.rename(place)
    disk.own_disk(place / "disk.qcow2", directory / "disk.qcow2")
    return place


def virtual_snapshot(place: Path, release: str, more: tuple[str, ...]) -> None:
    """Makes a snapshot without starting a machine: a bare Debian with its own kernel and `more` packages."""
    base = disk.base_disk(release, more)
    place.mkdir(parents=True)
    write_record(place, {"os": system(release), "base": str(base.place), "kind": "qemu", "disk": str(base.disk)})


def take_snapshot(directory: Path, place: Path) -> Path:
    """Keeps the state of the stopped machine in `directory` at `place`; the machine continues above it."""
    _refuse_a_second(place)
    record = read_record(directory)
    making = place.with_name(f"{place.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    _copy(directory / "volumes", making / "volumes")
    lowers = [str(place / "upper"), *record["lowers"]]
    write_record(making, {"os": record["os"], "lowers": lowers})
    # The machine's layer becomes the snapshot's, and the machine gets a new layer above; only volumes are copied.
    (directory / "upper").rename(making / "upper")
    making.rename(place)
    _make_layer(directory)
    write_record(directory, record | {"lowers": lowers})
    return place


def _refuse_a_second(place: Path) -> None:
    if place.exists():
        raise RehearsalRefused(f"there is a snapshot {place.name} already\n  found   {place}\n  try     another name")


def require_layers(directory: Path) -> None:
    """Refuses if a layer under the machine is missing, for example after the cache was emptied."""
    for lower in read_record(directory)["lowers"]:
        if not Path(lower).is_dir():
            raise RehearsalRefused(
                f"{directory.name} cannot start: a layer under it is gone\n  wanted  {lower}\n"
                f"  try     python -m rehearsal down, then up: the machine is made anew"
            )


def read_record(directory: Path) -> dict[str, Any]:
    """Returns the settings with which the machine or snapshot was made."""
    record: dict[str, Any] = json.loads((directory / "machine.json").read_text())
    # Snapshots outlive versions of this code; the first snapshots were all of Debian.
    return record if "os" in record else record | {"os": system(record.get("debian", "13"))}


def write_record(directory: Path, record: dict[str, Any]) -> None:
    """Writes the record to machine.json by one rename."""
    scratch = directory / "machine.json.new"
    scratch.write_text(json.dumps(record, indent=2) + "\n")
    scratch.replace(directory / "machine.json")


class _Layer:
    """The machine's own layer: its files hide those of lower layers at the same path."""

    def __init__(self, upper: Path, lowers: list[str]) -> None:
        self.upper = upper
        self.lowers = [Path(lower) for lower in lowers]

    def write(self, path: str, text: str, mode: int = 0o644, owned_like_parent: bool = False) -> None:
        """Writes the file with that content; directories made on the way keep the lower layers' owner and mode."""
        target = self.upper / path
        self._directory(Path(path).parent)
        target.unlink(missing_ok=True)
        target.touch(mode=mode)
        target.chmod(mode)
        if owned_like_parent:
            status = target.parent.stat()
            os.chown(target, status.st_uid, status.st_gid)
        target.write_text(text)

    def _directory(self, path: Path) -> None:
        if path == Path(".") or (self.upper / path).is_dir():
            return
        self._directory(path.parent)
        (self.upper / path).mkdir()
        below = next((lower / path for lower in self.lowers if (lower / path).is_dir()), None)
        if below:
            shutil.copystat(below, self.upper / path)
            os.chown(self.upper / path, below.stat().st_uid, below.stat().st_gid)


def _write_identity(layer: _Layer, name: str, address: str, places: Places) -> str:
    """Gives the machine its own name, address, machine id, host key and login key; returns the public host key."""
    net = network.Network(places.number)
    key = layer.upper.parent / "ssh_host_ed25519_key"
    ssh.make_key(key)
    public = key.with_suffix(".pub").read_text()
    layer.write("etc/ssh/ssh_host_ed25519_key", key.read_text(), 0o600)
    layer.write("etc/ssh/ssh_host_ed25519_key.pub", public)
    layer.write(
        f"home/{LOGIN_USER}/.ssh/authorized_keys", places.identity_file.with_suffix(".pub").read_text(), 0o600, True
    )
    layer.write("etc/machine-id", secrets.token_hex(16) + "\n", 0o444)
    layer.write("etc/hostname", f"{name}\n")
    layer.write("etc/hosts", _hosts(name, net))
    layer.write("etc/resolv.conf", "".join(f"nameserver {server}\n" for server in network.resolvers()))
    layer.write("etc/systemd/network/10-host0.network", _network_unit(address, net))
    return " ".join(public.split()[:2])


def _write_hardware(layer: _Layer, hardware: Hardware) -> None:
    layer.write("etc/rehearsal/hardware.json", hardware.to_json())
    if hardware.is_real:
        layer.write("etc/rehearsal/driver", f"{hardware.driver}\n")
    else:
        layer.write("etc/rehearsal/hardware.table", hardware.to_table())


def _hosts(name: str, net: network.Network) -> str:
    lines = ["127.0.0.1 localhost", f"127.0.1.1 {name}", f"{net.bridge_address} {' '.join(network.SERVICE_NAMES)}"]
    return "\n".join([*lines, "::1 localhost ip6-localhost ip6-loopback"]) + "\n"


def _network_unit(address: str, net: network.Network) -> str:
    return (
        f"[Match]\nName=host0\n\n[Network]\nAddress={address}/{net.subnet.prefixlen}\nGateway={net.bridge_address}\n"
        "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    )


def _virtual_origin(places: Places, release: str, snapshot: str | None) -> dict[str, Any]:
    if not snapshot:
        base = disk.base_disk(release)
        return {"os": system(release), "base": str(base.place), "disk": str(base.disk)}
    return _snapshot(places, snapshot)


def _origin(places: Places, release: str, snapshot: str | None) -> dict[str, Any]:
    if not snapshot:
        return {"os": system(release), "lowers": [str(root_file_system(release))]}
    return _snapshot(places, snapshot)


def _snapshot(places: Places, snapshot: str) -> dict[str, Any]:
    place = places.snapshots / snapshot
    if not (place / "machine.json").exists():
        known = ", ".join(sorted(path.parent.name for path in places.snapshots.glob("*/machine.json"))) or "none"
        raise RehearsalRefused(f"there is no snapshot {snapshot}\n  known   {known}\n  state   no machine was made")
    return read_record(place)


def _make_layer(directory: Path) -> None:
    shutil.rmtree(directory / "work", ignore_errors=True)
    for part in ("upper", "work"):
        (directory / part).mkdir(parents=True)
        (directory / part).chmod(0o755)


def _copy(source: Path, target: Path) -> None:
    # cp keeps what shutil drops: owners, hard links, extended attributes of Docker's own overlay layers.
    subprocess.run(["cp", "--archive", "--reflink=auto", str(source), str(target)], check=True)


def _free_address(places: Places) -> str:
    net = network.Network(places.number)
    taken = {read_record(path.parent)["address"] for path in places.machines.glob("*/machine.json")}
    return next(address for index in range(200) if (address := net.machine_address(index)) not in taken)


def _require_good_name(name: str) -> None:
    if not GOOD_NAME.match(name):
        raise RehearsalRefused(
            f"a machine cannot be called {name!r}\n  wanted  a small letter, then at most 8 small letters or digits\n"
            "  try     d13a"
        )
