"""The role on fake hosts: bare, finished, half-finished; and the server's stop as systemd runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deploy.slices.host import Slice
from deploy.slices.traffic import SeenBySlice, TrafficServerSlice, TrafficSlice
from roles import foundation, nvidia_driver, traffic
from roles._pyinfra.steps import CachedFact, any_changed, step
from roles._shipping.texts import HERE
from roles.traffic.defaults import NOTICES_UNIT
from roles.traffic.facts import Service
from roles.traffic.operations import notices, settings, unit
from roles.triton.operations import texts
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice

TRAFFIC = TrafficSlice(
    address="10.0.0.11",
    ready_port=8003,
    agent_port=8004,
    drain_seconds=60,
    heard_seconds=5,
    balancers=(SeenBySlice(name="edge-1", metrics="http://10.0.0.5:8405/metrics"),),
    servers=(TrafficServerSlice(name="main", models=("gpt-oss-20b",), seen_as=("chat_http/h1.main",)),),
)
MINE = replace(a_slice(), traffic=TRAFFIC)
WANTED = settings(TRAFFIC)
PLACED = "\n".join(f"{text.wanted_fact} {text.path}" for text in (unit(), WANTED))
RUNS = ["unit\tId=enginehouse-traffic.service", "unit\tLoadState=loaded", "unit\tActiveState=active",
        "unit\tUnitFileState=enabled", "unit\t", "value\tuser\t998"]  # fmt: skip
RUN = "systemctl enable --now enginehouse-traffic.service"
TRIED = "systemctl try-restart enginehouse-traffic.service"


def play(seen: str = "", runs: list[str] | None = None, mine: Slice = MINE, **options: Any) -> Ran:
    """The role on one host with these answers."""
    answers = {"%n %a %U": seen, "systemctl show --property=Id": runs or []}
    return run(lambda: traffic.apply(mine), answers=answers, **options)


def test_a_bare_host_gets_unit_settings_and_a_running_service() -> None:
    ran = play()
    assert [name.removeprefix("Traffic | ") for name in ran.changed] == [
        "Make the user of the service",
        "Install the service",
        "Run the service",
    ]
    assert [RUN in command for command in ran.commands].count(True) == 1


def test_a_finished_host_changes_nothing() -> None:
    ran = play(PLACED, RUNS)
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_service_that_was_stopped_or_disabled_runs_again() -> None:
    stopped = [line.replace("ActiveState=active", "ActiveState=inactive") for line in RUNS]
    disabled = [line.replace("=enabled", "=disabled") for line in RUNS]
    assert [RUN in play(PLACED, runs).commands[0] for runs in (stopped, disabled)] == [True, True]


def test_other_settings_are_written_and_taken_up_in_one_command() -> None:
    ran = play(PLACED.replace(WANTED.wanted_fact, f"{'0' * 64} 644 root"), RUNS)
    assert len(ran.commands) == 1
    assert f"/etc/enginehouse/traffic.json && {{ {TRIED}" in ran.commands[0]


def test_another_unit_is_put_under_the_dead_mans_switch_and_started_anew() -> None:
    ran = play(PLACED.replace(unit().wanted_fact, f"{'0' * 64} 644 root"), RUNS)
    assert ran.commands[-1] == "confirm units-traffic over a new connection"
    assert any(TRIED in command for command in ran.commands)


def test_a_host_that_lost_the_user_gets_it_again() -> None:
    (command,) = play(PLACED, RUNS[:-1]).commands
    assert command.startswith("useradd --system ") and command.endswith(" enginehouse-traffic")


def test_a_dry_run_announces_every_step_of_a_bare_host() -> None:
    assert len(play(dry=True).would_change) == 3


def test_a_host_without_servers_gets_nothing() -> None:
    assert play(mine=replace(MINE, traffic=replace(TRAFFIC, servers=()))).operations == ()


def test_service_and_stop_read_the_same_settings() -> None:
    written = json.loads(WANTED.content)
    assert len(written.pop("programs")) == 64
    assert written == {
        "address": "10.0.0.11",
        "agent_port": 8004,
        "ready_port": 8003,
        "drain_seconds": 60,
        "heard_seconds": 5,
        "balancers": [{"name": "edge-1", "metrics": "http://10.0.0.5:8405/metrics"}],
        "servers": {"main": {"models": ["gpt-oss-20b"], "seen_as": ["chat_http/h1.main"]}},
    }


def story(change: bool) -> Ran:
    """A wave on a host where a step would change something, or nothing."""

    def wave() -> None:
        swapped = step(CachedFact(Service), lambda _: ["swap"] if change else [], name="Swap")
        traffic.log_undrained(MINE, [swapped])

    return run(wave, dry=True)


def test_dry_announces_no_drain_if_no_server_stops() -> None:
    sentence = "this run stops no server of this host, so the host is not drained"
    assert [any(sentence in line for line in story(change).log) for change in (False, True)] == [True, False]


def test_a_server_is_drained_before_its_container_is_stopped() -> None:
    lines = (HERE / "files/units/triton@.service").read_text().splitlines()
    stops = [line for line in lines if line.startswith("ExecStop=")]
    assert stops == [
        "ExecStop=-/usr/bin/python3 -B /usr/local/lib/enginehouse/host traffic drained %i",
        "ExecStop=-/usr/bin/docker stop triton-%i",
    ]


def test_servers_stop_with_docker_before_it_and_start_with_it_again() -> None:
    lines = (HERE / "files/units/triton@.service").read_text().splitlines()
    assert {"PartOf=docker.service", "WantedBy=multi-user.target docker.service"} <= set(lines)
    assert not any(line.startswith(("Requires=docker", "BindsTo=")) for line in lines)


def test_a_docker_that_comes_back_lets_a_server_start_that_used_up_its_starts() -> None:
    (text,) = [text for text in texts([]) if "docker.service.d" in text.path]
    assert "ExecStartPost=-/bin/systemctl reset-failed triton@*.service\n" in text.content


def test_a_dry_run_works_on_a_serving_host_with_an_unmanaged_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No step of a dry run waits for itself, even if no step before it changes anything."""
    mine = replace(MINE, driver=replace(MINE.driver, manage=False))
    monkeypatch.setattr(nvidia_driver, "apply", lambda _: [step(CachedFact(Service), lambda _: [], name="As wanted")])
    answers: list[bool] = []

    def wave() -> None:
        answers.extend(any_changed([operation]) for operation in foundation.apply(mine, drained=True))

    run(wave, answers={"list-units": ["triton@main.service loaded active"]}, detect_changes=False)
    assert len(answers) > 10


