"""Commands that publish a release, prove CUDA, and ask the host for a swap."""

from __future__ import annotations

import base64
import getpass
import json
import shlex
import socket
from collections.abc import Iterator, Sequence
from secrets import token_hex

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.errors import Refusal
from deploy.files import ROOT
from deploy.slice import ServerSlice
from roles import places, units
from roles.places import PROBES, PROGRAMS, RELEASES, UNITS
from roles.repairs import unpacked, wheels
from roles.steps import Refuse, write
from roles.tar import tarred
from roles.texts import Text, shipped
from roles.triton.defaults import Defaults
from roles.triton.facts import Proof
from roles.triton.flags import unit_stop_seconds
from roles.triton.render import EXECUTABLE

TOLD_LINES = 4
"""Of a tar that finds the disk full; it says so of every file."""
NOT_PUBLISHED = "  state   the release is not published; nothing that serves was touched"


def texts(servers: tuple[ServerSlice, ...]) -> list[Text]:
    """What prepares a start, both unit templates, and each server's own times as a drop-in."""
    return [
        shipped("files/shell/prepare.sh", places.program("prepare.sh"), "0755"),
        *(
            shipped(f"files/units/{unit}", f"{UNITS}/{unit}")
            for unit in ("triton@.service", "enginehouse-swap@.service")
        ),
        *(Text(f"{UNITS}/triton@{each.name}.service.d/enginehouse.conf", _times(each)) for each in servers),
    ]


def _times(server: ServerSlice) -> str:
    return (
        f"# Triton's exit timeout ({server.stop_seconds} s) < docker stop < TimeoutStopSec, so that requests can end.\n"
        f"[Service]\nTimeoutStartSec={server.start_seconds + 120}\nTimeoutStopSec={unit_stop_seconds(server)}\n"
    )


