"""The service's unit and settings, and the commands for differences. Pure; `step` runs them."""

import json
from collections.abc import Collection, Iterator, Mapping

from deploy.models.files import ROOT
from deploy.slices.traffic import TrafficSlice
from roles._pyinfra import undo
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, write
from roles._shipping import programs
from roles._shipping.places import UNITS
from roles._shipping.texts import Text, shipped
from roles._shipping.units import kept_running, taken_off
from roles.traffic.defaults import MARGIN_SECONDS, NOTICES, NOTICES_UNIT, UNIT, USER, WANTED


def shown(name: str) -> str:
    return f"{{ journalctl -q -u {name} -n 5 -o cat >&2; false; }}"


def unit(name: str = UNIT) -> Text:
    return shipped(f"files/units/{name}", f"{UNITS}/{name}")


def notices(cloud: str) -> Text:
    """Settings of the program that asks this cloud for notices of interruption; `programs` as in `settings`."""
    content = {"cloud": cloud, "margin_seconds": MARGIN_SECONDS, "programs": programs.shipped_version()}
    return Text(NOTICES, json.dumps(content, indent=2) + "\n")


def settings(traffic: TrafficSlice, beside: Collection[str] = ()) -> Text:
    """Settings for the service and for each server's stop; `beside` are servers with an LLM beside Triton.

    `programs` makes the text change with the programs, so that the service restarts with the new ones.
    """
    content = {
        "address": traffic.address,
        "agent_port": traffic.agent_port,
        "ready_port": traffic.ready_port,
        "drain_seconds": traffic.drain_seconds,
        "heard_seconds": traffic.heard_seconds,
        "balancers": [{"name": balancer.name, "metrics": balancer.metrics} for balancer in traffic.balancers],
        "servers": {
            server.name: {"models": list(server.models), "seen_as": list(server.seen_as)}
            | ({"llm": True} if server.name in beside else {})
            for server in traffic.servers
        },
        "programs": programs.shipped_version(),
    }
    return Text(WANTED, json.dumps(content, indent=2) + "\n")


def user(facts: HostFacts) -> Iterator[Command]:
    if not facts.value("user"):
        yield f"useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin {USER}"


def install(wanted: Text, facts: Mapping[str, str], name: str = UNIT, subject: str = "traffic") -> Iterator[Command]:
    """Commands that write unit and settings; the same command restarts a running service.

    A kill of the run cannot come between the two: the next run would find the file as wanted and skip the restart.
    """
    again = f"{{ systemctl try-restart {name} || {shown(name)}; }}"
    more: list[Command] = []
    if facts.get(wanted.path) != wanted.wanted_fact:
        more = [write(wanted.path, wanted.content, wanted.mode, then=again)]
    elif facts.get(unit(name).path) != unit(name).wanted_fact:
        more = [again]
    yield from undo.put_watched(subject, [unit(name)], facts, *more)


def run(facts: HostFacts, name: str = UNIT) -> Iterator[Command]:
    """The command after which the service runs now and after every boot."""
    yield from kept_running(facts, name, f" || {shown(name)}")


def retired(is_left: bool) -> Iterator[Command]:
    """The command that stops asking the cloud; a drain that a notice began ends at its time."""
    if is_left:
        yield taken_off(NOTICES_UNIT, f"{ROOT}/notices", f"{ROOT}/metrics/notices.prom", NOTICES)
