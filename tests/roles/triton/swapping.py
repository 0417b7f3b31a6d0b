"""A host for `swap`: its folder, and a systemd controlled by the test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host import places, server, swap


class FakeHost:
    """/var/lib/enginehouse in a folder, and a systemd whose units become active only for `good` releases."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.good, self.units, self.calls = root, set[str](), dict[str, str](), list[str]()
        self.answers: dict[str, dict[str, float]] = {}
        (root / "releases").mkdir()
        for name in ("main", "old", "aux"):
            (root / "servers" / name).mkdir(parents=True)
            self.units[f"triton@{name}.service"] = "inactive"
        monkeypatch.setattr(places, "ROOT", root)
        monkeypatch.setattr(server.Server, "systemctl", lambda this, *words: self.systemctl(*words))
        monkeypatch.setattr(server.Server, "show", lambda this, *properties: self.show(this.unit, *properties))
        monkeypatch.setattr(server.time, "sleep", lambda seconds: None)

    def systemctl(self, *arguments: str) -> None:
        self.calls.append(arguments[0])
        for unit in set(arguments) & set(self.units):
            if arguments[0] == "start":
                current = self.link("current", unit.removeprefix("triton@").removesuffix(".service"))
                self.units[unit] = "active" if current in self.good else "failed"
                if current in self.answers:
                    (self.root / "servers/main/proof.json").write_text(json.dumps(self.proof(current)))
            if arguments[0] == "stop":
                self.units[unit] = "inactive"

    def proof(self, release: str) -> dict[str, Any]:
        """The proof that `prove` writes for a serving release."""
        return {"ok": True, "reason": "", "release": release, "answers": self.answers[release]}

    def show(self, unit: str, *properties: str) -> dict[str, str]:
        return dict.fromkeys(properties, "") | {"ActiveState": self.units[unit], "NRestarts": "0", "Job": "0"}

    def publish(self, release: str, good: bool = True, port: int = 8000, gpu: int = 0) -> None:
        path = self.root / "releases" / release
        path.mkdir()
        (path / "server.json").write_text(
            json.dumps({"server": "main", "start_seconds": 1, "image": {"pull_reference": "image@sha256:1"}})
        )
        (path / "run").write_text(f"  --publish 127.0.0.1:{port}:8000\n  --device nvidia.com/gpu={gpu}\n")
        self.good |= {release} if good else set()

    def runs(self, name: str, release: str) -> None:
        """Adds another server that has served for long."""
        server.Server(name).point("current", release)
        self.units[f"triton@{name}.service"] = "active"

    def ask(self, release: str, keep: int = 3, instead_of: tuple[str, ...] = (), **of_run: Any) -> int:
        wanted = {"release": release, "plan": "plan-1", "keep": keep, "who": "me@here", "instead_of": instead_of}
        wanted |= {"asked": f"for {release}", **of_run}
        (self.root / "servers/main/wanted.json").write_text(json.dumps(wanted))
        return self.call("run")

    def call(self, verb: str) -> int:
        return swap.main([verb, "main"])

    def link(self, name: str, of: str = "main") -> str:
        path = self.root / "servers" / of / name
        return path.resolve().name if path.is_symlink() else ""

    def cut(self, before: str, target: str, **more: Any) -> None:
        """Writes the state after a power cut in the middle of a swap."""
        swap_file = {"from": before, "to": target, "pid": 1, **more}
        (self.root / "servers/main/swap.json").write_text(json.dumps(swap_file))
        server.Server("main").point("current", target)

    @property
    def active(self) -> str:
        return self.units["triton@main.service"]

    def of(self, name: str) -> tuple[str, str]:
        """The `current` release of another server, and its unit's state."""
        return self.link("current", name), self.units[f"triton@{name}.service"]

    @property
    def links(self) -> tuple[str, str]:
        return self.link("current"), self.link("previous")

    @property
    def verdict(self) -> dict[str, Any]:
        return dict(json.loads((self.root / "servers/main/verdict.json").read_text()))

    @property
    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / "history.jsonl").read_text().splitlines()]

    @classmethod
    def with_releases(cls, root: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
        """A host with releases one and two, which serve, and bad, which never does."""
        made = cls(root, monkeypatch)
        made.publish("one")
        made.publish("two")
        made.publish("bad", good=False)
        return made
