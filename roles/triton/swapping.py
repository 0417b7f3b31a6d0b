"""Requests a swap of the host and waits for its verdict; the host does the swap (files/host/swap.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.models.files import ROOT
from deploy.rollout.promotion import compared_lines
from roles._pyinfra.runs import this_run
from roles._pyinfra.steps import write
from roles._shipping import places, units
from roles.triton.defaults import Defaults


@dataclass(frozen=True)
class Asking:
    """Origin of a swap for the host's history."""

    plan: str
    run: str
    wave: int
    who: str
    back: str = ""
    """The run that this run reverts."""

    @classmethod
    def of(cls, state: State, plan: str, wave: int, back: str = "") -> Asking:
        """The run of `state`, in one of its waves."""
        run = this_run(state)
        return cls(plan, run.id, wave, run.who, back)

    def to_json(self) -> dict[str, str | int]:
        """Record for the history."""
        record: dict[str, str | int] = {"plan": self.plan, "run": self.run, "wave": self.wave, "who": self.who}
        return record | ({"back": self.back} if self.back else {})


def ask_for(
    server: str,
    release: str,
    asking: Asking,
    settings: Defaults,
    seconds: int,
    instead_of: Sequence[str] = (),
    replay: Mapping[str, Any] | None = None,
) -> Iterator[PyinfraCommand]:
    """Swaps `release` in; fails with the reason if the earlier release was restored instead.

    `instead_of`: servers that may end if this one serves, and serve again if it does not. `replay`: the prompts and
    limits for comparing the release's LLM with its predecessor.
    """
    request_id = token_hex(8)
    wanted = {"release": release, "keep": settings.keep_releases, "asked": request_id, "instead_of": list(instead_of)}
    wanted |= asking.to_json() | ({"replay": replay} if replay else {})
    # Only root may read the operator's prompts.
    yield write(f"{places.server(server)}/wanted.json", json.dumps(wanted) + "\n", "0600" if replay else "0644")
    yield StringCommand(units.start(f"enginehouse-swap@{server}.service"))
    yield FollowSwap(server, release, request_id, seconds)


class FollowSwap(units.Follow):
    """Waits for the requested swap, and for no other.

    systemd starts nothing if another run's swap, or an interrupted run's, is already running; that swap read its
    request before we wrote ours. It still counts as ours if it brought the same release.
    """

    def __init__(self, server: str, release: str, request_id: str, seconds: int) -> None:
        super().__init__(f"enginehouse-swap@{server}.service", f"server {server}", seconds, explain=self._explain)
        self.server, self.release, self.request_id = server, release, request_id

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the requested release serves."""
        if not super().execute(state, host, connector_arguments):
            return False
        verdict = self._verdict(host, connector_arguments)
        # A host with older programs does not report the requester.
        if verdict["release"] == self.release or verdict.get("asked", self.request_id) == self.request_id:
            for line in compared_lines(verdict):
                host.log(f"{self.server}: {line}", log_func=logger.info)
            return True
        if not verdict["release"]:
            self._explain(host, connector_arguments)
            return False
        for line in (
            f"another swap was under way: it brought {verdict['release']}",
            "  state   the other swap's release serves; this run's swap did not begin",
            f"  try     see which run changes this host (tail {ROOT}/history.jsonl), then run again",
        ):
            host.log_styled(f"{self.server}: {line}", fg="red", log_func=logger.error)
        return False

    def _verdict(self, host: Host, arguments: ConnectorArguments) -> dict[str, Any]:
        lines = units.run(host, f"cat {places.server(self.server)}/verdict.json 2>/dev/null || true", arguments)
        texts = dict.fromkeys(("release", "sentence", "reason"), "")
        try:
            verdict = {**texts, **json.loads("\n".join(lines))}
        except (ValueError, TypeError, RecursionError):
            why = f"journalctl -u enginehouse-swap@{self.server}"
            return {"release": "", "asked": "", "sentence": "the swap ended without a verdict", "reason": why}
        return verdict | {name: str(verdict[name]) for name in texts}

    def _explain(self, host: Host, arguments: ConnectorArguments) -> None:
        """Logs the host's verdict on a failed swap, in words."""
        verdict = self._verdict(host, arguments)
        for line in [verdict["sentence"], *verdict["reason"].splitlines(), *compared_lines(verdict)[1:]]:
            host.log_styled(f"{self.server}: {line}", fg="red", log_func=logger.error)


def swap_seconds(change_seconds: int, settings: Defaults, instead_of: int = 0) -> int:
    """Seconds that a swap may take: stop and start, both again to undo it, and once for each server stopped for it.

    The plan no longer has those servers, so this server's `change_seconds` are used for them.
    """
    return (2 + instead_of) * change_seconds + settings.swap_margin_seconds
