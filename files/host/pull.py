"""Pulls one container image through the Docker engine's own API; run by enginehouse-pull@<id>.service.

`docker login` and `docker pull` are not used: a login leaves the key in a config.json, and without a terminal the
client reports no bytes. Here the key is read from a file in memory (/run), sent to the engine in one header, and not
stored; the engine's byte counts become the unit's status line. The unit removes the key's directory in every case.

    host pull SETTINGS    {"reference": …, "registry": …, "username": …, "key_file": …, "key_source": …, "record": …}

For an image that hosts share, the settings have `shared` too ({"origin": …, "port": …, "blobs": …, "ca_file": …}): the
image's blobs are fetched from the registry, unless peers have sent the blobs, and the engine pulls them from loopback.

Exit 0: the image is pulled and its digest recorded. Exit 1: the last lines have the reason and the remedy. During the
pull RECORD.begun exists beside the record; after a kill this file remains, and the next run pulls again.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import re
import socket
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from host import blobs, loopback
from host.systemd import say

SOCKET = os.environ.get("ENGINEHOUSE_DOCKER_SOCKET", "/run/docker.sock")
# nvcr.io sometimes answers valid requests with 401, anonymous ones and such with a token (Triton server#7356).
PAUSES_SECONDS = (2, 5, 10)
PASSING = ("eof", "timeout", "timed out", "connection re", "temporary failure", "no such host", "too many requests")
PASSING_STATUS = re.compile(r"\b(429|50[0234])\b")
MIB = 1 << 20


class Refused(Exception):
    """The engine or the registry refused. `status` is the registry's, if the text contains it."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.status = judge(words)
        passing = any(word in words.lower() for word in PASSING) or PASSING_STATUS.search(words)
        self.may_pass = self.status == 401 or (not self.status and bool(passing))
        # The engine itself retries an interrupted layer five times within a minute, so one more attempt is enough.
        self.was_retried = "unexpected eof" in words.lower()


class Engine(http.client.HTTPConnection):
    """The Docker engine behind its socket."""

    def connect(self) -> None:
        """Connects to the socket instead of an address."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(SOCKET)
        except OSError:
            self.close()
            raise


def main(arguments: list[str]) -> int:
    """0 once the image is present and recorded; 1 after printing the reason."""
    settings = json.loads(Path(arguments[0]).read_text())
    with begun(Path(settings["record"])):
        return patiently(settings, take_key(Path(settings["key_file"])))


@contextlib.contextmanager
def begun(record: Path) -> Iterator[None]:
    """Keeps a mark beside the record while the pull runs.

    The engine has an image seconds before this program has recorded it: a reboot in between would leave an image
    without a record, which would never be removed.
    """
    mark = record.with_suffix(".begun")
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def patiently(settings: dict[str, Any], key: str) -> int:
    """Exit status, after the image was pulled and recorded, or the reason was printed."""
    for pause in (*PAUSES_SECONDS, 0):
        try:
            pull(settings, key)
            return record(settings)
        except (OSError, http.client.HTTPException) as broken:
            problem = f"the Docker engine does not answer on {SOCKET}: {broken or type(broken).__name__}"
            if not pause:
                print(problem, file=sys.stderr)
                print("  try     journalctl -u docker.service -n 50 on the host, then run again", file=sys.stderr)
                print("  state   no serving program was changed", file=sys.stderr)
                return 1
        except Refused as refused:
            is_enough = not pause or (refused.was_retried and pause != PAUSES_SECONDS[0])
            if not refused.may_pass or is_enough:
                print(explained(settings, refused, key), file=sys.stderr)
                return 1
            problem = f"{settings['registry']}: {refused}"
        say(f"{problem}; asking again in {pause} s")
        time.sleep(pause)
    raise AssertionError("the last round returns")


def take_key(path: Path) -> str:
    """The key, removed from its file; empty without one."""
    if not path.exists():
        return ""
    key = path.read_text().strip()
    path.unlink()
    return key


def pull(settings: dict[str, Any], key: str) -> None:
    """Pulls the image. Raises Refused with the message of the engine or the registry."""
    if shared := settings.get("shared"):
        blobs_here(settings, key)
        with on_loopback(shared):
            ask(settings, "")
    else:
        ask(settings, key)


def blobs_here(settings: dict[str, Any], key: str) -> None:
    """Fetches every blob of the image into its directory. Raises Refused."""
    shared, digest = settings["shared"], settings["reference"].partition("@")[2]
    try:
        origin = blobs.Origin(shared["origin"], settings["username"], key, shared["ca_file"])
        blobs.keep(origin, digest, Path(shared["blobs"]))
    except (blobs.NotGiven, OSError, ValueError, KeyError) as problem:
        raise Refused(str(problem) or type(problem).__name__) from None


@contextlib.contextmanager
def on_loopback(shared: dict[str, Any]) -> Iterator[None]:
    """Serves the blobs to the engine at their port. Raises: Refused if the port is taken."""
    with contextlib.ExitStack() as kept:
        try:
            kept.enter_context(loopback.serving(Path(shared["blobs"]), shared["port"]))
        except OSError as problem:
            raise Refused(f"port {shared['port']} of loopback (Sharing.images_port): {problem}") from None
        yield


def ask(settings: dict[str, Any], key: str) -> None:
    """Makes the engine pull the image. Raises Refused with its message."""
    name, tag = split(settings["reference"])
    query = urllib.parse.urlencode({"fromImage": name, "tag": tag, "platform": "linux/amd64"})
    connection = Engine("docker", timeout=3600)
    connection.request("POST", f"/images/create?{query}", headers=login(settings, key))
    answer = connection.getresponse()
    if answer.status != 200:
        raise Refused(json.loads(answer.read() or b"{}").get("message", f"HTTP {answer.status}"))
    progress = Progress()
    for line in lines(answer):
        event = json.loads(line)
        if "error" in event:
            raise Refused(event["error"])
        progress.add(event)
        if event.get("status") == "Pull complete":
            os.sync()  # the engine does not sync: after a power cut it would accept a layer of empty files as complete


def lines(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yields the lines as they come. Raises IncompleteRead if the engine ended within its answer.

    Python's own lines of an answer end there without an error, and the image would count as pulled.
    """
    rest = b""
    while part := answer.read1():
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
    yield from [rest] if rest.strip() else []


