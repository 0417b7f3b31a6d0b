"""This machine's real HAProxy in front of stand-ins of gateways, over loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roles._shipping.texts import HERE
from tests.roles.balancer.gateway_stories import STORIES

pytestmark = pytest.mark.skipif(
    not shutil.which("haproxy"), reason="no haproxy here: python -m rehearsal requirements --install --tests"
)


@pytest.fixture(scope="module")
def story() -> Iterator[Callable[[str], dict[str, Any]]]:
    """A function that returns the result of a named scenario.

    The scenarios run in processes that start together, because each mostly waits for HAProxy's checks.
    """
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", "tests.roles.balancer.gateway_stories", name],
            cwd=HERE,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for name in STORIES
    }

    results: dict[str, dict[str, Any]] = {}

    def story_of(name: str) -> dict[str, Any]:
        for process in running.values() if not results else ():
            output, errors = process.communicate(timeout=300)
            assert process.returncode == 0, output[-2000:] + errors[-2000:]
            results.update(json.loads(output.splitlines()[-1]))
        return results[name]

    yield story_of
    for process in running.values():
        process.kill()
        process.wait()


def test_draining_hosts_and_stopping_processes_get_no_new_request(story: Callable[[str], dict[str, Any]]) -> None:
    assert story("balanced") == {
        "before": ["h1", "h2"],
        "homes of a session": 1,
        "drained": ["h2"],
        "stopped": ["h1"],
    }


def test_ambiguous_requests_reach_no_gateway(story: Callable[[str], dict[str, Any]]) -> None:
    """Requests for internal pages, and a client's claims about its address and request id, do not reach a gateway
    either."""
    assert story("strict") == {
        "statuses": {
            "length and encoding": 411,
            "encoding and length": 411,
            "two lengths": 400,
            "strange encoding": 400,
            "64 KiB of headers": 400,
            "metrics": 404,
            "metrics written otherwise": 404,
            "health": 200,
        },
        "in their dialect": ["encoding and length", "length and encoding", "metrics", "metrics written otherwise"],
        "sent on": 0,
        "headers sent on": ["authorization", "host", "x-enginehouse-affinity"],
    }


def test_a_gateway_learns_at_once_that_its_client_left(story: Callable[[str], dict[str, Any]]) -> None:
    assert story("left") == {"before it left": 0, "after": 1}


def test_a_stream_goes_on_while_the_certificate_is_renewed(story: Callable[[str], dict[str, Any]]) -> None:
    assert story("renewed") == {
        "done": ["reloaded: another configuration"],
        "with the new certificate": "h1",
        "events after the reload": 1,
    }


def test_requests_wait_for_the_only_gateway_or_get_their_dialects_error(
    story: Callable[[str], dict[str, Any]],
) -> None:
    assert story("held") == {"answer": "h1", "status": 503, "in its dialect": True, "health": 503}


def test_a_client_without_a_signed_certificate_is_refused_at_every_port(
    story: Callable[[str], dict[str, Any]],
) -> None:
    """The answer has the reason, unless TLS itself refuses the client. `/health` of the gateways needs no
    certificate."""
    shown = story("shown")
    assert shown.pop("stranger") == [["refused"], "UNAVAILABLE", "refused"]
    status, body = shown["nobody"].pop(2), json.loads(shown["nobody"].pop(2))
    assert (status, body["error"]["code"]) == (401, "invalid_client_certificate")
    assert shown == {"nobody": ["401", "UNAUTHENTICATED"], "client": ["h1", "h1", 200, "h1"], "health": 200}
