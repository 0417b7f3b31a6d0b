"""Failures of a rollout by name: the moment, the act, and the operator's message."""

from __future__ import annotations

import signal

from rehearsal.faults.crashes import KillControl
from rehearsal.faults.disks import FullDisk
from roles.triton.render import HEADER
from tests.rollouts.scene import Act, Case, Moment, Scene
from tests.rollouts.timeline import OPERATION

FAILED = "the gate failed: 1 of 1 hosts are lost"
AGAIN = "run again: finished steps are not repeated"
STAYS = "finished waves are done and stay so; on all other hosts nothing further happens"
UNIT = "enginehouse-balancer.service"
LONG = 30.0
"""A number of tokens so large that a stream runs whenever a server is to stop."""


def says(label: str) -> Moment:
    """Waits until the run begins an operation whose label starts this way."""
    return lambda scene: any(line.startswith(OPERATION + label) for line in scene.lines)


def drained(host: str) -> Moment:
    """Waits until the balancer knows that the host drains."""
    return lambda scene: scene.seen(host)[-1:] == ["DRAIN"]


def swapping(host: str) -> Moment:
    """Waits until the host's server has stopped and its next release is loading."""
    command = "[ -e /var/lib/enginehouse/servers/main/swap.json ] && systemctl show -P SubState triton@main"
    return lambda scene: scene.host(host).run(command, check=False).stdout.strip() == "start-post"


def admitted(host: str) -> Moment:
    """Waits until the balancer sends to the host again."""
    return lambda scene: len(scene.seen(host)) > 1 and scene.seen(host)[-1] == "UP"


def kill_control(scene: Scene) -> None:
    """Kills the pyinfra of this rehearsal."""
    KillControl().apply(scene.edge)


def start(host: str) -> Act:
    """Starts the host again."""
    return lambda scene: scene.host(host).start()


def on_balancer(command: str) -> Act:
    """Runs a command on the balancer."""
    return lambda scene: scene.edge.run(command, check=False)


def unload(scene: Scene) -> None:
    """Unloads the embedder of the canary's running Triton, like after an unrepaired crash."""
    key = "$(cat /run/enginehouse/triton-main/key)"
    address = "http://127.0.0.1:8000/v2/repository/models/minilm/unload"
    scene.host("h1").run(f'curl -fsS -X POST -H "{HEADER}: {key}" {address}')


def second_run(scene: Scene) -> None:
    """Starts the same deploy as another operator."""
    scene.second = scene.deploy()


def killed(name: str, when: Moment, untouched: tuple[str, ...] = ("h2", "h3"), long_percent: float = 0) -> Case:
    """Returns a case in which the control process is killed at that moment."""
    return Case(
        f"control-killed-{name}",
        (),
        untouched,
        code=-signal.SIGKILL,
        when=when,
        strike=kill_control,
        long_percent=long_percent,
    )


def balancer(name: str, command: str, may_lose: bool) -> Case:
    """Returns a case with a command on the balancer while the canary drains."""
    return Case(
        f"balancer-{name}",
        (),
        (),
        code=0,
        when=drained("h1"),
        strike=on_balancer(command),
        may_lose=may_lose,
        long_percent=LONG,
    )


CASES = (
    Case(
        "canary-never-ready",
        ("does not serve", "is put back and serves", FAILED, STAYS, AGAIN),
        ("h2", "h3"),
        bad="unloadable",
    ),
    Case(
        "canary-wrong",
        ("answers its first request with", "is put back and serves", FAILED, STAYS, AGAIN),
        ("h2", "h3"),
        bad="wrong",
    ),
    Case(
        "canary-slower",
        (
            "1 of 1 hosts did not pass",
            "h1 is slower (main: minilm answers in",
            "the earlier release serves again",
        ),
        ("h2", "h3"),
        bad="slow",
    ),
    Case(
        "canary-breaks",
        (
            "1 of 1 hosts did not pass",
            "h1 fails its question (main: minilm",
            "the earlier release serves again",
        ),
        ("h2", "h3"),
        when=says("Gate | Ask wave 1"),
        strike=unload,
        may_lose=True,
    ),
    Case(
        "unreachable",
        (
            "the gate failed: 1 of 4 hosts are lost",
            "lost   h2",
            "before the first change; every host serves what it served",
        ),
        ("h1", "h3"),
        first=lambda scene: scene.host("h2").stop(),
        mended=start("h2"),
        away=("h2",),
    ),
    Case(
        "disk-full",
        ("No space left on device", "the gate failed: 1 of 4 hosts are lost", "lost   h3", "no host was drained"),
        ("h1", "h2", "h3"),
        bad="moved",
        when=says("Model store | Send"),
        strike=lambda scene: FullDisk().apply(scene.host("h3")),
        mended=lambda scene: FullDisk().undo(scene.host("h3")),
    ),
    Case(
        "two-operators",
        ("another run is changing 4 of 4 hosts", "run again once it has ended", "before the first change"),
        (),
        code=0,
        when=swapping("h1"),
        strike=second_run,
    ),
    killed("staged", says("Gate | Every host has image"), ("h1", "h2", "h3")),
    killed("drained", drained("h1"), long_percent=LONG),
    killed("mid-swap", swapping("h1")),
    killed("admitted", admitted("h1")),
    killed("before-gate", says("Gate | Ask wave 1")),
    balancer("killed", f"systemctl kill --signal=KILL {UNIT}", may_lose=True),
    balancer("restarted", f"systemctl restart {UNIT}", may_lose=True),
    balancer("reloaded", f"systemctl reload {UNIT}", may_lose=False),
    Case(
        "host-dies",
        ("the connection to this host is lost", FAILED, "lost   h2", STAYS, AGAIN),
        ("h3",),
        when=swapping("h2"),
        strike=lambda scene: scene.host("h2").cut_power(),
        mended=start("h2"),
        away=("h2",),
    ),
)
