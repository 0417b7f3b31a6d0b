"""Sends every model of a serving Triton one small real request, and restarts the server if one stays silent.

    host watch SERVER      run by enginehouse-watch@SERVER.timer; settings: /etc/enginehouse/watch.json

Readiness does not show every hang: a Python process that sleeps, an engine whose loop has died, both stay "ready". So
each model gets the request of `prove`, with a time limit. An unanswered request has one of two meanings, distinguished
by the model's answers to others since the last check (see `answered`):

    slow      there were answers: others are served, and our request waits in the queue. Not a miss
    silent    there were none: a miss. After `misses` of them in a row the unit is restarted through systemd

It does nothing while the unit starts or stops or during a swap, and a swap that begins meanwhile wins. Restarts are
limited: after `restarts` of them in `restart_hours` a person is needed. It prints no prompts or answers. It writes
watch.json beside `current`, ROOT/metrics/watch-SERVER.prom, and a line in history.jsonl for each restart.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from host import disk, history, places, prove, systemd, watch_llm
from host.server import Server

COUNTERS = {  # of files/llm and files/encoders, by kind of model
    "llm": "enginehouse_llm_answers_total",
    "embedder": "enginehouse_encoder_answers_total",
    "reranker": "enginehouse_encoder_answers_total",
}
METRICS = (
    ("misses", "gauge", "Consecutive probes without an answer, while the model answered no other request."),
    ("misses_total", "counter", "All such questions."),
    ("slow", "gauge", "1 while a model answers other requests but not the probe in time."),
    ("answer_seconds", "gauge", "Seconds of the last answer."),
)


def main(arguments: list[str]) -> int:
    """0 after recording the observations and acting upon them."""
    server = WatchedServer(arguments[0])
    settings = json.loads((places.SETTINGS / "watch.json").read_text())
    invocation = server.steady()
    if not invocation:
        return 0
    served = json.loads((server.place / "current" / "server.json").read_text())
    llm = served.get("llm", {})
    models = list(watched(served["models"]))
    names = [model["name"] for model in models]
    memory = server.remembered(invocation, [*names, *([llm["name"]] if llm else [])])
    asker = Asker(served, server.name, settings["answer_seconds"])
    for model in models:
        look(asker, model, memory["models"][model["name"]])
    if llm:
        watch_llm.look(server.llm, served, server.name, memory, settings["answer_seconds"])
    silent = [name for name, counts in memory["models"].items() if counts["misses"] >= settings["misses"]]
    if silent:
        act(server, invocation, memory, silent, settings)
    server.keep(memory)
    return 0


def watched(models: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The models with a record each: an engine's completions have their own, beside the engine.

    Their process may have died while the engine answers, at least our own questions, which its statistics count.
    """
    for model in models:
        completions = f"{model['name']}_completion"
        loads = model.get("loads", [])
        yield {**model, "loads": [name for name in loads if name != completions]}
        if model.get("path") == "engine" and completions in loads:
            yield {"name": completions, "kind": model["kind"], "decoupled": model["decoupled"]}


class Asker(prove.Triton):
    """The server, with one time limit for all requests."""

    def __init__(self, served: dict[str, Any], name: str, seconds: float) -> None:
        super().__init__(served, name)
        self.seconds = seconds
        self.metrics = prove.Triton({**served, "http_port": served["metrics_port"]}, name)

    def ask(
        self, path: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None, seconds: float = 0
    ) -> tuple[int, bytes]:
        return super().ask(path, body, headers, self.seconds)


def look(asker: Asker, model: dict[str, Any], counts: dict[str, Any]) -> None:
    """Updates `counts`: if the model answers, is slow, or is silent, and how often in a row."""
    watch_llm.count(counts, lambda: is_answered(asker, model), lambda: answered(asker, model))


def is_answered(asker: Asker, model: dict[str, Any]) -> bool:
    """True if the request got a correct answer. A wrong answer may quote any text, so it is not printed."""
    try:
        prove.QUESTIONS[model["kind"]](asker, model)
    except (prove.NotServing, OSError, *prove.MALFORMED):
        return False
    return True


def answered(asker: Asker, model: dict[str, Any]) -> int | None:
    """Number of answers, and parts of streamed answers, since the model was loaded; None if unknown.

    Counters that also move during a hang must not count: requests that came in or were refused. Triton counts a request
    as a success when `execute` returns (2.51 to 2.71), and our encoders and the LLM slot answer later from other
    threads: there even our own unanswered request is one. So they count their own answers. An engine's statistics are
    right: its backend counts a request when it ends.
    """
    try:
        own = None if model.get("path") == "engine" else counted_by_model(asker, model)
        return counted_by_triton(asker, model) if own is None else own
    except (OSError, *prove.MALFORMED):
        return None


def counted_by_model(asker: Asker, model: dict[str, Any]) -> int | None:
    """The model's own metric. Earlier releases have none, and there a hang may look like slowness."""
    status, body = asker.metrics.ask("/metrics", seconds=asker.seconds)
    if status != 200:
        raise OSError(f"/metrics answers {status}")
    metric = f'{COUNTERS[model["kind"]]}{{model="{model["name"]}"}} '
    samples = [line for line in body.decode().splitlines() if line.startswith(metric)]
    return int(float(samples[0].removeprefix(metric))) if samples else None


