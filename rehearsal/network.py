"""The private bridge of the machines and the stand-in services, and its route through the outer machine.

Addresses are static, so that an inventory can name them. `take_down` finds everything made here by name and removes it;
the filter rules are in separate chains, so the rest of the outer machine's firewall stays unchanged.
"""

from __future__ import annotations

import ipaddress
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rehearsal import kernel_settings, running
from rehearsal.places import NUMBERS, Places, RehearsalRefused

BRIDGE_ADDRESS = "10.213.0.1"  # of rehearsal number 0; services listen on `Network.bridge_address`
SERVICE_NAMES = ("apt.rehearsal.internal", "registry.rehearsal.internal", "hub.rehearsal.internal")
FIRST_MACHINE = 10


@dataclass(frozen=True)
class Network:
    """The bridge and addresses of one rehearsal; the number separates several on one outer machine."""

    number: int = 0

    @property
    def bridge(self) -> str:
        """Returns the interface name on the outer machine."""
        return f"rehearsal{self.number}"

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"10.213.{self.number}.0/24")

    @property
    def bridge_address(self) -> str:
        """Returns the address of the outer machine and its services, seen from inside."""
        return str(self.subnet[1])

    def machine_address(self, index: int) -> str:
        """Returns the address of the machine with that index, counted from 0."""
        return str(self.subnet[FIRST_MACHINE + index])

    def link(self, name: str) -> str:
        """Returns the outer end of the machine's cable; nspawn derives it from its name, at most 15 characters."""
        return f"vb-{self.nspawn_name(name)}"

    def nspawn_name(self, name: str) -> str:
        """Returns the machine's name among all rehearsals of the outer machine."""
        return f"r{self.number}-{name}"

    @property
    def chain(self) -> str:
        """Returns the name of the iptables chains this rehearsal owns."""
        return f"REHEARSAL{self.number}"

    @property
    def cut(self) -> str:
        """Returns the name of the chain that allows only answers out while machines are cut off."""
        return f"{self.chain}CUT"


def bring_up(places: Places) -> Network:
    """Creates the bridge of this rehearsal and routes the machines' traffic through the outer machine."""
    network = Network(places.number)
    running.end_orphans(network.bridge_address)
    _refuse_a_foreign_bridge(network, places)
    if not _exists(network.bridge):
        _command("ip", "link", "add", network.bridge, "type", "bridge")
    _command("ip", "link", "set", network.bridge, "alias", str(places.root), "up")
    _command("ip", "address", "replace", f"{network.bridge_address}/{network.subnet.prefixlen}", "dev", network.bridge)
    kernel_settings.raise_all()
    _install_rules(network)
    return network


def take_down(places: Places) -> None:
    """Removes the bridge and rules of this rehearsal; the last rehearsal of the outer machine also restores the
    kernel's settings."""
    network = Network(places.number)
    is_there = _exists(network.bridge)
    if not is_there or _owner(network.bridge) in ("", str(places.root)):  # another clone keeps its bridge and rules
        _remove_rules(network)
        if shutil.which("iptables"):
            reconnect(network)
        if is_there:
            _command("ip", "link", "delete", network.bridge)
    if not any(_exists(Network(number).bridge) for number in NUMBERS):
        kernel_settings.put_back()