def test_a_host_asks_for_notices_where_its_machine_names_the_cloud() -> None:
    """A second run changes nothing; another cloud's name restarts the program."""
    spot = replace(MINE, machine=replace(MINE.machine, notices="aws"))
    first = play(mine=spot)
    assert [name.removeprefix("Traffic | ") for name in first.changed][-2:] == [
        "Place the program that asks aws for notices",
        "Ask for notices",
    ]
    assert any("systemctl enable --now enginehouse-notices.service" in command for command in first.commands)
    more = "\n".join(f"{text.wanted_fact} {text.path}" for text in (unit(NOTICES_UNIT), notices("aws")))
    asks = [line.replace("enginehouse-traffic", "enginehouse-notices") for line in RUNS[:5]]
    assert play(f"{PLACED}\n{more}", [*RUNS[:5], *asks, RUNS[-1]], spot).changed == ()
    moved = replace(MINE, machine=replace(MINE.machine, notices="gcp"))
    (command,) = play(f"{PLACED}\n{more}", [*RUNS[:5], *asks, RUNS[-1]], moved).commands
    assert '"cloud": "gcp"' in command and "systemctl try-restart enginehouse-notices.service" in command


def test_a_host_without_a_cloud_loses_the_program() -> None:
    answers = {"%n %a %U": PLACED, "systemctl show --property=Id": RUNS, "enginehouse-notices.service ] ||": ["there"]}
    (command,) = run(lambda: traffic.apply(MINE), answers=answers).commands
    assert command.startswith("systemctl disable --now enginehouse-notices.service; rm -rf ")
