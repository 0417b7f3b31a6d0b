"""Rehearsal stand-ins of three clouds' metadata services, reduced to notices of interruption.

They keep the paths, headers, status codes and bodies of the clouds' own pages (read 2026-11-25): EC2 requires a token
from a PUT request, Google and Azure require their header, and EC2 answers 404 without a notice.

    with metadata("aws") as cloud:
        cloud.notice(seconds=120)       a notice that takes the host so many seconds from now, if its cloud says when
        cloud.withdraw()
        cloud.mood = "garbage"          or "silent", "slow", "refuses"; "well" again
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME = "gpu-vm-1"
"""Azure's name of the VM; the same answer also reports other VMs of the scale set."""
SLOW_SECONDS = 30.0


@dataclass
class Cloud:
    """The state of a stand-in; `asked_for` holds method and path of every request."""

    kind: str
    url: str = ""
    mood: str = "well"
    ends: float = 0.0
    noticed: float = 0.0
    event: str = ""
    asked_for: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def notice(self, event: str = "", seconds: float = 120.0) -> None:
        """Announces `event`, or the cloud's usual event if none is named."""
        usual = {"aws": "terminate", "gcp": "preempted", "azure": "Preempt"}
        self.noticed = time.time()
        self.ends = self.noticed + seconds
        self.event = event or usual[self.kind]

    def withdraw(self) -> None:
        self.event = ""

    def answer(self, path: str, headers: dict[str, str], method: str) -> tuple[int, str]:
        """Returns status and body; refuses a request without the cloud's header, like the cloud."""
        return {"aws": self.aws, "gcp": self.gcp, "azure": self.azure}[self.kind](path, headers, method)

    def aws(self, path: str, headers: dict[str, str], method: str) -> tuple[int, str]:
        """Answers like EC2, IMDSv2."""
        if path == "/latest/api/token":
            has_ttl = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
            return (200, "rehearsal-token") if method == "PUT" and has_ttl else (400, "")
        if headers.get("x-aws-ec2-metadata-token") != "rehearsal-token":
            return 401, ""
        if path == "/latest/meta-data/spot/instance-action" and self.event in ("terminate", "stop", "hibernate"):
            return 200, json.dumps({"action": self.event, "time": iso(self.ends)})
        if path == "/latest/meta-data/events/recommendations/rebalance" and self.event == "rebalance":
            return 200, json.dumps({"noticeTime": iso(self.noticed)})
        return 404, "<html>404 - Not Found</html>"

    def gcp(self, path: str, headers: dict[str, str], method: str) -> tuple[int, str]:
        """Answers like Compute Engine."""
        if headers.get("metadata-flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header."
        if path == "/computeMetadata/v1/instance/preempted":
            return 200, "TRUE" if self.event == "preempted" else "FALSE"
        if path == "/computeMetadata/v1/instance/maintenance-event":
            return 200, self.event if self.event.endswith("_ON_HOST_MAINTENANCE") else "NONE"
        return 404, ""

    def azure(self, path: str, headers: dict[str, str], method: str) -> tuple[int, str]:
        """Answers like Azure: an event of another VM is always in the answer."""
        if headers.get("metadata") != "true":
            return 400, '{"error": "Bad request. Required metadata header not specified"}'
        if path.startswith("/metadata/instance/compute/name?"):
            return 200, NAME
        if path != "/metadata/scheduledevents?api-version=2020-07-01":
            return 404, ""
        events = [scheduled("another", "Preempt", "gpu-vm-2", time.time() + 30)]
        if self.event:
            events.append(scheduled(f"{self.event}-{self.ends:.0f}", self.event, NAME, self.ends))
        return 200, json.dumps({"DocumentIncarnation": len(events), "Events": events})


def scheduled(identity: str, event: str, vm: str, ends: float) -> dict[str, Any]:
    """Returns an entry of Azure's scheduled events."""
    return {
        "EventId": identity,
        "EventType": event,
        "ResourceType": "VirtualMachine",
        "Resources": [vm],
        "EventStatus": "Scheduled",
        "NotBefore": format_datetime(datetime.fromtimestamp(ends, UTC), usegmt=True),
        "Description": "rehearsal stand-in",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def iso(seconds: float) -> str:
    """Returns a time in EC2's form."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Handler(BaseHTTPRequestHandler):
    """Answers like the cloud, or according to `mood`."""

    cloud: Cloud

    def do_GET(self) -> None:
        self.respond("GET")

    def do_PUT(self) -> None:
        """Answers a request for a token."""
        self.respond("PUT")

    def respond(self, method: str) -> None:
        """Writes the answer."""
        self.cloud.asked_for.append(f"{method} {self.path}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, body = self.cloud.answer(self.path, headers, method)
        if self.cloud.mood == "silent":
            self.cloud.ended.wait(SLOW_SECONDS)
            return
        if self.cloud.mood == "refuses":
            status, body = 503, "busy"
        if self.cloud.mood == "garbage":
            status, body = 200, '\x00{"action": ["terminate"], "Events": {"Preempt": '
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        for sign in content if self.cloud.mood == "slow" else ():
            self.wfile.write(bytes([sign]))
            self.wfile.flush()
            if self.cloud.ended.wait(1):
                return
        if self.cloud.mood != "slow":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""


class Quiet(ThreadingHTTPServer):
    """A server that ignores clients which disconnect during an answer."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Ignores the error."""


@contextlib.contextmanager
def metadata(kind: str, address: str = "127.0.0.1", port: int = 0) -> Iterator[Cloud]:
    """Runs a stand-in of the cloud `kind` (aws, gcp, azure) until the block ends."""
    cloud = Cloud(kind)
    with Quiet((address, port), type("Answers", (Handler,), {"cloud": cloud})) as server:
        cloud.url = f"http://{address}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield cloud
        finally:
            cloud.ended.set()
            server.shutdown()
            thread.join()