def cut_off(network: Network, port: int = 0) -> None:
    """Cuts machines off from everything but `port` of this computer, if one is named, including its services.

    Connections to the machines still work. The rule counts attempts.
    """
    reconnect(network)
    _command("iptables", "-w", "-N", network.cut)
    _command("iptables", "-w", "-A", network.cut, "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "RETURN")
    if port:
        own = ["-d", network.bridge_address, "-p", "tcp", "--dport", str(port)]
        _command("iptables", "-w", "-A", network.cut, *own, "-j", "RETURN")
    _command("iptables", "-w", "-A", network.cut, "-j", "DROP")
    for parent in ("INPUT", "FORWARD"):
        _command("iptables", "-w", "-I", parent, "1", "-i", network.bridge, "-j", network.cut)


def packets_tried(network: Network) -> int:
    """Returns the number of packets by which machines tried to start connections since `cut_off`."""
    shown = subprocess.run(
        ["iptables", "-w", "-nvxL", network.cut], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return sum(int(line.split()[0]) for line in shown if " DROP " in line)


def reconnect(network: Network) -> None:
    """Restores the machines' network; does nothing if they were not cut off."""
    for parent in ("INPUT", "FORWARD"):
        jump = ["iptables", "-w", "-D", parent, "-i", network.bridge, "-j", network.cut]
        while subprocess.run(jump, capture_output=True, check=False).returncode == 0:
            pass
    for action in ("-F", "-X"):
        subprocess.run(["iptables", "-w", action, network.cut], capture_output=True, check=False)


def limit_rate(interface: str, rate: str | None) -> None:
    """Limits traffic to the machine behind that interface to `rate` (`100mbit`); None lifts the limit."""
    subprocess.run(["tc", "qdisc", "del", "dev", interface, "root"], capture_output=True, check=False)
    if rate:
        _command(
            "tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"
        )


def remove_link(interface: str) -> None:
    """Removes the interface, if it exists."""
    if _exists(interface):
        subprocess.run(["ip", "link", "delete", interface], capture_output=True, check=False)


def resolvers() -> list[str]:
    """Returns name servers that a machine can reach: a loopback resolver is replaced by its upstream servers."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        words = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        addresses = [word[1] for word in words if len(word) > 1 and word[0] == "nameserver"]
        if reachable := [server for server in addresses if not server.startswith("127.") and server != "::1"]:
            return reachable
    return []


def _refuse_a_foreign_bridge(network: Network, places: Places) -> None:
    if not _exists(network.bridge) or (owner := _owner(network.bridge)) in ("", str(places.root)):
        return
    # A rehearsal whose processes ended without `down` leaves its bridge, which this rehearsal may then take.
    if not _cables(network.bridge) and not _listens(network.bridge_address):
        for tap in _ports(network.bridge):
            remove_link(tap.name)
        return
    holders = {process.pid: process for process in (*running.naming(owner), *running.listening(network.bridge_address))}
    # Its programs may see directories that this one does not.
    is_gone = not any(Path(f"/proc/{pid}/root{owner}").exists() for pid in ("self", *holders))
    choice = f"ENGINEHOUSE_REHEARSAL_NUMBER={network.number + 1} here"
    pids = " ".join(str(pid) for pid in sorted(holders))
    attempt = f"`kill {pids}`, then run again" if is_gone and pids else "`python -m rehearsal down` there"
    raise RehearsalRefused(
        f"the bridge {network.bridge} belongs to another rehearsal\n"
        f"  owner   {owner}{', which is gone' if is_gone else ''}\n"
        + "".join(f"  process {process}\n" for process in holders.values())
        + f"  try     {attempt}; or {choice}\n"
        f"  state   nothing was started"
    )


def _ports(bridge: str) -> list[Path]:
    """Returns the interfaces of the bridge, as directories of /sys."""
    return sorted(Path(f"/sys/class/net/{bridge}/brif").glob("*"))


def _cables(bridge: str) -> list[str]:
    """Returns the interfaces of running machines.

    The kernel removes a container's interface with the machine. QEMU's are taps, which remain without a carrier.
    """
    return [port.name for port in _ports(bridge) if not _is_a_tap(port.name) or _has_carrier(port.name)]


def _is_a_tap(interface: str) -> bool:
    return Path(f"/sys/class/net/{interface}/tun_flags").exists()


def _has_carrier(interface: str) -> bool:
    try:
        return Path(f"/sys/class/net/{interface}/carrier").read_text().strip() == "1"
    except OSError:  # the kernel returns EINVAL for an interface that is down
        return False


def _listens(address: str) -> bool:
    """Returns True if a service of a rehearsal listens at the address."""
    shown = subprocess.run(["ss", "-Htuln", "src", address], capture_output=True, text=True, check=True)
    return bool(shown.stdout.strip())


def _rules(network: Network) -> list[tuple[str, str, list[str]]]:
    """Returns (table, built-in chain that jumps to ours, rule in ours)."""
    subnet, bridge = str(network.subnet), network.bridge
    return [
        ("nat", "POSTROUTING", ["-s", subnet, "!", "-d", subnet, "-j", "MASQUERADE"]),
        ("filter", "FORWARD", ["-i", bridge, "-j", "ACCEPT"]),
        ("filter", "FORWARD", ["-o", bridge, "-j", "ACCEPT"]),
    ]


def _install_rules(network: Network) -> None:
    _remove_rules(network)
    for table in ("nat", "filter"):
        _command("iptables", "-w", "-t", table, "-N", network.chain)
    for table, parent, rule in _rules(network):
        _command("iptables", "-w", "-t", table, "-A", network.chain, *rule)
        jump = ["iptables", "-w", "-t", table, "-C", parent, "-j", network.chain]
        if subprocess.run(jump, capture_output=True, check=False).returncode != 0:
            # First, because Docker on an outer machine sets FORWARD's policy to DROP.
            _command("iptables", "-w", "-t", table, "-I", parent, "1", "-j", network.chain)


def _remove_rules(network: Network) -> None:
    if not shutil.which("iptables"):
        return
    for table, parent in (("nat", "POSTROUTING"), ("filter", "FORWARD")):
        for action in (["-D", parent, "-j", network.chain], ["-F", network.chain], ["-X", network.chain]):
            subprocess.run(["iptables", "-w", "-t", table, *action], capture_output=True, check=False)


def _exists(interface: str) -> bool:
    return Path(f"/sys/class/net/{interface}").exists()


def _owner(interface: str) -> str:
    shown = subprocess.run(["ip", "-json", "link", "show", interface], capture_output=True, text=True, check=True)
    return str(json.loads(shown.stdout)[0].get("ifalias", ""))


def _command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
