#!/usr/bin/python3
"""Asks every model of a serving Triton one small real question, and restarts the server when one stays silent.

    watch.py SERVER      run by enginehouse-watch@SERVER.timer; settings: /etc/enginehouse/watch.json

Ready does not see every hang: a Python process that sleeps, an engine whose loop has died, both stay "ready". So a
question is asked as prove.py asks it, with a time limit. What is not answered in time is one of two things, told apart
by what the model has answered since the last look (see `answered`):

    slow      they moved: somebody is being served, and our question waits its turn. Not a miss
    silent    they did not move: a miss. After `misses` of them in a row the unit is restarted through systemd

Nothing is done while the unit starts or stops or a swap is under way, and a swap that begins meanwhile wins. A restart
that does not help is not repeated for ever: `restarts` of them in `restart_hours`, then it is left to a person.
Says nothing of what was asked or answered. Leaves watch.json beside `current`, ROOT/metrics/watch-SERVER.prom, and a
line in history.jsonl for each restart.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import prove  # beside this program

ROOT = Path(os.environ.get("ENGINEHOUSE_ROOT", "/var/lib/enginehouse"))
SETTINGS = Path(os.environ.get("ENGINEHOUSE_WATCH", "/etc/enginehouse/watch.json"))
COUNTERS = {  # of files/llm and files/encoders, by kind of model
    "llm": "enginehouse_llm_answers_total",
    "embedder": "enginehouse_encoder_answers_total",
    "reranker": "enginehouse_encoder_answers_total",
}
METRICS = (
    ("misses", "gauge", "Questions in a row that a model left unanswered while it answered nobody else."),
    ("misses_total", "counter", "All such questions."),
    ("slow", "gauge", "1 while a model answers others and not the question in time."),
    ("answer_seconds", "gauge", "How long the last answer took."),
)


def main() -> int:
    server = Watched(sys.argv[1])
    settings = json.loads(SETTINGS.read_text())
    invocation = server.steady()
    if not invocation:
        return 0
    served = json.loads((server.place / "current" / "server.json").read_text())
    memory = server.remembered(invocation, [model["name"] for model in served["models"]])
    asker = Asker(served, server.name, settings["answer_seconds"])
    for model in served["models"]:
        look(asker, model, memory["models"][model["name"]])
    silent = [name for name, seen in memory["models"].items() if seen["misses"] >= settings["misses"]]
    if silent:
        act(server, invocation, memory, silent, settings)
    server.keep(memory)
    return 0


class Asker(prove.Triton):
    """The server, asked with one time limit for everything."""

    def __init__(self, served: dict, name: str, seconds: float) -> None:
        super().__init__(served, name)
        self.seconds = seconds
        self.metrics = prove.Triton({**served, "http_port": served["metrics_port"]}, name)

    def ask(self, path: str, body: dict | None = None, headers: dict | None = None, seconds: float = 0):
        """As of prove.py; `seconds` is not asked for."""
        return super().ask(path, body, headers, self.seconds)


def look(asker: Asker, model: dict, seen: dict) -> None:
    """`seen` says whether the model answers, is slow, or is silent, and how often in a row."""
    if seen["answered"] is None:
        seen["answered"] = answered(asker, model)
    began = time.monotonic()
    answers = is_answered(asker, model)
    took, now = time.monotonic() - began, answered(asker, model)
    moved = now is not None and seen["answered"] is not None and now > seen["answered"]
    seen["slow"] = int(moved and not answers)
    if answers:
        seen["answer_seconds"] = round(took, 3)
    if answers or moved:
        seen["misses"] = 0
    else:
        seen["misses"] += 1
        seen["misses_total"] += 1
    seen["answered"] = seen["answered"] if now is None else now


def is_answered(asker: Asker, model: dict) -> bool:
    """Whether the one question got a right answer. The text of a wrong one may quote anything, so it is not told."""
    try:
        prove.QUESTIONS[model["kind"]](asker, model)
    except (prove.NotServing, OSError, ValueError, KeyError, TypeError):
        return False
    return True


def answered(asker: Asker, model: dict) -> int | None:
    """How many answers, and parts of streamed answers, the model has given since it was loaded; None when unknown.

    What moves while everything hangs must not count: requests that came in or were refused. Triton counts a request as
    a success when `execute` returns (2.51 to 2.71), and our encoders and the LLM slot answer later from other threads:
    there even our own unanswered question is one. So they count for themselves what they send. An engine's statistics
    are right: its backend counts a request when it ends.
    """
    try:
        own = None if model.get("path") == "engine" else counted_by_model(asker, model)
        return counted_by_triton(asker, model) if own is None else own
    except (OSError, ValueError, KeyError, TypeError):
        return None


def counted_by_model(asker: Asker, model: dict) -> int | None:
    """Its own metric. None of a release from before it had one, where a hang may pass for slow, as it did then."""
    status, body = asker.metrics.ask("/metrics", seconds=asker.seconds)
    if status != 200:
        raise OSError(f"/metrics answers {status}")
    metric = f'{COUNTERS[model["kind"]]}{{model="{model["name"]}"}} '
    told = [line for line in body.decode().splitlines() if line.startswith(metric)]
    return int(float(told[0].removeprefix(metric))) if told else None


def counted_by_triton(asker: Asker, model: dict) -> int:
    """By Triton's statistics; of an engine's ensemble also what its engine answered, parts where they are counted."""
    names = [model["name"], *(name for name in model.get("loads", []) if name.endswith("_tensorrt_llm"))]
    total = 0
    for name in dict.fromkeys(names):
        status, body = asker.ask(f"/v2/models/{name}/stats")
        if status != 200:
            raise OSError(f"the statistics of {name} answer {status}")
        for each in json.loads(body)["model_stats"]:
            total += int(each["inference_stats"]["success"]["count"])
            total += sum(int(part["success"]["count"]) for part in each.get("response_stats", {}).values())
    return total


def act(server: Watched, invocation: str, memory: dict, silent: list[str], settings: dict) -> None:
    """The unit is restarted and that is recorded; or it is said why not."""
    since = time.time() - 3600 * settings["restart_hours"]
    recent = [when for when in memory["restarts"] if when > since]
    reason = f"{', '.join(silent)} answered nothing {settings['misses']} times in a row"
    if len(recent) >= settings["restarts"]:
        warn(f"{reason}; restarted {len(recent)} times in {settings['restart_hours']} h already, so it is left to you")
    elif server.restart(invocation, reason):
        memory["restarts"] = [*recent, time.time()]
        memory["restarts_total"] += 1
        warn(f"{reason}: {server.unit} is restarted")


class Watched:
    """One server's unit and place on the host."""

    def __init__(self, name: str) -> None:
        self.name, self.unit = name, f"triton@{name}.service"
        self.place = ROOT / "servers" / name
        self.file = self.place / "watch.json"

    def steady(self) -> str:
        """The invocation of the unit while it serves and nobody is changing that; else empty."""
        unit = show(self.unit, "ActiveState", "Job", "InvocationID")
        swap = show(f"enginehouse-swap@{self.name}.service", "ActiveState", "Job")
        idle = unit["Job"] in ("", "0") and swap["Job"] in ("", "0") and swap["ActiveState"] in ("inactive", "failed")
        is_steady = unit["ActiveState"] == "active" and idle and not (self.place / "swap.json").exists()
        return unit["InvocationID"] if is_steady else ""

    def restart(self, invocation: str, reason: str) -> bool:
        """Whether it is being restarted. Not when it is another start by now, or somebody holds the swap's lock."""
        with (self.place / "lock").open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self.steady() != invocation:
                return False
            self.record(reason)
            return not subprocess.run(["systemctl", "restart", "--no-block", self.unit], check=False).returncode

    def record(self, reason: str) -> None:
        """One line of history, in the form the swaps write."""
        release = Path(os.readlink(self.place / "current")).name
        entry = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "who": "this host's watchdog"}
        entry |= {"server": self.name, "from": release, "release": release, "result": "restarted", "reason": reason}
        try:
            with (ROOT / "history.jsonl").open("a") as history:
                history.write(json.dumps(entry) + "\n")
                history.flush()
                os.fsync(history.fileno())
        except OSError as problem:
            warn(f"history.jsonl has no line of this: {problem}")

    def remembered(self, invocation: str, models: list[str]) -> dict:
        """What the last look left. Of another start only the totals count."""
        try:
            kept = json.loads(self.file.read_text())
        except (OSError, ValueError):
            kept = {}
        memory = {"restarts": [], "restarts_total": 0, **kept, "invocation": invocation}
        same = kept.get("invocation") == invocation
        memory["models"] = {name: fresh(kept.get("models", {}).get(name, {}), same) for name in models}
        return memory

    def keep(self, memory: dict) -> None:
        """What the next look, and node_exporter's textfile collector, will read."""
        replace(self.file, json.dumps(memory) + "\n")
        (ROOT / "metrics").mkdir(exist_ok=True)
        replace(ROOT / "metrics" / f"watch-{self.name}.prom", metrics(self.name, memory))


