"""The clouds' notices of interruption: the requests to each metadata service, and the notices in its answers.

    aws      a token, then spot/instance-action (two minutes) and events/recommendations/rebalance (without a time)
    gcp      instance/preempted (30 seconds) and instance/maintenance-event (60 seconds)
    azure    scheduledevents: Preempt, Terminate, Reboot and Redeploy, each with a time; Freeze is a pause

An answer of any other form is Unread and changes nothing, like an answer that takes longer than ANSWER_SECONDS in
total.
"""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any

ANSWER_SECONDS = 3.0
LARGEST_BYTES = 65_536
TOKEN_SECONDS = 21_600
PLACES = {  # addresses instead of names, because a hanging name lookup cannot be interrupted
    "aws": "http://169.254.169.254",
    "gcp": "http://169.254.169.254",
    "azure": "http://169.254.169.254",
}
POLL_SECONDS = {"aws": 5.0, "gcp": 1.0, "azure": 1.0}
"""Seconds between two requests to each cloud: AWS recommends five; the others' notices are as short as 30
(2026-11-25)."""
PREEMPTED_SECONDS, MAINTENANCE_SECONDS = 30.0, 60.0
"""Seconds from a changed value to the end of a VM of Google, whose notices have no time."""
ENDING = {"Preempt", "Terminate", "Reboot", "Redeploy"}


class Unread(Exception):
    """An answer of the cloud that is missing or malformed."""


@dataclass(frozen=True)
class Notice:
    """An announced interruption. `ends` is in seconds of the epoch, or `within` in seconds after its first sighting.

    `drains`: the host is about to be lost; a notice without it is only recorded.
    """

    id: str
    kind: str
    ends: float = 0.0
    within: float = 0.0
    drains: bool = True


@dataclass
class Metadata:
    """A metadata service; `token` is AWS's, kept until the service refuses it."""

    place: str
    token: str = ""
    answers: dict[str, str] = field(default_factory=dict)
    """Answers that never change while the host runs."""

    def read(self, path: str, headers: dict[str, str], method: str = "GET") -> str | None:
        """The text of an answer; None if the service has none. Raises Unread."""
        request = urllib.request.Request(f"{self.place}{path}", headers=headers, method=method)
        try:
            with _limited(), _OPENER.open(request, timeout=ANSWER_SECONDS) as answer:
                content: bytes = answer.read(LARGEST_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise Unread(f"{path} answers {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise Unread(f"{path}: {str(error) or type(error).__name__}") from None
        if len(content) > LARGEST_BYTES:
            raise Unread(f"{path} answers more than {LARGEST_BYTES} bytes")
        return content.decode("utf-8", "replace")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which a metadata service never sends."""

    def redirect_request(self, *_: Any) -> None:
        """None, so that the redirect is an error."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


@contextmanager
def _limited() -> Iterator[None]:
    """Ends the block after ANSWER_SECONDS; a socket's own limit would restart with each byte."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"no complete answer within {ANSWER_SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, ANSWER_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def aws(metadata: Metadata) -> list[Notice]:
    """The notices of EC2. A refused token is replaced at the next check."""
    if not metadata.token:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        token = (metadata.read("/latest/api/token", ttl, "PUT") or "").strip()
        if not (token and token.isascii() and token.isprintable() and len(token) < 1024):
            raise Unread("/latest/api/token returned no token")
        metadata.token = token
    headers, paths = {"X-aws-ec2-metadata-token": metadata.token}, "/latest/meta-data"
    try:
        marked = metadata.read(f"{paths}/spot/instance-action", headers)
        warned = metadata.read(f"{paths}/events/recommendations/rebalance", headers)
    except Unread:
        metadata.token = ""
        raise
    notices = []
    if marked is not None:
        action = _object(marked)
        word, ends = action.get("action"), _moment(action.get("time"))
        if word not in ("terminate", "stop", "hibernate"):
            raise Unread("spot/instance-action names no action")
        # Hibernation begins at once, whatever time the notice has.
        is_at_once = word == "hibernate"
        notices.append(Notice(f"spot-{word}-{ends:.0f}", f"spot {word}", ends=0.0 if is_at_once else ends))
    if warned is not None:
        noticed = _moment(_object(warned).get("noticeTime"))
        notices.append(Notice(f"rebalance-{noticed:.0f}", "rebalance", drains=False))
    return notices


def gcp(metadata: Metadata) -> list[Notice]:
    """The notices of Compute Engine."""
    headers, instance = {"Metadata-Flavor": "Google"}, "/computeMetadata/v1/instance"
    preempted = (metadata.read(f"{instance}/preempted", headers) or "FALSE").strip()
    event = (metadata.read(f"{instance}/maintenance-event", headers) or "NONE").strip()
    if preempted not in ("TRUE", "FALSE"):
        raise Unread(f"{instance}/preempted answers neither TRUE nor FALSE")
    if event not in ("NONE", "MIGRATE_ON_HOST_MAINTENANCE", "TERMINATE_ON_HOST_MAINTENANCE"):
        raise Unread(f"{instance}/maintenance-event returned an unknown event")
    notices = []
    if preempted == "TRUE":
        notices.append(Notice("preemption", "preemption", within=PREEMPTED_SECONDS))
    if event != "NONE":
        is_end = event.startswith("TERMINATE")
        kind = "maintenance" if is_end else "migration"
        notices.append(Notice(kind, kind, within=MAINTENANCE_SECONDS, drains=is_end))
    return notices


def azure(metadata: Metadata) -> list[Notice]:
    """The notices of Azure for this VM; the same answer names other VMs of its scale set."""
    headers = {"Metadata": "true"}
    if "name" not in metadata.answers:
        path = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        name = (metadata.read(path, headers) or "").strip()
        if not name.isprintable() or not 0 < len(name) < 256:
            raise Unread("/metadata/instance/compute/name returned no name")
        metadata.answers["name"] = name
    text = metadata.read("/metadata/scheduledevents?api-version=2020-07-01", headers)
    events = _object(text or '{"Events": []}').get("Events")
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise Unread("/metadata/scheduledevents has no list of events")
    return [_azure_notice(event) for event in events if metadata.answers["name"] in _texts(event.get("Resources"))]


def _azure_notice(event: dict[str, Any]) -> Notice:
    """The notice of an event; an event without a time has already begun."""
    identity, kind = event.get("EventId"), event.get("EventType")
    if not (isinstance(identity, str) and 0 < len(identity) < 256 and isinstance(kind, str) and kind.isalpha()):
        raise Unread("an event of /metadata/scheduledevents has no id and type")
    drains = kind in ENDING and event.get("EventStatus") != "Completed"
    try:
        ends = parsedate_to_datetime(str(event["NotBefore"])).timestamp() if event.get("NotBefore") else 0.0
    except (TypeError, ValueError, OverflowError):
        raise Unread(f"NotBefore of the event {kind} is not a time") from None
    return Notice(identity, kind, ends=ends, drains=drains)


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Unread("an answer is not JSON") from None
    if not isinstance(value, dict):
        raise Unread("an answer is not a JSON object")
    return value


def _moment(value: object) -> float:
    try:
        return datetime.strptime(str(value), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        raise Unread("an answer has no time of the form 2026-11-27T11:00:00Z") from None


CLOUDS: dict[str, Callable[[Metadata], list[Notice]]] = {"aws": aws, "gcp": gcp, "azure": azure}
