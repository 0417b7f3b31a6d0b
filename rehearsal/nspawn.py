"""A machine under systemd-nspawn, and the supervising process, which acts like a cloud's host.

The supervising process has its own mount namespace, so that overlay and runtime directories always vanish with it. It
starts the machine again after a reboot, which is a true reboot with a new boot id. `machines.py` decides which machines
exist.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

from rehearsal import cgroups, network

REBOOT = 133  # nspawn's exit status when the machine asked for a reboot, systemd 252 with --keep-unit
STARTS_AT_MOST = 500
CONSOLE_LOG_BYTES = 1_000_000
POWER_OFF_SECONDS = 25
START_SECONDS = 20  # for the supervising Python process to report its start, also on a busy machine
VOLUMES = {
    # overlay2 cannot sit on overlay, and weights are large: these are plain directories of the outer disk.
    "docker": "/var/lib/docker",
    "containerd": "/var/lib/containerd",
    "enginehouse": "/var/lib/enginehouse",
}
# runc joins session keyrings and loads device programs; nspawn's filter forbids both by default.
ALLOWED_CALLS = "@keyring bpf perf_event_open"
# The kernel and its clock are the outer machine's: no module may be loaded and no time set from inside.
DROPPED_CAPABILITIES = ("CAP_SYS_MODULE", "CAP_SYS_TIME")


def arguments(directory: Path, name: str, net: network.Network, more: Sequence[str] = ()) -> list[str]:
    """Returns nspawn's command line for the machine in `directory`, with `more` words for its hardware."""
    binds = [f"--bind={directory / 'volumes' / volume}:{path}" for volume, path in VOLUMES.items()]
    return [
        *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=read-only"),
        *(f"--directory={directory / 'root'}", f"--machine={net.nspawn_name(name)}", f"--hostname={name}"),
        *("--network-veth", f"--network-bridge={net.bridge}"),
        *("--resolv-conf=off", "--timezone=off", "--link-journal=no"),
        *("--capability=all", f"--drop-capability={','.join(DROPPED_CAPABILITIES)}"),
        f"--system-call-filter={ALLOWED_CALLS}",
        *binds,
        *more,
    ]


def overlay_options(directory: Path, lowers: list[str]) -> str:
    """Returns mount options that lay the machine's own changes over its read-only layers, uppermost first."""
    # Without the optional features a layer can later become the lower layer of a fork.
    plain = "redirect_dir=off,index=off,metacopy=off"
    return f"lowerdir={':'.join(lowers)},upperdir={directory / 'upper'},workdir={directory / 'work'},{plain}"


def start(directory: Path) -> None:
    """Starts the detached supervising process, which writes its identity to `supervisor.json`."""
    record = directory / "supervisor.json"
    record.unlink(missing_ok=True)
    detached = ["setsid", "--fork", "unshare", "--mount", "--propagation", "private"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    with (directory / "supervisor.log").open("w") as log:
        command = [*detached, sys.executable, "-m", "rehearsal.nspawn", str(directory)]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd="/", check=True)
    end = time.monotonic() + START_SECONDS
    while not record.exists() and time.monotonic() < end:
        time.sleep(0.01)


def start_time(pid: int) -> int | None:
    """Returns clock ticks from boot to the process's start, None if it has ended; together with the pid, this
    identifies one process."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A zombie stays in the list until its parent reaps it, and PID 1 of a container may never do that.
    return None if words[0] == "Z" else int(words[19])


def clear_away(record: dict[str, Any]) -> None:
    """Removes the remains of an earlier run of the machine: processes, control groups, its link on the bridge."""
    cgroups.end_all(record["number"], record["name"])
    cgroups.remove(record["number"], record["name"])
    # The kernel takes the link away some time after the last process, and nspawn refuses to start before that.
    network.remove_link(network.Network(record["number"]).link(record["name"]))


def supervisor_pid(directory: Path) -> int | None:
    """Returns the pid of the running supervisor, None if it has ended; detects a recycled pid."""
    try:
        recorded = json.loads((directory / "supervisor.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return recorded["pid"] if start_time(recorded["pid"]) == recorded["started"] else None


def leader_pid(directory: Path) -> int | None:
    """Returns the outer pid of the machine's PID 1, None while it is not running."""
    supervisor = supervisor_pid(directory)
    for nspawn in _children(supervisor) if supervisor else []:
        for child in _children(nspawn):
            if _is_init(child):
                return child
    return None


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task")
    try:
        words = [word for thread in threads.iterdir() for word in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in words]