class Publish(PyinfraCommand):
    """The release directory is on the host, whole: one tar on standard input, unpacked aside, renamed."""

    def __init__(self, release: str, server: ServerSlice, files: dict[str, bytes]) -> None:
        super().__init__()
        self.release, self.server, self.files = release, server, files

    def __repr__(self) -> str:
        return f"publish {places.release(self.release)} ({len(self.files)} files)"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once it is published."""
        files = dict(self.files)
        try:
            for wheel in wheels(self.server.image.repairs):
                files |= unpacked(wheel)
        except Refusal as problem:
            Refuse(problem).tell(host)
            return False
        sent = base64.encodebytes(tarred(files, EXECUTABLE)).decode()
        arguments: ConnectorArguments = {**connector_arguments, "_stdin": sent}
        done, output = host.run_shell_command(StringCommand(publishing(self.release)), **arguments)
        for line in [*output.stderr_lines[:TOLD_LINES], NOT_PUBLISHED] if not done else ():
            host.log_styled(line, fg="red", log_func=logger.error)
        return done


def publishing(release: str) -> str:
    """The shell command that publishes a release out of the tar on its standard input.

    Every file and directory is on the disk before the name says so, and the name is before anything points to it. What
    has the name and no server.json is half of a release, left by a removal that was cut off: it makes room.
    """
    target, staging = places.release(release), f"{RELEASES}/.{release}.partial"
    return (
        f"set -e; umask 022; rm -rf {staging}; mkdir -p {staging};"
        f" base64 -d | tar -xz --no-same-owner -C {staging}; test -f {staging}/server.json;"
        f" chown -R root:root {staging}; find {staging} -exec sync {{}} +;"
        f" test -f {target}/server.json || {{ rm -rf {target}; mv -T {staging} {target}; }};"
        f" sync {RELEASES}; rm -rf {staging}"
    )


def probe(server: ServerSlice, proof: Proof, settings: Defaults) -> Iterator[StringCommand]:
    """CUDA answers inside the image, on the server's GPUs, through its own entry point as the server will have it.

    Read-only too: the entry point and the toolkit's hook may place the image's newer CUDA libraries at start.
    """
    devices = " ".join(f"--device {device}" for device in server.devices)
    program, name = f"{PROGRAMS}/host/cuda_probe.py", f"enginehouse-probe-{server.name}"
    # One that hangs in the driver outlives its client, and would keep the GPU.
    gone = f"docker rm --force {name} >/dev/null 2>&1"
    yield StringCommand(
        f"{gone}; timeout {settings.probe_seconds} docker run --rm --name {name} --label io.enginehouse.probe=cuda"
        " --pull never --network none --user 1000:1000 --cap-drop ALL"
        f" --security-opt no-new-privileges --read-only --tmpfs /tmp:rw,exec {devices}"
        f" --mount type=bind,source={program},target={program},readonly"
        f" {shlex.quote(server.image.pull_reference)} python3 {program} {len(server.gpus)}"
        f" && mkdir -p {PROBES} && touch {PROBES}/{proof.key} || {{ {gone}; false; }}"
    )


def retire(name: str) -> StringCommand:
    """The server is not watched, does not run, starts no more, and does not show as failed."""
    unit, own = f"triton@{name}.service", f"{UNITS}/triton@{name}.service.d"
    return StringCommand(
        f"{{ systemctl disable --now enginehouse-watch@{name}.timer 2>/dev/null || true; }} &&"
        f" systemctl disable --now {unit} && rm -rf {own} {places.server(name)}/current {places.server(name)}/swap.json"
        " && systemctl daemon-reload"
        f" && {{ systemctl reset-failed {unit} enginehouse-swap@{name}.service 2>/dev/null || true; }}"
    )


def ask_for(
    server: str, release: str, plan: str, settings: Defaults, seconds: int, instead_of: Sequence[str] = ()
) -> Iterator[PyinfraCommand]:
    """`release` (an id, or "previous") serves; or what served before is put back, and this fails with the reason.

    `instead_of`: servers that need not go on where this one does, and serve again where it does not.
    """
    asked = token_hex(8)
    wanted = {"release": release, "plan": plan, "keep": settings.keep_releases, "who": who(), "asked": asked}
    wanted |= {"instead_of": list(instead_of)}
    yield write(f"{places.server(server)}/wanted.json", json.dumps(wanted) + "\n")
    yield StringCommand(units.start(f"enginehouse-swap@{server}.service"))
    yield FollowSwap(server, release, asked, seconds)


class FollowSwap(units.Follow):
    """Waits for the swap that was asked for, and for no other.

    systemd starts nothing where a swap is under way already, asked for by another run or by one that was interrupted;
    that one read what it was to do before we wrote ours. It is ours all the same where it brought the same release.
    """

    def __init__(self, server: str, release: str, asked: str, seconds: int) -> None:
        super().__init__(f"enginehouse-swap@{server}.service", f"server {server}", seconds, explain=self._explain)
        self.server, self.release, self.asked = server, release, asked

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the release that was asked for serves."""
        if not super().execute(state, host, connector_arguments):
            return False
        verdict = self._verdict(host, connector_arguments)
        # A host whose programs are older says nothing of who asked.
        if verdict["release"] == self.release or verdict.get("asked", self.asked) == self.asked:
            return True
        if not verdict["release"]:
            self._explain(host, connector_arguments)
            return False
        for line in (
            f"another swap was under way: it brought {verdict['release']}",
            "  state   what it brought serves; this run's was not begun",
            f"  try     see who works on this host (tail {ROOT}/history.jsonl), then run again",
        ):
            host.log_styled(f"{self.server}: {line}", fg="red", log_func=logger.error)
        return False

    def _verdict(self, host: Host, arguments: ConnectorArguments) -> dict[str, str]:
        lines = units.run(host, f"cat {places.server(self.server)}/verdict.json 2>/dev/null || true", arguments)
        try:
            return {"release": "", "reason": "", **json.loads("\n".join(lines))}
        except ValueError:
            why = f"journalctl -u enginehouse-swap@{self.server}"
            return {"release": "", "asked": "", "sentence": "the swap ended without a verdict", "reason": why}

    def _explain(self, host: Host, arguments: ConnectorArguments) -> None:
        """The host's verdict on a swap that did not succeed, as a person reads it."""
        verdict = self._verdict(host, arguments)
        for line in [verdict["sentence"], *verdict["reason"].splitlines()]:
            host.log_styled(f"{self.server}: {line}", fg="red", log_func=logger.error)


def swap_seconds(server: ServerSlice, settings: Defaults, instead_of: int = 0) -> int:
    """How long a swap may take: stop and start, both again to put back, and once for each server that makes room.

    The plan knows those no more; they are given this server's times.
    """
    return (2 + instead_of) * (server.start_seconds + unit_stop_seconds(server)) + settings.swap_margin_seconds


def who() -> str:
    """Who asks, for the host's history."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
