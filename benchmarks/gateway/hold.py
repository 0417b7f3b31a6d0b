"""Holds streams of two gateways for long while one gateway is killed: only its own streams may break.

After a third of the time the first gateway is killed (SIGKILL), so its connections break without a message. It is
restarted, like by systemd, and takes as many streams. After two thirds it is stopped (SIGTERM): it waits
`DRAIN_SECONDS` for streams to end, and each remaining one gets an event with an error. The second gateway's streams are
not interrupted.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gateway.held import BROKEN, DONE, ERROR
from benchmarks.gateway.processes import Cores, Process, begun, free_ports, heard, servers, settings_file, start_gateway

ENDS = {signal.SIGKILL: BROKEN, signal.SIGTERM: ERROR}
"""The required end of each stream of a gateway."""


def hold(work: Path, streams: int, seconds: float, gap_ms: float, cores: dict[str, list[int]]) -> dict[str, Any]:
    """Returns the ends of all streams, half on each gateway. `passes` is true if only those of the killed gateway
    broke."""
    half, gateways = streams // 2, cores.get("gateway", [])
    tokens = max(round(seconds * 1000 / gap_ms), 3)
    clients = cores.get("client", [])
    ports = free_ports(2)
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(servers(2, gap_ms, cores.get("server", [])))
        settings = settings_file(work, behind, ports)
        stack.enter_context(start_gateway(settings, 1, gateways))
        first = stack.enter_context(start_gateway(settings, 0, gateways))
        others = stack.enter_context(holding(ports[1], half, tokens, clients[:1]))
        kills, began = [], time.time()
        for number, sent in enumerate(ENDS, 1):
            if number > 1:
                first = stack.enter_context(start_gateway(settings, 0, gateways))
            own = stack.enter_context(holding(ports[0], half, tokens, clients[1:2]))
            time.sleep(max(began + seconds * number / (len(ENDS) + 1) - time.time(), 0))
            killed = time.time()
            first.send_signal(sent)
            report = json.loads(heard(own))
            first.wait()
            kills.append(verdict(sent, report, killed, began))
        untouched = json.loads(heard(others))
    last_kill = max(kill["at_s"] for kill in kills)
    untouched["first_end_s"] = round(untouched.pop("first_end") - began, 1)
    untouched["last_end_s"] = round(untouched.pop("last_end") - began, 1)
    whole = untouched["ends"] == {DONE: half} and untouched["tokens"] == {"least": tokens, "most": tokens}
    went_on = whole and not untouched["out_of_order"] and untouched["first_end_s"] > last_kill
    return {
        "seconds": seconds,
        "streams": streams,
        "gap_ms": gap_ms,
        "kills": kills,
        "others": {**untouched, "untouched": went_on},
        "passes": went_on and all(kill["passes"] for kill in kills),
    }


def verdict(sent: signal.Signals, report: dict[str, Any], killed: float, began: float) -> dict[str, Any]:
    """Returns the ends of the streams on the signalled gateway; `passes`: every stream ended in the required way,
    and not before the signal."""
    first, last = report.pop("first_end") - killed, report.pop("last_end") - killed
    passes = report["ends"] == {ENDS[sent]: report["streams"]} and first > 0 and not report["out_of_order"]
    seconds = {"first_end_after_s": round(first, 2), "last_end_after_s": round(last, 2)}
    return {"signal": sent.name, "at_s": round(killed - began, 1), **report, **seconds, "passes": passes}


@contextlib.contextmanager
def holding(port: int, streams: int, tokens: int, cores: Cores) -> Iterator[Process]:
    """Yields a process that holds a number of streams, each with a first token."""
    command = [sys.executable, "-m", "benchmarks.gateway.held", str(port), str(streams), str(tokens)]
    with begun(command, cores, says=True) as process:
        assert heard(process) == "ready"
        yield process
