"""Repairs this host's GPUs if the inventory allows it: run by enginehouse-repair.service.

    host repair serve

Settings: /etc/enginehouse/repair.json, gpu_state.json (Xid messages and their remedies) and traffic.json. A GPU that is
unfit in two checks (by the rules of the gate before a swap, `gpu-state`) leads to these states, in order:

    waits       the pool has no room, or a run or an operator works on this host: nothing changes
    begun       the host is held, every balancer shows it out of service, and the pool still has room
    repaired    the GPUs were reset or the host rebooted, every server has answered, no problem remains
    failed      one of these did not happen; the next check begins again
    left        the repair needs a person: another card, a forbidden reboot, too many repairs in a day

At every end, holds are lifted and servers started, as without a repair. It writes ROOT/repair/state.json,
ROOT/metrics/repair.prom, and a line in history.jsonl for each state but the first. The next start of this program
continues an interrupted repair (reboot, kill).
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host import disk, gpu_state, history, places
from host.gpu_state import Problem
from host.nvidia_smi import NoAnswer
from host.repair import act, pool
from host.repair.metrics import metrics
from host.repair.remedy import Remedy, recent, remedy_of, sentence
from host.systemd import say
from host.traffic import draining
from host.traffic.state import hold_file
from host.traffic.state import settings as traffic_settings

LOOKS = 2
"""Consecutive checks with an unfit GPU before a repair."""
HEARD_SECONDS = 30.0
"""Seconds for every balancer to show a drain."""
MARK = "repair"
SPARE_SECONDS = 600.0
"""Seconds of a hold beyond the repair's limit: the hold ends by itself if this program does not return."""
EMPTY: dict[str, Any] = {"phase": "", "remedy": "", "why": "", "boot": "", "since": 0.0, "tries": [],
                         "refused": "", "waits": "", "person": "", "totals": {}}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Watches until stopped; returns exit status 64 for unknown arguments."""
    if arguments != ["serve"]:
        print("host repair serve", file=sys.stderr)
        return 64
    # Exits by an exception, so that servers that a repair stopped are started again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    settings = json.loads((places.SETTINGS / "repair.json").read_text())
    repairs = Repairs(settings, traffic_settings())
    say("GPUs are watched", is_ready=True)
    repairs.resume(time.time())
    while True:
        repairs.look(time.time())
        time.sleep(settings["look_seconds"])


@dataclass
class Repairs:
    """The state of this host's repairs; kept over a restart of this program and over reboots."""

    settings: dict[str, Any]
    traffic: dict[str, Any]
    kept: dict[str, Any] = field(default_factory=dict)
    unfit_looks: int = 0
    written: str = ""

    def __post_init__(self) -> None:
        try:
            read = json.loads(self.file.read_text())
            self.kept = {name: read[name] for name in EMPTY}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.kept = json.loads(json.dumps(EMPTY))

    @property
    def file(self) -> Path:
        return places.ROOT / "repair" / "state.json"

    @property
    def servers(self) -> list[str]:
        return list(self.traffic["servers"])

    def problems(self) -> list[Problem]:
        """The problems of the GPUs. None before a server has a release, because the driver may still be missing."""
        if not act.serving(self.traffic)["servers"]:
            return []
        xids = json.loads((places.SETTINGS / "gpu_state.json").read_text())["xids"]
        try:
            gpus = gpu_state.read_gpus()
        except NoAnswer as silent:
            return [(0, f"nvidia-smi says: {silent}", "boot")]
        wanted = range(self.settings["gpus"])
        return [problem for gpu in wanted for problem in gpu_state.problems_of(gpu, gpus, xids)]

    def look(self, now: float) -> None:
        """Checks the GPUs, and repairs them if they need it and a repair may be made now."""
        problems = self.problems()
        self.unfit_looks = self.unfit_looks + 1 if problems else 0
        self.kept["tries"] = recent(self.kept["tries"], now)
        if not problems:
            self.kept |= {"waits": "", "person": "", "refused": "", "why": ""}
        elif self.unfit_looks >= LOOKS:
            self.kept["why"] = sentence(problems)
            remedy = remedy_of(problems, self.settings, self.kept["refused"], self.kept["tries"])
            if remedy.action:
                self.kept["person"] = ""
                self.kept["waits"] = self.begin(remedy, now)
            else:
                self.leave_to_person(remedy.person)
        say(self.kept["person"] or self.kept["waits"] or self.kept["why"] or "every GPU is fit")
        try:
            self.write(now)
        except OSError as problem:
            print(f"<4>the state of repairs was not written: {problem}", flush=True)

    def leave_to_person(self, reason: str) -> None:
        if self.kept["person"] != reason:
            self.kept |= {"person": reason, "waits": ""}
            self.record("left to a person", f"{self.kept['why']}: {reason}")

    def begin(self, remedy: Remedy, now: float) -> str:
        """Makes the repair. Returns the reason why it was not begun, else empty."""
        if drained := [name for name in self.servers if self.is_held_by_another(name, now)]:
            return f"somebody else has drained {', '.join(drained)}"
        try:
            seen = pool.seen_by_balancers(self.traffic)
            if seen and not seen.is_out and seen.has_room(self.settings["max_unavailable"]):
                time.sleep(seen.seconds_to_turn(now))
                seen = pool.seen_by_balancers(self.traffic)
            if seen and not seen.has_room(self.settings["max_unavailable"]):
                return f"{', '.join(seen.others_out)} of the pool are out of service, which is the limit"
            with act.host_to_itself(self.traffic) as somebody:
                return somebody or self.claimed(remedy, time.time(), was_out=seen is None or seen.is_out)
        except (pool.Unknown, OSError) as problem:
            return str(problem)

    def is_held_by_another(self, server: str, now: float) -> bool:
        try:
            record = json.loads(hold_file(server).read_text())
            return bool(float(record["until"]) > now and record.get(MARK) != 1)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False

    def claimed(self, remedy: Remedy, now: float, was_out: bool) -> str:
        """Repairs once every balancer shows this host's drain and the pool still has room; else releases the host."""
        self.hold(now)
        with self.released_afterwards():
            if not was_out and (reason := self.against(now + HEARD_SECONDS)):
                return reason
            self.repair(remedy, time.time())
            return ""

    def against(self, end: float) -> str:
        """The reason against a repair, once every balancer shows this host out of service; empty for none."""
        while True:
            seen = pool.seen_by_balancers(self.traffic)
            if seen is None or seen.is_out:
                others = seen.others_out if seen else ()
                is_full = len(others) >= self.settings["max_unavailable"]
                return f"{', '.join(others)} of the pool went out of service meanwhile" if is_full else ""
            if time.time() >= end:
                return f"not every balancer took this host out within {HEARD_SECONDS:.0f} s"
            time.sleep(act.LOOK_SECONDS)

    @contextmanager
    def released_afterwards(self) -> Iterator[None]:
        """Lets the host take requests after the block, unless this program is stopped within the block, for example by
        a reboot."""
        is_stopped = False
        try:
            yield
        except SystemExit:
            is_stopped = True
            raise
        finally:
            if not is_stopped:
                draining.release(self.servers, MARK)

    def repair(self, remedy: Remedy, now: float) -> None:
        """Resets or reboots, proves, and records the result. Does not return from a reboot."""
        self.kept |= {"phase": remedy.action, "remedy": remedy.action, "boot": boot(), "since": now, "waits": ""}
        self.kept["tries"] = [*self.kept["tries"], now]
        gpus = ", ".join(map(str, remedy.gpus))
        number, most = len(self.kept["tries"]), self.settings["tries"]
        self.record("repair begun", f"{self.kept['why']}: {remedy.action} (GPU {gpus}), {number} of {most} in a day")
        self.write(now)
        try:
            if remedy.action == "reset":
                act.reset(remedy.gpus, self.traffic)
            else:
                act.reboot(self.traffic)
        except act.NotDone as problem:
            if remedy.action == "reset":
                self.kept["refused"] = str(problem)
            self.end("failed", str(problem))
            return
        self.prove()

    def prove(self) -> None:
        """After the repair, confirms that every server answers and no GPU has a problem."""
        self.kept["phase"] = "proving"
        began = time.time()
        self.hold(began)
        self.write(began)
        problem = act.prove(self.traffic, began + act.prove_seconds(self.traffic))
        left = self.problems()
        if problem or left:
            self.end("failed", "; ".join(filter(None, [problem, sentence(left)])))
        else:
            self.end("repaired", f"every server answers {time.time() - self.kept['since']:.0f} s after it began")

    def resume(self, now: float) -> None:
        """Continues a repair that its own reboot or an end of this program interrupted."""
        phase = self.kept["phase"]
        if not phase:
            draining.release(self.servers, MARK)
            return
        with self.released_afterwards():
            act.start_servers(self.traffic)
            if phase == "reboot" and self.kept["boot"] == boot():
                self.end("failed", "the repair was interrupted before the host rebooted")
            else:
                self.prove()
            self.write(now)

    def hold(self, now: float) -> None:
        """Keeps balancers from sending new requests until the repair ends, or its time is over."""
        until = now + self.traffic["drain_seconds"] + act.prove_seconds(self.traffic) + SPARE_SECONDS
        draining.hold(self.servers, until, "this host's repair of its GPUs", MARK, now)

    def end(self, result: str, reason: str) -> None:
        """Records the repair's result, and ends its phase."""
        key = f"{self.kept['remedy']} {result}"
        self.kept["totals"][key] = self.kept["totals"].get(key, 0) + 1
        self.kept["phase"] = ""
        self.unfit_looks = 0
        self.record("repaired" if result == "repaired" else "repair failed", f"{self.kept['remedy']}: {reason}")

    def record(self, result: str, reason: str) -> None:
        """Writes a line to the journal and to the history."""
        print(f"<4>{result}: {reason}", flush=True)
        entry = {"when": history.now(), "who": "this host's repair", "result": result, "reason": reason}
        if problem := history.record(entry):
            print(f"<4>{problem}", flush=True)

    def write(self, now: float) -> None:
        """Writes the state file and the metrics. Raises OSError: a repair that cannot be recorded does not begin."""
        if (content := json.dumps(self.kept) + "\n") != self.written:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            disk.replace_durably(self.file, content)
            self.written = content
        (places.ROOT / "metrics").mkdir(exist_ok=True)
        disk.replace(places.ROOT / "metrics" / "repair.prom", metrics(self.kept | {"looked": now}))


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