def split(reference: str) -> tuple[str, str]:
    """Name and tag, or name and digest: the engine's API takes them separately."""
    if "@" in reference:
        name, _, digest = reference.partition("@")
        return name, digest
    name, _, tag = reference.rpartition(":")
    return name, tag


def login(settings: dict[str, Any], key: str) -> dict[str, str]:
    """The header with the credentials in the engine's form; none without a key."""
    if not key:
        return {}
    credentials = {"username": settings["username"], "password": key, "serveraddress": settings["registry"]}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(credentials).encode()).decode()}


class Progress:
    """Adds up the engine's figures for each layer and reports to systemd, at most once a second."""

    def __init__(self) -> None:
        self.layers: dict[str, tuple[int, int]] = {}
        self.unpacked: set[str] = set()
        self.last_said = 0.0

    def add(self, event: dict[str, Any]) -> None:
        """Counts the bytes of a layer's event."""
        layer, detail = event.get("id", ""), event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and detail.get("total"):
            self.layers[layer] = (detail["current"], detail["total"])
        elif event.get("status") in ("Download complete", "Pull complete", "Already exists") and layer:
            total = self.layers.get(layer, (0, 0))[1]
            self.layers[layer] = (total, total)
            if event["status"] != "Download complete":
                self.unpacked.add(layer)
        if time.monotonic() - self.last_said >= 1:
            self.last_said = time.monotonic()
            say(str(self))

    def __str__(self) -> str:
        done = sum(current for current, _ in self.layers.values()) // MIB
        total = sum(total for _, total in self.layers.values()) // MIB
        return f"{done:,} of {total:,} MiB, {len(self.unpacked)} of {len(self.layers)} layers unpacked"


def record(settings: dict[str, Any]) -> int:
    """Records the pulled digest, so that an unpinned tag can be pinned to the running image. Returns 0."""
    connection = Engine("docker", timeout=60)
    connection.request("GET", f"/images/{urllib.parse.quote(settings['reference'], safe='/:@')}/json")
    image = json.loads(connection.getresponse().read())
    target = Path(settings["record"])
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = {"reference": settings["reference"], "id": image["Id"], "repo_digests": image["RepoDigests"]}
    if shared := settings.get("shared"):
        kept["blobs"] = shared["blobs"]
    new = target.with_name(f".{target.name}.new")
    new.write_text(json.dumps(kept, indent=2) + "\n")
    os.sync()  # syncs the image too, so that the record never outlives it
    new.rename(target)
    say(f"have {' '.join(image['RepoDigests']) or image['Id']}")
    return 0


def judge(words: str) -> int:
    """401 for rejected credentials, 403 for accepted ones without access, else 0.

    The numbers count only as separate words, because a digest in the text may contain their digits.
    """
    text = words.lower()
    if "no basic auth credentials" in text or "unauthorized" in text or re.search(r"\b401\b", text):
        return 401
    if "denied" in text or "forbidden" in text or re.search(r"\b403\b", text):
        return 403
    return 0


def explained(settings: dict[str, Any], refused: Refused, key: str) -> str:
    """The cause and the remedy for a person. The key appears as its source, never as itself."""
    registry = settings["registry"]
    if refused.status == 401:
        problem = f"{registry} rejected the key (401, unauthorized)" if key else f"{registry} requires a login (401)"
        means = "wrong or expired; a valid key without access to the organisation answers 403 instead"
        attempt = "make a new key, export it, run again" if key else "registry = Registry(key=Secret.env(…))"
    elif refused.status == 403:
        problem = f"{registry} knows the key and denies this image (403)"
        means = "the key is valid; its account or organisation has no access to the repository"
        attempt = "ask the organisation's owner for access, or use a key of one that has it"
    else:
        problem, means, attempt = f"{registry} did not deliver the image", "", "correct the named cause, then run again"
    rows = [
        ("image", settings["reference"]),
        ("key", f"from {settings['key_source']}, {len(key)} characters, not shown" if key else "none given"),
        ("means", means),
        ("said", str(refused)),
        ("try", attempt),
        ("state", "no serving program was changed"),
    ]
    return "\n".join([problem, *(f"  {name:<6}  {text}" for name, text in rows if text)])