def counted_by_triton(asker: Asker, model: dict[str, Any]) -> int:
    """Triton's statistics; for an engine's ensemble also the answers of its engine, in parts if they are counted."""
    names = [model["name"], *(name for name in model.get("loads", []) if name.endswith("_tensorrt_llm"))]
    total = 0
    for name in dict.fromkeys(names):
        status, body = asker.ask(f"/v2/models/{name}/stats")
        if status != 200:
            raise OSError(f"the statistics of {name} answer {status}")
        for version in json.loads(body)["model_stats"]:
            total += int(version["inference_stats"]["success"]["count"])
            total += sum(int(part["success"]["count"]) for part in version.get("response_stats", {}).values())
    return total


def act(
    server: WatchedServer, invocation: str, memory: dict[str, Any], silent: list[str], settings: dict[str, Any]
) -> None:
    """Restarts the unit and records that; or prints the reason against it."""
    now = time.time()
    # abs(): restarts recorded by a clock that was ahead must not count until that time is reached.
    recent = [when for when in memory["restarts"] if abs(now - when) < 3600 * settings["restart_hours"]]
    reason = f"{', '.join(silent)} did not answer {settings['misses']} probes in a row"
    # The LLM beside Triton is a unit by itself, so its restart does not affect the encoders.
    unit = server.llm if silent == [memory.get("llm")] else server.unit
    if len(recent) >= settings["restarts"]:
        warn(f"{reason}; restarted {len(recent)} times in {settings['restart_hours']} h already, so a person must act")
    elif server.restart(invocation, reason, unit):
        memory["restarts"] = [*recent, now]
        memory["restarts_total"] += 1
        warn(f"{reason}: {unit} is restarted")


class WatchedServer(Server):
    """A server, and the record of its last checks."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.file = self.place / "watch.json"

    def steady(self) -> str:
        """The invocation of the unit while it serves and no change is in progress; else empty."""
        unit = systemd.show(self.unit, "ActiveState", "Job", "InvocationID")
        swap = systemd.show(f"enginehouse-swap@{self.name}.service", "ActiveState", "Job")
        is_swapped = systemd.has_job(swap) or swap["ActiveState"] not in ("inactive", "failed")
        is_changed = systemd.has_job(unit) or is_swapped or self.swap_file.exists()
        is_steady = unit["ActiveState"] == "active" and not is_changed
        return unit["InvocationID"] if is_steady else ""

    def restart(self, invocation: str, reason: str, unit: str) -> bool:
        """True if the unit is being restarted; false if it restarted since, or a swap holds the lock."""
        with (self.place / "lock").open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self.steady() != invocation:
                return False
            self.record_restart(reason)
            return not systemd.systemctl("restart", "--no-block", unit)

    def record_restart(self, reason: str) -> None:
        """Appends a line to the history, in the form of swaps."""
        release = Path(os.readlink(self.place / "current")).name
        entry = {"when": history.now(), "who": "this host's watchdog"}
        entry |= {"server": self.name, "from": release, "release": release, "result": "restarted", "reason": reason}
        if problem := history.record(entry):
            warn(problem)

    def remembered(self, invocation: str, models: list[str]) -> dict[str, Any]:
        """The record of the last check. From another start only the totals count."""
        try:
            kept = json.loads(self.file.read_text())
        except (OSError, ValueError, RecursionError):
            kept = dict[str, Any]()
        memory = {"restarts": [], "restarts_total": 0, **kept, "invocation": invocation}
        same = kept.get("invocation") == invocation
        memory.pop("llm", None)
        memory["models"] = {name: counts_of(kept.get("models", {}).get(name, {}), same) for name in models}
        return memory

    def keep(self, memory: dict[str, Any]) -> None:
        """Writes the record for the next check, and for node_exporter's textfile collector."""
        disk.replace(self.file, json.dumps(memory) + "\n")
        (places.ROOT / "metrics").mkdir(exist_ok=True)
        disk.replace(
            places.ROOT / "metrics" / f"watch-{self.name}.prom", metrics(self.name, memory, self.release("current"))
        )


def counts_of(kept: dict[str, Any], same: bool) -> dict[str, Any]:
    """The counts of a model; `same`: since the same start of the server."""
    zero = {"misses": 0, "misses_total": 0, "slow": 0, "answer_seconds": 0.0, "answered": None}
    return {**zero, **kept} if same else {**zero, "misses_total": kept.get("misses_total", 0)}


def metrics(server: str, memory: dict[str, Any], release: str = "") -> str:
    """The record for Prometheus."""
    lines = []
    for name, kind, meaning in METRICS:
        lines += [f"# HELP enginehouse_watch_{name} {meaning}", f"# TYPE enginehouse_watch_{name} {kind}"]
        for model, counts in memory["models"].items():
            lines.append(f'enginehouse_watch_{name}{{server="{server}",model="{model}"}} {counts[name]}')
    lines += ["# HELP enginehouse_watch_restarts_total Restarts by the watchdog."]
    lines += ["# TYPE enginehouse_watch_restarts_total counter"]
    lines += [f'enginehouse_watch_restarts_total{{server="{server}"}} {memory["restarts_total"]}']
    lines += ["# HELP enginehouse_watch_looked_timestamp_seconds Time of the watchdog's last check."]
    lines += ["# TYPE enginehouse_watch_looked_timestamp_seconds gauge"]
    lines += [f'enginehouse_watch_looked_timestamp_seconds{{server="{server}"}} {int(time.time())}']
    if release:
        lines += ["# HELP enginehouse_watch_release 1 for the release in service."]
        lines += ["# TYPE enginehouse_watch_release gauge"]
        lines += [f'enginehouse_watch_release{{server="{server}",release="{release}"}} 1']
    return "\n".join(lines) + "\n"


def warn(sentence: str) -> None:
    print(f"<4>{sentence}", flush=True)
