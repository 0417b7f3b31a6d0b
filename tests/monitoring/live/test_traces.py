"""Requests through the gateway of a serving machine: each step is in the journal, and their text is nowhere."""

from __future__ import annotations

import json
from typing import Any

from rehearsal.machine import Machine
from tests.faults.scene import until
from tests.monitoring.live.scene import GATEWAY, Watched

CANARY = "Rosa's diagnosis"
BODIES = {
    "/v1/completions": {"model": "gpt-oss-tiny", "prompt": CANARY, "max_tokens": 4, "stream": True},
    "/v1/embeddings": {"model": "minilm", "input": CANARY},
    "/v1/rerank": {"model": "xlmr-reranker", "query": CANARY, "documents": [CANARY, "b"]},
    "/v1/chat/completions": {"model": "no-such-model", "messages": [{"role": "user", "content": CANARY}]},
}
KEPT = "/var/log /var/lib/enginehouse/servers /etc/enginehouse /run/enginehouse* /tmp /var/tmp"


def request_id(machine: Machine, path: str, body: dict[str, Any]) -> str:
    """Returns the request's id. The body goes by standard input, since a command line would appear in the journal."""
    curl = f"curl -sS -m 60 -o /dev/null -D - -H 'Content-Type: application/json' -d @- {GATEWAY}{path}"
    headers = machine.run(curl, input=json.dumps(body)).stdout.lower().splitlines()
    return next(line.split()[1] for line in headers if line.startswith("x-request-id:"))


def spans(machine: Machine) -> list[dict[str, Any]]:
    """Returns the spans in Triton's journal."""
    journal = machine.run("journalctl -q -b -u 'triton@*' -o cat --grep '^{\"span\"'; true").stdout
    return [json.loads(line) for line in journal.splitlines()]


def mentions(machine: Machine, text: str) -> int:
    """Returns the number of journal lines and of our programs' files with this text."""
    files = f"cat $(find {KEPT} -type f ! -path '*/journal/*')"
    look = f"{{ journalctl -q -b -o cat; {files}; }} 2>/dev/null | grep -a -c -F -f /dev/shm/text"
    return int(machine.run(f"cat >/dev/shm/text; {look}; rm /dev/shm/text", input=f"{text}\n").stdout)


def test_a_traced_request_is_followed_and_its_text_is_nowhere(watched: Watched) -> None:
    requests = [request_id(watched.serving, path, body) for path, body in BODIES.items()]
    traced = {*requests[:3]}
    assert until(lambda: traced <= {span["request"] for span in spans(watched.serving)}, 30, 1), spans(watched.serving)
    ours = [span for span in spans(watched.serving) if span["request"] in requests]
    assert {span["model"] for span in ours if "model" in span} >= {"gpt-oss-tiny", "minilm", "xlmr-reranker"}
    assert requests[3] not in {span["request"] for span in ours}, "no server was asked"
    assert mentions(watched.serving, requests[0]) > 0
    assert mentions(watched.serving, CANARY) == 0