def fresh(kept: dict, same: bool) -> dict:
    """What is known of one model; `same` start of the server or another one."""
    zero = {"misses": 0, "misses_total": 0, "slow": 0, "answer_seconds": 0.0, "answered": None}
    return {**zero, **kept} if same else {**zero, "misses_total": kept.get("misses_total", 0)}


def metrics(server: str, memory: dict) -> str:
    """The same for Prometheus."""
    lines = []
    for name, kind, told in METRICS:
        lines += [f"# HELP enginehouse_watch_{name} {told}", f"# TYPE enginehouse_watch_{name} {kind}"]
        for model, seen in memory["models"].items():
            lines.append(f'enginehouse_watch_{name}{{server="{server}",model="{model}"}} {seen[name]}')
    lines += ["# HELP enginehouse_watch_restarts_total Restarts by the watchdog."]
    lines += ["# TYPE enginehouse_watch_restarts_total counter"]
    lines += [f'enginehouse_watch_restarts_total{{server="{server}"}} {memory["restarts_total"]}']
    lines += ["# HELP enginehouse_watch_looked_timestamp_seconds When the watchdog last looked."]
    lines += ["# TYPE enginehouse_watch_looked_timestamp_seconds gauge"]
    lines += [f'enginehouse_watch_looked_timestamp_seconds{{server="{server}"}} {int(time.time())}']
    return "\n".join(lines) + "\n"


def show(unit: str, *properties: str) -> dict[str, str]:
    """A unit's properties as systemd tells them."""
    asked = ["systemctl", "show", "-p", ",".join(properties), unit]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    found = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    return {each: found.get(each, "") for each in properties}


def replace(path: Path, content: str) -> None:
    """The file holds `content`; no reader sees half of it."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(content)
    new.rename(path)


def warn(sentence: str) -> None:
    """A line of the journal, as a warning: the unit keeps lesser ones out."""
    print(f"<4>{sentence}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
