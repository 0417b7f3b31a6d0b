"""The program that asks a cloud for notices, with stand-ins of three clouds; each test sets the time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from host import places
from host.notices import clouds, drain
from host.notices.main import Watch
from host.traffic import stopping
from host.traffic.state import cut_file, hold_file
from rehearsal.metadata import Cloud, metadata
from tests.roles.traffic.test_stopping import Exporter
from tests.roles.web import serving

LINES = ["chat_http/h1.main", "chat_grpc/h1.main"]
USUAL = {"aws": ("spot terminate", 120), "gcp": ("preemption", 30), "azure": ("Preempt", 30)}


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A host in a folder; the arguments of every systemctl."""
    for name in ("ROOT", "SETTINGS", "RUNTIME"):
        monkeypatch.setattr(places, name, tmp_path)
    words = list[tuple[str, ...]]()
    monkeypatch.setattr(drain, "systemctl", lambda *arguments: words.append(arguments))
    monkeypatch.setattr(clouds, "ANSWER_SECONDS", 0.5)
    return words


@pytest.fixture(params=sorted(USUAL))
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """The stand-in of each cloud."""
    with metadata(request.param) as stand_in:
        yield stand_in


def watching(cloud: Cloud, *balancers: str, beside: bool = False) -> Watch:
    """The program on a host with one server, and these balancers."""
    server: dict[str, Any] = {"models": ["chat"], "seen_as": LINES} | ({"llm": True} if beside else {})
    traffic = {
        "servers": {"main": server},
        "balancers": [{"name": "edge", "metrics": f"{url}/metrics"} for url in balancers],
        "drain_seconds": 600,
        "heard_seconds": 5,
    }
    return Watch({"cloud": cloud.kind, "metadata": cloud.url, "margin_seconds": 5}, traffic)


def results() -> list[tuple[str, str]]:
    """Result and notice of each line of the host's history."""
    file = places.ROOT / "history.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(entry["result"], entry["notice"]) for entry in map(json.loads, lines)]


def held() -> dict[str, Any] | None:
    """The hold of the server."""
    return json.loads(hold_file("main").read_text()) if hold_file("main").exists() else None


def test_without_a_notice_nothing_is_held(cloud: Cloud, commands: list[tuple[str, ...]]) -> None:
    """Azure reports an event of another VM throughout."""
    watch = watching(cloud)
    for moment in (0, 10, 20):
        watch.look(1e9 + moment)
    assert (watch.problem, watch.notices, held(), results(), commands) == ("", [], None, [], [])


def test_a_notice_holds_every_server_at_once_and_a_drained_host_keeps_its_servers(
    cloud: Cloud, commands: list[tuple[str, ...]]
) -> None:
    """Balancers notice it first; the servers still run, because a notice may be withdrawn."""
    kind, seconds = USUAL[cloud.kind]
    with serving(Exporter(("UP", 2), ("DRAIN", 2), ("DRAIN", 0))) as edge:
        watch = watching(cloud, edge.url)
        cloud.notice(seconds=seconds)
        began = cloud.ends - seconds
        watch.look(began)
        assert held() and held()["until"] > cloud.ends
        for second in range(1, seconds + 20):
            watch.look(began + second)
    assert results() == [("announced", kind), ("drained", kind)]
    assert (commands, watch.kept["cut"]) == ([], 0)


