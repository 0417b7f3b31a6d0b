"""Fake hosts with histories of runs, and rollback.py typed on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyinfra import state

from deploy.io import inventory
from deploy.slices.traffic import SeenBySlice, TrafficSlice
from deploy.spec import Rollout
from tests.roles.fake import Ran, run
from tests.roles.plans import a_plan
from tests.roles.slices import SERVER, a_slice

VERB = compile((Path(__file__).parents[3] / "rollback.py").read_text("utf-8"), "rollback.py", "exec")
NAMES = ("one", "two", "three", "four")
FIRST, SECOND, THIRD = "20261120-080000-aaaa", "20261121-080000-bbbb", "20261122-080000-cccc"
SEEN = TrafficSlice(
    address="10.0.0.11",
    ready_port=8003,
    agent_port=8004,
    drain_seconds=60,
    heard_seconds=5,
    balancers=(SeenBySlice(name="edge", metrics="http://10.0.0.5:8405/metrics"),),
    servers=(),
)


class Machines:
    """Hosts with a history; a requested swap is made, and recorded."""

    def __init__(self) -> None:
        self.current = dict.fromkeys(NAMES, "")
        self.history: dict[str, list[str]] = {name: [] for name in NAMES}
        self.releases = {"a", "b", "c"}
        self.does_not_serve: set[str] = set()
        self.wrong: dict[str, str] = {}
        """The fault of a release's answers."""
        self.seen_ready = set(NAMES)
        """Hosts that the balancer sends requests to."""
        self.changed: list[str] = []

    def serves(self, name: str, release: str, **more: Any) -> None:
        """Records a successful swap."""
        entry = {"server": "main", "from": self.current[name], "release": release, "result": "serves", **more}
        self.history[name].append(json.dumps(entry))
        self.current[name] = release

    def deployed(self, run_id: str, release: str, names: Sequence[str] = NAMES) -> None:
        """Records a run of deploy.py that changed these hosts."""
        for name in names:
            self.serves(name, release, run=run_id, plan="77aa", who="ada@desk", wave=1)

    def swap(self, name: str) -> str:
        """Carries out wanted.json on the host."""
        heard = state.inventory.get_host(f"@fake/{name}").connector.heard
        wanted = json.loads(next(command.stdin for command in reversed(heard) if "wanted.json" in command.command))
        self.changed.append(name)
        if name not in self.does_not_serve:
            self.serves(name, wanted["release"], **{key: wanted[key] for key in ("run", "wave", "who", "plan", "back")})
        return ""

    def look(self, name: str, asks: bool) -> str:
        """The server's state; the number of its swaps identifies its start."""
        release, starts = self.current[name], str(len(self.history[name]))
        problem = self.wrong.get(release, "") if asks else ""
        status = {"server": "main", "release": release, "active": "active", "invocation": starts, "problem": problem}
        came_from = json.loads(self.history[name][-1])["from"] if self.history[name] else ""
        swap = {"release": release, "from": came_from, "answers": {"rank": 9.0}, "answers_before": {"rank": 1.0}}
        return json.dumps({**status, "swap": swap})

    def exporter(self) -> list[str]:
        """Readiness of every host as the balancer's exporter prints it."""
        up = 'haproxy_server_status{{proxy="chat_{}",server="_fake_{}.main",state="UP"}} {}'
        ready = [(name, int(name in self.seen_ready)) for name in NAMES]
        return ["balancer=edge", *(up.format(way, *of_host) for of_host in ready for way in ("http", "grpc"))]

    def answers(self, name: str) -> dict[Any, Any]:
        """A host's scripted answers and actions."""

        def serving(_: str) -> str:
            here = "".join(f"release={release}\n" for release in sorted(self.releases))
            return f"{here}server=main\ncurrent={self.current[name]}\nprevious=\nactive=active\nenabled=enabled"

        return {
            "history.jsonl": lambda _: self.history[name],
            "host tell": lambda command: self.look(name, "--ask" in command),
            "curl": lambda _: self.exporter(),
            'echo "server=$s"': serving,
            "/verdict.json": lambda _: json.dumps({"release": self.current[name], "asked": "another", "sentence": ""}),
            "systemctl start --no-block enginehouse-swap@main": lambda _: self.swap(name),
        }


def planned_over(monkeypatch: pytest.MonkeyPatch, servers: Sequence[str] = ("main",), **changes: Any) -> None:
    """Sets the inventory: four hosts of the pool `chat` with these servers; `changes` are those of Rollout."""
    slices = [
        a_slice(
            host=f"@fake/{name}",
            pool="chat",
            traffic=SEEN,
            servers=tuple(replace(SERVER, name=server) for server in servers),
        )
        for name in NAMES
    ]
    plan = a_plan(*slices, rollout=Rollout(max_unavailable=2, slower_percent=20, **changes))
    waves = tuple(tuple(f"@fake/{name}" for name in wave) for wave in (NAMES[:1], NAMES[1:3], NAMES[3:]))
    monkeypatch.setattr(inventory, "planned", lambda *_: replace(plan, waves=waves))


def typed(machines: Machines, run_id: str = "", **how: Any) -> Ran:
    """The outcome of rollback.py as typed."""
    machines.changed.clear()

    def verb() -> None:
        exec(VERB, {"__name__": "rollback"})

    answers = {name: machines.answers(name) for name in NAMES}
    data = {"rollout_settings": {"room_seconds": 0}, **({"run": run_id} if run_id else {})}
    return run(verb, hosts=NAMES, answers=answers, data=data, **how)