def _is_init(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    spaces = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(spaces) == 2 and spaces[1] == "1"


class Supervisor:
    """Runs nspawn for one machine until the machine is powered off. SIGTERM powers off, SIGUSR1 cuts the power."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = json.loads((directory / "machine.json").read_text())
        self.nspawn: subprocess.Popen[bytes] | None = None
        self.stopping = False
        self.plug_pulled = False

    def run(self) -> None:
        """Returns when the machine is powered off."""
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGUSR1, self._on_power_cycle)
        self._record_itself()
        self._mount()
        for _ in range(STARTS_AT_MOST):
            clear_away(self.record)
            if self.stopping:
                break
            status = self._run_once()
            again = status == REBOOT or self.plug_pulled
            self.plug_pulled = False
            if self.stopping or not again:
                break
        clear_away(self.record)

    def _record_itself(self) -> None:
        scratch = self.directory / "supervisor.json.new"
        scratch.write_text(json.dumps({"pid": os.getpid(), "started": start_time(os.getpid())}))
        scratch.replace(self.directory / "supervisor.json")

    def _mount(self) -> None:
        options = overlay_options(self.directory, self.record["lowers"])
        _mount("-t", "overlay", "overlay", "-o", options, str(self.directory / "root"))
        runtime = Path("/run/systemd/nspawn")
        runtime.mkdir(parents=True, exist_ok=True)
        # Where the outer /run is no tmpfs, nspawn cannot propagate mounts and complains at each reboot.
        _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(runtime))

    def _run_once(self) -> int:
        net, binds = network.Network(self.record["number"]), self.record.get("binds", [])
        groups = cgroups.make(self.record["number"], self.record["name"])
        join = " ".join(shlex.quote(str(group / "cgroup.procs")) for group in groups)
        # Own cgroup before nspawn starts: with --keep-unit two machines in one cgroup would share a payload.
        script = f'for procs in {join}; do echo $$ > "$procs"; done; exec "$@"'
        command = ["sh", "-c", script, "sh", *arguments(self.directory, self.record["name"], net, binds)]
        environment = os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        self.nspawn = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        assert self.nspawn.stdout is not None
        threading.Thread(target=_keep_console, args=(self.nspawn.stdout, self.directory), daemon=True).start()
        threading.Thread(target=self._limit_rate, daemon=True).start()
        return self.nspawn.wait()

    def _limit_rate(self) -> None:
        """Applies the configured limit to the link, which each start creates again."""
        rate = json.loads((self.directory / "machine.json").read_text()).get("rate")
        interface = network.Network(self.record["number"]).link(self.record["name"])
        for _ in range(100 if rate else 0):
            if Path(f"/sys/class/net/{interface}").exists():
                network.limit_rate(interface, rate)
                return
            time.sleep(0.05)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
        if self.nspawn:
            # nspawn passes this on as an orderly power-off.
            self.nspawn.send_signal(signal.SIGTERM)
            timer = threading.Timer(POWER_OFF_SECONDS, self._pull_the_plug)
            timer.daemon = True
            timer.start()

    def _on_power_cycle(self, number: int, frame: FrameType | None) -> None:
        self.plug_pulled = True
        self._pull_the_plug()

    def _pull_the_plug(self) -> None:
        # Killing nspawn alone is not enough: the machine lives on without it (seen with systemd 252).
        cgroups.end_all(self.record["number"], self.record["name"])


def _keep_console(source: IO[bytes], directory: Path) -> None:
    """Copies the machine's console to console.log; drops the older half when it grows too long."""
    log = directory / "console.log"
    while chunk := os.read(source.fileno(), 65536):
        if log.exists() and log.stat().st_size > CONSOLE_LOG_BYTES:
            log.replace(directory / "console.log.1")
        with log.open("ab") as handle:
            handle.write(chunk)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    Supervisor(Path(sys.argv[1])).run()
