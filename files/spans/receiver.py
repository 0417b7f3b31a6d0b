"""Receives Triton's spans inside its container, and prints the permitted fields of each as a line of JSON.

    {"span":"InferRequest","request":"4f0c…","id":"67010872b95352c3","parent":"cdcdcdcdcdcdcdcd",
     "start_ns":1795472141340759576,"end_ns":1795472141342147966,"at":{"GRPC_WAITREAD_START":18000}}
    {"span":"minilm",…,"model":"minilm","version":1,"asked":"9b1d…"}

`request` is the trace's id, which the gateway made equal to the request's own; `at` has nanoseconds since `start_ns`;
`asked` is the id under which Triton knows the request. Other fields are dropped, and these must have the forms above,
so that no line has text of a request.

The container has no network; its standard output goes to the journal, whose size is limited. Standard library only:
the image's own Python runs it. Triton's exporter (OpenTelemetry C++ 1.13) sends JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 4318
MOST_BYTES = 4 * 2**20
"""Largest body of an export; a batch has at most 512 spans, half a MiB."""
NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
IDENTITY = re.compile(r"[0-9a-f]{16}|[0-9a-f]{32}")
TIMES = re.compile(
    "(REQUEST|QUEUE)_START|COMPUTE_(START|INPUT_END|OUTPUT_START|END)|REQUEST_END|INFER_RESPONSE_COMPLETE"
    "|(GRPC_(WAITREAD|SEND)|HTTP_(RECV|SEND)|CACHE_HIT_LOOKUP)_(START|END)"
)
"""Triton's names for the moments of a request."""


def lines(body: bytes) -> Iterator[str]:
    """A line for each span of one export.

    Raises: ValueError, KeyError, TypeError, AttributeError for anything but an export.
    """
    for resource in json.loads(body)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield json.dumps(kept(span), separators=(",", ":"))


def kept(span: dict[str, Any]) -> dict[str, object]:
    """The permitted fields of a span; a value of an unexpected form is left out."""
    about = {entry["key"]: entry["value"] for entry in span.get("attributes", ())}
    start = int(span["startTimeUnixNano"])
    fields = {
        "span": matched(NAME, span["name"]),
        "request": matched(IDENTITY, span["traceId"]),
        "id": matched(IDENTITY, span["spanId"]),
        "parent": matched(IDENTITY, span.get("parentSpanId")),
        "start_ns": start,
        "end_ns": int(span["endTimeUnixNano"]),
        "model": matched(NAME, about.get("triton.model_name", {}).get("stringValue")),
        "version": int(about.get("triton.model_version", {}).get("intValue", 0)),
        "asked": matched(IDENTITY, about.get("triton.request_id", {}).get("stringValue")),
        "at": {
            entry["name"]: int(entry["timeUnixNano"]) - start
            for entry in span.get("events", ())
            if matched(TIMES, entry["name"])
        },
    }
    return {name: value for name, value in fields.items() if value}


def matched(pattern: re.Pattern[str], text: object) -> str:
    """The text if all of it matches, else ""."""
    return text if isinstance(text, str) and pattern.fullmatch(text) else ""


class Receiver(BaseHTTPRequestHandler):
    """Triton's exporter, served on connections that stay open. The exporter does not retry."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Prints the spans of the body."""
        length = int(self.headers.get("Content-Length") or 0)
        status, self.close_connection = 400, length > MOST_BYTES
        if length <= MOST_BYTES:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                for line in lines(self.rfile.read(length)):
                    # Unbuffered and whole: a pipe accepts 4 KiB at once.
                    os.write(sys.stdout.fileno(), f"{line}\n".encode())
                status = 200
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:
        """Logs nothing."""


def main(words: list[str]) -> int:
    """Serves for ever, on the port in `words`, else on Triton's default."""
    with ThreadingHTTPServer(("127.0.0.1", int((words or [str(PORT)])[0])), Receiver) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
