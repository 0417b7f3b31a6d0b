"""This machine's real HAProxy with the role's configuration, over loopback, in front of stand-ins of hosts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from roles._shipping.texts import HERE

pytestmark = pytest.mark.skipif(
    not shutil.which("haproxy"), reason="no haproxy here: python -m rehearsal requirements --install --tests"
)


def story(name: str) -> dict[str, Any]:
    """The outcome of a story of tests.roles.balancer.stories."""
    argv = [sys.executable, "-m", "tests.roles.balancer.stories", name]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(argv, cwd=HERE, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_no_server_gets_requests_before_its_agent_answers() -> None:
    assert story("silent") == {
        "before": ["503"],
        "grpc": "UNAVAILABLE",
        "asked": [["agent"], ["agent"]],
        "after": ["h1"],
    }


def test_a_drained_host_keeps_its_streams_and_gets_no_new_request() -> None:
    assert story("drained") == {
        "hosts before": ["h1", "h2"],
        "answers after": {"h2": 80},
        "new at the drained": 0,
        "streams stay": True,
        "streams at the drained": 2,
        "counted": 2,
    }


def test_requests_wait_while_the_only_host_is_away() -> None:
    report = story("held")
    assert report["answers"] == {"h1": report["sent"]}
    assert report["while away"] >= 150


def test_held_requests_reach_a_host_in_order_at_the_pace_of_its_answers() -> None:
    """The host's queues therefore refuse no request, and new requests do not wait behind the held ones."""
    assert story("paced") == {
        "newcomers": ["h1"],
        "queued": [3, 3],
        "at once": [3, 3],
        "order": ["0", "1", "2", "3", "4", "5"],
        "answers": {"h1": 12},
    }


def test_no_request_waits_longer_than_declared() -> None:
    assert story("forsaken") == {"503": 40}


def test_both_ports_speak_tls_with_the_certificate() -> None:
    assert story("encrypted") == {"http": "h1", "grpc": "h1"}


def test_hosts_join_and_leave_without_a_reload_or_a_lost_request() -> None:
    assert story("moving") == {
        "joined": [
            *("add server: chat_http/h3.main", "add server: chat_grpc/h3.main"),
            *("server added: chat_http/h3.main", "server added: chat_grpc/h3.main"),
        ],
        "left": ["server removed: chat_http/h1.main", "server removed: chat_grpc/h1.main"],
        "answered by": ["h1", "h2", "h3"],
        "before it spoke": 0,
    }


def test_a_reload_forgets_no_drain() -> None:
    assert story("reloaded") == {
        "done": ["reloaded: another configuration"],
        "answers": {"h2": 50},
        "sent to the drained": 0,
    }


def test_a_reload_closes_no_connection_under_a_request() -> None:
    assert story("spared") == {"answers": ["h1", "h2"]}


def test_a_flooding_address_does_not_block_others() -> None:
    """Eight connections at once and six requests a minute, over both ports together."""
    assert story("crowded") == {
        "requests": ["h1"] * 6 + ["429"],
        "over gRPC": "RESOURCE_EXHAUSTED: your address has as many requests as it may have",
        "a ninth connection": "closed",
        "of another": "h1",
    }


def test_a_client_that_leaves_is_noticed_at_once() -> None:
    """Triton notices it during its answer; HAProxy while the request is held, so that Triton never gets it."""
    assert story("abandoned") == {"answer": "h1", "sent when ready": 1}
