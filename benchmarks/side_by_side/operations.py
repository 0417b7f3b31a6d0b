"""The 29 operations as steps of this project: the check, its output if the host is right, and the commands.

`site.yml` has them under the same names, in the same order, with the same files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from roles._pyinfra.steps import Command, write

HERE = Path(__file__).parent
PACKAGES = ("ca-certificates", "iptables", "kmod", "openssh-server", "procps", "python3", "python3-apt", "sudo")
RELOAD = "systemctl daemon-reload"


@dataclass(frozen=True)
class Operation:
    """An item of the host: the shell that checks the item, the shell's output for a right item, and the commands
    that create the item."""

    name: str
    look: str
    wanted: str
    commands: tuple[Command, ...]

    def decide(self, seen: str) -> Iterator[Command]:
        """Yields the commands, if the lines in `seen` differ from the wanted ones."""
        if seen != self.wanted:
            yield from self.commands


def operations(host: str) -> list[Operation]:
    """Returns the operations of the host of this name, in order."""
    return [
        packages("Install what a host needs", PACKAGES),
        held("Hold Python's apt bindings", "python3-apt"),
        copied("Keep unattended upgrades off", "52side", "/etc/apt/apt.conf.d/52side"),
        group("Make the group", "side"),
        user("Make the user", "side", home="/var/lib/side"),
        copied("Let the user restart its service", "sudoers", "/etc/sudoers.d/side", mode="0440"),
        directory("Make the directory of settings", "/etc/side"),
        directory("Make the directory of data", "/var/lib/side"),
        directory("Make the directory of weights", "/var/lib/side/weights", mode="0750", owner="side:side"),
        directory("Make the directory of programs", "/usr/local/lib/side"),
        file("Write the settings", "/etc/side/settings.json", settings(host), mode="0640", owner="root:side"),
        copied("Put the server's program", "serve.sh", "/usr/local/lib/side/serve.sh", mode="0755"),
        copied("Put the watchdog's program", "watch.sh", "/usr/local/lib/side/watch.sh", mode="0755"),
        copied("Name the directory of the run", "tmpfiles.conf", "/etc/tmpfiles.d/side.conf"),
        copied("Set the kernel's knobs", "sysctl.conf", "/etc/sysctl.d/52-side.conf"),
        copied("Rotate the logs", "logrotate.conf", "/etc/logrotate.d/side"),
        copied("Set the shell's variables", "profile.sh", "/etc/profile.d/side.sh"),
        copied("Lift the limit of locked memory", "limits.conf", "/etc/security/limits.d/52-side.conf"),
        copied("Name the kernel's modules", "modules.conf", "/etc/modules-load.d/side.conf"),
        link("Link the program", "/usr/local/bin/side", "/usr/local/lib/side/serve.sh"),
        line("Name the host for itself", "/etc/hosts", "127.0.0.1 side.internal"),
        line("Set the environment", "/etc/environment", "SIDE_HOME=/var/lib/side"),
        absent("Take away the old settings", "/etc/side.conf"),
        copied("Put the server's unit", "side.service", "/etc/systemd/system/side.service", then=RELOAD),
        copied("Put the watchdog's unit", "side-watch.service", "/etc/systemd/system/side-watch.service", then=RELOAD),
        copied("Put the watchdog's timer", "side-watch.timer", "/etc/systemd/system/side-watch.timer", then=RELOAD),
        running("Run the server", "side.service"),
        running("Run the watchdog", "side-watch.timer"),
        running("Run sshd", "ssh.service"),
    ]


def settings(host: str) -> str:
    """Returns the host's settings, from the template that Ansible also fills."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return made.get_template("settings.json.j2").render(inventory_hostname=host)


def packages(name: str, wanted: tuple[str, ...]) -> Operation:
    """Returns commands that install all packages."""
    look = f"dpkg-query -W -f='${{db:Status-Status}} ${{Package}}\\n' {' '.join(wanted)} 2>/dev/null"
    install = f"DEBIAN_FRONTEND=noninteractive apt-get install -y {' '.join(wanted)}"
    return Operation(name, look, "\n".join(f"installed {package}" for package in wanted), (install,))


def held(name: str, package: str) -> Operation:
    """Returns commands that hold the package at its version."""
    return Operation(name, f"apt-mark showhold {package}", package, (f"apt-mark hold {package}",))


def group(name: str, wanted: str) -> Operation:
    """Returns commands that create the group."""
    return Operation(name, f"getent group {wanted} | cut -d: -f1", wanted, (f"groupadd --system {wanted}",))


def user(name: str, wanted: str, home: str) -> Operation:
    """Returns commands that create the user with its group and without a login."""
    words = f"--system --gid {wanted} --home-dir {home} --no-create-home --shell /usr/sbin/nologin {wanted}"
    look = f"getent passwd {wanted} | cut -d: -f6,7; id -gn {wanted} 2>/dev/null"
    return Operation(name, look, f"{home}:/usr/sbin/nologin\n{wanted}", (f"useradd {words}",))


def directory(name: str, path: str, mode: str = "0755", owner: str = "root:root") -> Operation:
    """Returns commands that create the directory with this mode and owner."""
    made = f"install -d -m {mode} -o {owner.partition(':')[0]} -g {owner.partition(':')[2]} {quote(path)}"
    wanted = f"directory {int(mode, 8):o} {owner}"
    return Operation(name, f"stat -c '%F %a %U:%G' {quote(path)} 2>/dev/null", wanted, (made,))


def copied(name: str, source: str, path: str, mode: str = "0644", then: str = "") -> Operation:
    """Returns commands that write the content of the file beside this module to the path."""
    return file(name, path, (HERE / "files" / source).read_text(), mode, then=then)


def file(name: str, path: str, content: str, mode: str = "0644", owner: str = "root:root", then: str = "") -> Operation:
    """Returns commands that write the content to the path, with this mode and owner."""
    at = quote(path)
    look = f"sha256sum <{at} 2>/dev/null | cut -d' ' -f1; stat -c '%a %U:%G' {at} 2>/dev/null"
    wanted = f"{hashlib.sha256(content.encode()).hexdigest()}\n{int(mode, 8):o} {owner}"
    after = " && ".join(filter(None, [f"chown {owner} {at}", then]))
    return Operation(name, look, wanted, (write(path, content, mode, then=after),))


def link(name: str, path: str, target: str) -> Operation:
    """Returns commands that link the path to the target."""
    return Operation(name, f"readlink {quote(path)}", target, (f"ln -sfn {quote(target)} {quote(path)}",))


def line(name: str, path: str, wanted: str) -> Operation:
    """Returns commands that append a missing line to the file."""
    at = quote(path)
    look = f"grep -xF {quote(wanted)} {at} 2>/dev/null | head -n 1"
    return Operation(name, look, wanted, (f"printf '%s\\n' {quote(wanted)} >>{at}",))


def absent(name: str, path: str) -> Operation:
    """Returns commands that delete the path."""
    return Operation(name, f"[ -e {quote(path)} ] && echo there; true", "", (f"rm -rf {quote(path)}",))


def running(name: str, unit: str) -> Operation:
    """Returns commands that start the unit, now and at each boot."""
    look = f"systemctl is-active {unit}; systemctl is-enabled {unit}"
    return Operation(name, look, "active\nenabled", (f"systemctl enable --now {unit}",))
