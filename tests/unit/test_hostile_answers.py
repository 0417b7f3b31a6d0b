"""A host's programs read arbitrary answers of engines, peers, clouds and balancers: only a reason is reported."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.io import prometheus, registry
from host import blobs, hub, pod, prove, prove_llm, replies, systemd, watch_llm
from host.group.lines import Connection
from host.group.main import Member
from host.notices import clouds
from host.traffic import stopping

FORGED = "no room\n<0>fell over\nREADY=1\nMAINPID=1\x1b[2J"
"""An engine's error that would be another priority in the journal, and other messages to systemd."""


def test_a_status_line_is_one_message_to_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        systemd.say(FORGED)
        assert channel.recv(4096).decode() == "STATUS=no room     <0>fell over     READY=1     MAINPID=1?[2J"
        systemd.say("long " * 100_000)
        assert len(channel.recv(65_536)) < 4096


@pytest.mark.parametrize(
    "error_of",
    [
        lambda: prove.error_in(json.dumps({"error": FORGED}).encode()),
        lambda: prove_llm.reason(json.dumps({"error": {"message": FORGED}}).encode()),
        lambda: prove_llm.reason(json.dumps({"message": FORGED}).encode()),
        lambda: reason_of({"error": FORGED}),
    ],
)
def test_no_line_of_an_engines_error_has_a_priority_in_the_journal(error_of: Callable[[], str]) -> None:
    """The line has no control character of a terminal either; its words stay."""
    first, *lines = error_of().split("\n")
    assert "no room" in first and any("<0>fell over" in line for line in lines)
    assert all(line.isprintable() and line.startswith("    ") for line in lines)


def reason_of(event: Any) -> str:
    """The reason that a replay gives for an event of Triton's stream."""
    with pytest.raises(replies.Unanswered) as unanswered:
        replies.Generate({"name": "m", "decoupled": True}).read(event, replies.Reply())
    return str(unanswered.value)


class Served:
    """An engine whose every answer is these bytes."""

    base = "http://engine"

    def __init__(self, content: bytes) -> None:
        self.content, self.opener = content, self

    def open(self, request: object, timeout: float) -> Any:
        """The answer, as urllib gives it."""
        answer: Any = io.BytesIO(self.content)
        answer.headers = {"Content-Type": "text/event-stream"}
        return answer

    def pause(self, problem: str) -> None:
        """Fails, because none of these answers may be retried."""
        raise AssertionError(problem)


@pytest.mark.parametrize(
    "event",
    [
        '{"choices": "abc"}',
        '{"choices": [1]}',
        '{"choices": [{"text": 5}]}',
        '{"choices": [{"token_ids": "abc"}]}',
        '{"usage": {"completion_tokens": 1e999}}',
        '{"usage": [1]}',
        "[1]",
        "5",
        "[" * 100_000,
        '{"choices": [{"text": "' + "a" * 2**21 + '"}]}',
    ],
)
def test_an_event_of_any_form_ends_a_replay_with_a_reason(event: str) -> None:
    engine: Any = Served(f"data: {event}\n\n".encode())
    with pytest.raises(replies.Unanswered):
        replies.ask(engine, replies.Completions("m", "vllm"), "a", 8, False, until=float("inf"))


