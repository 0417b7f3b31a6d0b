"""Six faults on the three machines, with the one expected alert and the repair of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.monitoring.live.scene import Watched

Act = Callable[[Watched], object]
SWAP = "enginehouse-swap@nobody.service"
XID = "NVRM: Xid (PCI:0000:01:00): 119, Timeout after 6s of waiting for RPC response from GPU0 GSP! (rehearsal)"
STUB = "$(pgrep -f 'python_backend_stu[b].*minilm')"
DATA, UNDER = "/var/lib/enginehouse", "/run/rehearsal-under"
FILL = (
    f"set -e; mkdir -p {UNDER}; mount --bind {DATA} {UNDER}; mount --make-private {UNDER};"
    f" mount -t tmpfs -o size=64m,mode=755 rehearsal-disk {DATA}; cp -a {UNDER}/. {DATA}/;"
    f" fallocate -l 60M {DATA}/.rehearsal-ballast"
)
EMPTY = f"umount -l {DATA}; umount -l {UNDER}; rmdir {UNDER}; true"


@dataclass(frozen=True)
class Strike:
    """A fault: only `alert` on the host of that name may be notified.

    The alerts `behind` fire as well, but Alertmanager inhibits these, because `alert` explains them.
    """

    name: str
    alert: str
    host: str
    apply: Act
    mend: Act
    behind: frozenset[str] = frozenset()


def on_serving(command: str) -> Act:
    """Returns an act that runs the command on the serving machine."""
    return lambda watched: watched.serving.run(command)


def on_edge(command: str) -> Act:
    """Returns an act that runs the command on the balancer."""
    return lambda watched: watched.edge.run(command)


STRIKES = (
    Strike(
        "a swap fails",
        "SwapRefused",
        "h1",
        on_serving(f"systemctl start {SWAP}; systemctl is-failed {SWAP}"),
        on_serving(f"systemctl reset-failed {SWAP}"),
    ),
    Strike(
        "the gateway is stopped",
        "GatewayLost",
        "h1",
        on_serving("systemctl stop enginehouse-gateway@0"),
        on_serving("systemctl start enginehouse-gateway@0"),
    ),
    Strike("the balancer's data disk is nearly full", "DiskLow", "e1", on_edge(FILL), on_edge(EMPTY)),
    Strike(
        "the driver tells of an Xid 119",
        "XidReset",
        "h1",
        on_serving(f"logger -t kernel '{XID}'"),
        on_serving("python3 -B /usr/local/lib/enginehouse/host gpu-state mended"),
    ),
    Strike(
        "a model hangs while Triton calls it ready",
        "ModelSilent",
        "h1",
        on_serving(f"kill -STOP {STUB}"),
        on_serving(f"kill -CONT {STUB}"),
    ),
    Strike(
        "the balancer loses its power",
        "HostLost",
        "e1",
        lambda watched: watched.edge.cut_power(),
        lambda watched: watched.edge.start(),
        frozenset({"HaproxyLost", "ModelNotReady"}),
    ),
)