def test_requests_that_do_not_end_are_counted_and_cut_at_the_margin(
    cloud: Cloud, commands: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The stop of a server then waits for no balancer; the LLM beside it stops first."""
    kind, seconds = USUAL[cloud.kind]
    with serving(Exporter(("DRAIN", 3))) as edge:
        watch = watching(cloud, edge.url, beside=True)
        cloud.notice(seconds=seconds)
        began = cloud.ends - seconds
        watch.look(began)
        watch.look(began + seconds - 7)
        assert commands == []
        watch.look(began + seconds - 4)
    assert commands == [("stop", "--no-block", "llm@main.service", "triton@main.service")]
    assert results() == [("announced", kind), ("cut", kind)]
    assert "enginehouse_notice_cut_requests_total 3" in (places.ROOT / "metrics/notices.prom").read_text()
    (places.SETTINGS / "traffic.json").write_text(json.dumps(watch.traffic))
    assert stopping.drained("main") == 0
    assert "main stops without a drain: its cloud takes the host back" in capsys.readouterr().out


def test_a_withdrawn_notice_ends_the_drain(cloud: Cloud, commands: list[tuple[str, ...]]) -> None:
    kind, seconds = USUAL[cloud.kind]
    with serving(Exporter(("DRAIN", 1))) as edge:
        watch = watching(cloud, edge.url)
        cloud.notice(seconds=seconds)
        began = cloud.ends - seconds
        watch.look(began)
        watch.look(began + seconds - 1)
        cloud.withdraw()
        watch.look(began + seconds + 60)
    assert commands[-1] == ("start", "--no-block", "triton@main.service")
    assert (held(), cut_file().exists(), results()[-1]) == (None, False, ("withdrawn", kind))


@pytest.mark.parametrize("mood", ["garbage", "silent", "slow", "refuses"])
def test_a_cloud_that_answers_garbage_slowly_or_nothing_costs_nothing(
    cloud: Cloud, commands: list[tuple[str, ...]], mood: str
) -> None:
    """The host keeps serving without a notice, and continues an announced drain."""
    cloud.mood = mood
    watch = watching(cloud)
    watch.look(1e9)
    assert watch.problem and (held(), results(), commands) == (None, [], [])
    cloud.mood = "well"
    kind, seconds = USUAL[cloud.kind]
    cloud.notice(seconds=seconds)
    began = cloud.ends - seconds
    watch.look(began)
    cloud.mood = mood
    watch.look(began + 10)
    assert (watch.kept["active"]["kind"], results()) == (kind, [("announced", kind)])


def test_near_the_end_the_cloud_is_asked_no_more(cloud: Cloud, commands: list[tuple[str, ...]]) -> None:
    """A hanging cloud must not delay the cut."""
    _, seconds = USUAL[cloud.kind]
    watch = watching(cloud)
    cloud.notice(seconds=seconds)
    watch.look(cloud.ends - seconds)
    asked_for = len(cloud.asked_for)
    for left in (14, 10, 4, 1):
        watch.look(cloud.ends - left)
    assert len(cloud.asked_for) == asked_for


def test_a_program_that_was_restarted_goes_on_with_the_drain(cloud: Cloud, commands: list[tuple[str, ...]]) -> None:
    kind, seconds = USUAL[cloud.kind]
    with serving(Exporter(("DRAIN", 1))) as edge:
        cloud.notice(seconds=seconds)
        began = cloud.ends - seconds
        watching(cloud, edge.url).look(began)
        cloud.mood = "silent"
        again = watching(cloud, edge.url)
        again.look(began + seconds - 10)
        again.look(began + seconds - 4)
    assert results() == [("announced", kind), ("cut", kind)]


def test_a_notice_of_the_boot_before_is_over(
    cloud: Cloud, commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure still reports a reboot after its end, when the host already serves again."""
    cloud.notice(seconds=USUAL[cloud.kind][1])
    watching(cloud).look(cloud.ends - 20)
    monkeypatch.setattr(drain, "boot", lambda: "another")
    watching(cloud).look(cloud.ends + 60)
    assert (held(), results()[-1][0]) == (None, "withdrawn")


@pytest.mark.parametrize(
    ("kind", "event", "notice"),
    [
        ("aws", "rebalance", "rebalance"),
        ("azure", "Freeze", "Freeze"),
        ("gcp", "MIGRATE_ON_HOST_MAINTENANCE", "migration"),
    ],
)
def test_a_notice_without_a_loss_is_recorded_and_drains_no_host(
    commands: list[tuple[str, ...]], kind: str, event: str, notice: str
) -> None:
    with metadata(kind) as cloud:
        watch = watching(cloud)
        cloud.notice(event)
        watch.look(1e9)
        watch.look(1e9 + 60)
    assert (held(), results()) == (None, [("announced", notice)])


def test_maintenance_at_google_drains_within_its_minute(commands: list[tuple[str, ...]]) -> None:
    with metadata("gcp") as cloud:
        watch = watching(cloud)
        cloud.notice("TERMINATE_ON_HOST_MAINTENANCE")
        watch.look(1e9)
    assert watch.kept["active"]["ends"] == 1e9 + 60


def test_an_operator_s_longer_drain_is_left_alone(cloud: Cloud, commands: list[tuple[str, ...]]) -> None:
    hold_file("main").parent.mkdir()
    own = {"since": 1.0, "until": 9e9, "who": "ada"}
    hold_file("main").write_text(json.dumps(own))
    watch = watching(cloud)
    cloud.notice()
    watch.look(cloud.ends - 30)
    cloud.withdraw()
    watch.look(cloud.ends + 60)
    assert held() == own


def test_a_full_disk_drains_the_host_all_the_same(
    cloud: Cloud, commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk servers cannot be held, so they are stopped at the margin."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("host.disk.replace_durably", full)
    watch: Callable[[float], None] = watching(cloud).look
    cloud.notice(seconds=USUAL[cloud.kind][1])
    watch(cloud.ends - USUAL[cloud.kind][1])
    watch(cloud.ends - 4)
    assert commands == [("stop", "--no-block", "triton@main.service")]
