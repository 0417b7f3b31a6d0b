"""The waits of a server's stop, with a stand-in of HAProxy's exporter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from host import places
from host.traffic import main, stopping
from tests.roles.web import Answer, Request, serving

LINES = ["chat_http/h1.main", "chat_grpc/h1.main"]


class Exporter:
    """HAProxy's exporter: its states of the two lines, with the next answer after each request."""

    def __init__(self, *answers: tuple[str, int] | None) -> None:
        self.answers = list(answers)

    def __call__(self, request: Request) -> Answer:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            return 500, {}, b""
        state, sessions = answer
        lines = ['haproxy_server_status{proxy="chat_http",server="h2.main",state="UP"} 1']
        for place, count in zip(LINES, (sessions, 0), strict=True):
            proxy, server = place.split("/")
            labels = f'proxy="{proxy}",server="{server}"'
            lines += [f'haproxy_server_status{{{labels},state="{label}"}} {int(label == state)}' for label in STATES]
            lines += [f"haproxy_server_current_sessions{{{labels}}} {count}"]
        return 200, {}, "\n".join(lines).encode()


STATES = ("DOWN", "UP", "MAINT", "DRAIN", "NOLB")


@pytest.fixture
def stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Stops server main, before the balancers at these addresses."""
    monkeypatch.setattr(places, "SETTINGS", tmp_path)
    monkeypatch.setattr(places, "RUNTIME", tmp_path)
    monkeypatch.setattr(stopping, "SCRAPE_SECONDS", 0.01)

    def stops(*addresses: str, drain_seconds: float = 600, heard_seconds: float = 300) -> int:
        balancers = [{"name": f"edge-{n}", "metrics": f"{url}/metrics"} for n, url in enumerate(addresses, start=1)]
        wanted = {"servers": {"main": {"seen_as": LINES}}, "balancers": balancers}
        times = {"drain_seconds": drain_seconds, "heard_seconds": heard_seconds}
        (tmp_path / "traffic.json").write_text(json.dumps(wanted | times))
        return main.main(["drained", "main"])

    return stops


def test_a_stop_waits_until_each_balancer_has_heard_and_is_idle(
    stop: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = Exporter(("UP", 3), ("DRAIN", 3), ("DRAIN", 0)), Exporter(("UP", 0), ("UP", 0), ("DRAIN", 0))
    with serving(first) as first_edge, serving(second) as second_edge:
        assert stop(first_edge.url, second_edge.url) == 0
        assert {request.path for request in first_edge.requests} == {"/metrics?scope=server"}
    output = capsys.readouterr().out
    assert [bool(re.search(rf"edge-{n} heard it after \S+ s, and was idle after", output)) for n in (1, 2)] == [
        True
    ] * 2
    assert (len(first.answers), len(second.answers)) == (1, 1)  # each was asked to its last answer


@pytest.mark.parametrize(
    ("answer", "warning"),
    [
        (("DRAIN", 2), "edge-1 still has requests in flight here (2) after 0.3 s"),
        (("UP", 0), "edge-1 has not heard that this server stops after 0.3 s"),
    ],
)
def test_a_stop_waits_no_longer_than_its_time(
    stop: Callable[..., int], capsys: pytest.CaptureFixture[str], answer: tuple[str, int], warning: str
) -> None:
    with serving(Exporter(answer)) as edge:
        assert stop(edge.url, drain_seconds=0.3) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"<4>{warning}"


def test_a_balancer_that_cannot_be_asked_is_passed_over(
    stop: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Exporter(("DRAIN", 0))) as gone:
        pass
    with serving(Exporter(("DRAIN", 0))) as edge:
        assert stop(gone.url, edge.url, heard_seconds=3) == 0
    output = capsys.readouterr().out
    assert "<4>edge-1 cannot be asked for 3 s, so it is ignored: " in output
    assert "edge-2 heard it" in output


def test_a_balancer_that_does_not_know_the_server_is_passed_over(
    stop: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda _: (200, {}, b"# nothing\n")) as edge:
        assert stop(edge.url, heard_seconds=3) == 0
    assert "it reports nothing about chat_http/h1.main" in capsys.readouterr().out


def test_a_balancer_that_answers_again_in_time_is_waited_for(
    stop: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Exporter(("DRAIN", 1), None, None, ("DRAIN", 0))) as edge:
        assert stop(edge.url) == 0
    assert "edge-1 heard it" in capsys.readouterr().out


def test_without_balancers_or_settings_a_stop_does_not_wait(
    stop: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert (stop(), capsys.readouterr().out) == (0, "")
    (tmp_path / "traffic.json").unlink()
    assert main.main(["drained", "main"]) == 0
    assert "<4>main stops without a drain: FileNotFoundError" in capsys.readouterr().out