def test_an_answer_without_end_ends_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of bytes or of time ends it: otherwise each event would start another wait for silence."""
    monkeypatch.setattr(replies, "MOST_ANSWER", 1000)
    engine: Any = Served(b'data: {"choices": []}\n\n' * 1000)
    dialect = replies.Completions("m", "vllm")
    with pytest.raises(replies.Unanswered, match="more than 1000 bytes"):
        replies.ask(engine, dialect, "a", 8, False, until=float("inf"))
    monkeypatch.setattr(replies, "LATE_SECONDS", -1e12)
    with pytest.raises(replies.Unanswered, match="within the time"):
        replies.ask(engine, dialect, "a", 8, False, until=1e12 - 1)


@pytest.mark.parametrize(
    "answer", [b"[]", b"{}", b'{"outputs": 5}', b'{"outputs": [{"name": "scores", "data": "ab"}]}']
)
def test_a_first_answer_of_no_known_form_is_a_reason(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    triton: Any = prove.Triton.__new__(prove.Triton)
    monkeypatch.setattr(prove.Triton, "ask", lambda *_, **__: (200, answer))
    with pytest.raises(prove.NotServing, match="in a strange form"):
        prove.first_answer(triton, {"name": "bge", "kind": "reranker"})


@pytest.mark.parametrize("hello", [b"[" * 60_000, b"1" * 5000, b"\xff", b"null", b"a" * 70_000])
def test_a_malformed_line_of_a_group_is_a_lost_connection(hello: bytes) -> None:
    """The member tries again; another exception would end its part without a word."""

    async def read() -> None:
        reader = asyncio.StreamReader(limit=65_536)
        reader.feed_data(hello + b"\n")
        reader.feed_eof()
        writer: Any = None
        with pytest.raises(OSError):
            await Connection(reader, writer).read()

    asyncio.run(read())


@pytest.mark.parametrize("put_back", ["x", [1], 5, {"identity": [1]}])
def test_a_member_that_says_anything_of_its_release_is_waited_for(put_back: object) -> None:
    member: Any = Member.__new__(Member)
    member.identity, member.run = "mine", "run"
    assert not member.judge({"identity": "other", "put_back": put_back}, "b")


@pytest.mark.parametrize("moment", [5, ["x"], {"a": 1}, "Mon, 99 Sep 99999 18:29:47 GMT", True])
def test_an_event_of_a_cloud_at_no_time_is_unread(moment: object, monkeypatch: pytest.MonkeyPatch) -> None:
    event = {"EventId": "1", "EventType": "Preempt", "Resources": ["vm"], "NotBefore": moment}
    metadata = clouds.Metadata("http://cloud", answers={"name": "vm"})
    monkeypatch.setattr(clouds.Metadata, "read", lambda *_, **__: json.dumps({"Events": [event]}))
    with pytest.raises(clouds.Unread):
        clouds.azure(metadata)


def test_a_balancers_page_is_read_to_a_limit_and_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of 100,000 letters without a value took minutes."""
    labels = "a" * 100_000
    page = f'haproxy_server_status{{{labels}}} 1\nhaproxy_server_status{{proxy="p",server="s",state="UP"}} 1\n'
    monkeypatch.setattr(urllib.request, "build_opener", lambda *_: Served(page.encode()))
    states, _sessions = stopping.lines_at("http://balancer", 1)
    assert states["p", "s"] == "UP"
    monkeypatch.setattr(stopping, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        stopping.lines_at("http://balancer", 1)


def test_a_registrys_challenge_is_read_in_linear_time() -> None:
    """The realm after 100,000 letters is read, and gets no login because it is not the registry's."""
    origin: Any = blobs.Origin.__new__(blobs.Origin)
    origin.basic, origin.scheme, origin.path = "", "https", "a/b"
    origin.root = "https://registry.example/v2/a/b"
    assert origin._renewed([f'Bearer {"a" * 100_000} realm="ftp://elsewhere"']) == ""


@pytest.mark.parametrize("realm", ["https://elsewhere/token", "https://nvcr.io@elsewhere/token", "https://[bad"])
def test_a_hosts_login_is_sent_to_its_registry_alone(realm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = blobs.Origin("nvcr.io/nvidia/triton@sha256:0", "me", "key")
    monkeypatch.setattr(origin.opener, "open", lambda *_, **__: pytest.fail("it asked"))
    assert origin._renewed([f'Bearer realm="{realm}",service="registry"']) == ""
    assert origin._may_have_login("https://authn.nvidia.com/token")
    assert blobs.TOKEN_HOSTS.items() <= registry.TOKEN_HOSTS.items()


@pytest.mark.parametrize("token", [b'{"token": "a\\r\\nX: y"}', b"[]", b"[" * 100_000, b'{"token": ""}'])
def test_a_malformed_token_is_no_token(token: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = blobs.Origin("nvcr.io/nvidia/triton@sha256:0", "me", "key")
    monkeypatch.setattr(origin.opener, "open", Served(token).open)
    assert origin._renewed(['Bearer realm="https://nvcr.io/proxy_auth"']) == ""


@pytest.mark.parametrize(
    "listing", [b"[]", b"{}", b'{"siblings": 5}', b"[" * 100_000, b"", b'{"sha": [1], "siblings": []}']
)
def test_a_listing_of_no_known_form_is_refused(listing: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    model_hub = hub.Hub({"endpoint": "https://hub", "repository": "a/b", "revision": "c"})
    monkeypatch.setattr(model_hub, "open", lambda path: Served(listing).open(None, 1))
    with pytest.raises(hub.Refused):
        model_hub.listing()


def test_samples_that_are_no_numbers_stop_no_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    page = 'a_total{x="} y"} what\na_total\na_total 1e999\na_total nan\na_total 2\na_total 3.5\n'
    assert watch_llm.total(page, ("a_total",)) == 5.5
    monkeypatch.setattr(pod, "page", lambda url: "vllm:num_requests_running what\nvllm:num_requests_running 2.0\n")
    assert pod.under_way("http://engine") == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"[]",
        b"[" * 100_000,
        b'{"data": {"result": [{"metric": {"host": [1]}, "value": [0, "1"]}]}}',
        b'{"data": {"result": [{"metric": {"host": 5}, "value": [0, "1"]}]}}',
        b'{"data": {"result": [{"metric": [], "value": [0]}]}}',
        b'{"data": {"result": {"a": 1}}}',
    ],
)
def test_an_answer_of_prometheus_of_another_form_is_no_answer(answer: bytes) -> None:
    """Labels are texts: they are looked up among hosts, models and alerts."""
    with pytest.raises(ValueError):
        prometheus.rows_of(answer)


def test_a_jobs_folder_has_an_unpredictable_name() -> None:
    """Users of a node see a job's number, and /tmp is everybody's: a folder of that name would stop the job."""
    steps = (Path(__file__).parents[2] / "files/shell/slurm-job.sh").read_text()
    made = [line for line in re.findall(r"(?m)^ *work=([^ ].*)", steps) if line[:1] != "#"]
    assert made == ['$(mktemp -d "/tmp/enginehouse-$SLURM_JOB_ID.XXXXXXXX")']
