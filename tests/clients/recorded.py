"""Recorded answers of OpenAI's and Anthropic's own servers, from the tests of their SDKs.

    python -m tests.clients.recorded FOLDER     unpacks the tests of the SDKs' source archives there

The archives are those of the locked versions, checked against the lock's hashes. This repository keeps no part of them.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "clients-recorded"
LOCK = ROOT / "locks" / "requirements-clients.lock"
SDKS = ("anthropic", "openai")
Json = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """A recorded answer, complete or as the events of a stream, with its request if it was recorded."""

    name: str
    request: Json
    answer: Json
    events: tuple[Json, ...] = ()


def unpack(folder: Path) -> None:
    """Unpacks the tests of both SDKs into the folder."""
    blocks = LOCK.read_text("utf-8").replace("\\\n", "").splitlines()
    wanted = "\n".join(line for line in blocks if line.split("==")[0] in SDKS)
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "wanted").write_text(wanted + "\n")
        words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        words += ["--no-binary", ":all:", "--no-build-isolation", "--require-hashes", "--dest", scratch]
        subprocess.run([*words, "--requirement", f"{scratch}/wanted"], check=True)
        for path in Path(scratch).glob("*.tar.gz"):
            with tarfile.open(path) as archive:
                tests = [member for member in archive.getmembers() if member.name.split("/")[1:2] == ["tests"]]
                archive.extractall(folder, tests, filter="data")


def tests_of(sdk: str) -> Path:
    """Returns the folder with the tests of an SDK. Raises: FileNotFoundError if they were not unpacked."""
    folders = sorted(FOLDER.glob(f"{sdk}-*/tests"))
    if not folders:
        raise FileNotFoundError(f"{FOLDER} has no tests of {sdk}: type `make clients`, which unpacks them")
    return folders[-1]


def anthropic_exchanges() -> Iterator[Exchange]:
    """Yields requests of Anthropic's SDK with the server's answers."""
    folder = tests_of("anthropic")
    for path in sorted(folder.rglob("__inline_snapshot__/**/*.json")):
        for number, recorded in enumerate(json.loads(path.read_text("utf-8"))):
            name = f"{path.parent.name}-{path.stem[:8]}-{number}"
            body = recorded["response"]["body"]
            answer = body if isinstance(body, dict) else {}
            events = tuple(events_of(body)) if isinstance(body, str) else ()
            yield Exchange(name, recorded["request"]["body"], answer, events)


def anthropic_streams() -> Iterator[Exchange]:
    """Yields the streams in the tests of Anthropic's SDK, whose requests were not recorded."""
    for path in sorted((tests_of("anthropic") / "lib/streaming/fixtures").glob("*.txt")):
        yield Exchange(path.stem.removesuffix("_response"), {}, {}, tuple(events_of(path.read_text("utf-8"))))


def openai_answers() -> Iterator[Exchange]:
    """Yields complete answers of OpenAI's server to chats and responses, whose requests were not recorded."""
    for path in sorted((tests_of("openai") / "lib").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("{"):
                answer = parsed(node.value)
                if answer.get("object") in ("chat.completion", "response") and "usage" in answer:
                    yield Exchange(f"{answer['object']}-{answer['id'][-8:]}", {}, answer)


def parsed(text: str) -> Json:
    """Parses an object; returns an empty one for other texts."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def events_of(text: str) -> Iterator[Json]:
    """Yields the data of a stream's events."""
    for line in text.splitlines():
        if line.startswith("data:") and line.strip() != "data: [DONE]":
            yield json.loads(line.removeprefix("data:"))


def lacks(recorded: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yields paths of a recorded value that ours lacks or has with another type; a recorded null fits all types."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for name, value in recorded.items():
            place = f"{path}.{name}".lstrip(".")
            if name not in ours:
                yield place
            else:
                yield from lacks(value, ours[name], place)
    elif isinstance(recorded, list) and isinstance(ours, list):
        for value, mine in zip(recorded, ours, strict=False):
            yield from lacks(value, mine, f"{path}[]")
        if len(recorded) != len(ours):
            yield f"{path}: {len(recorded)} entries, and {len(ours)} of ours"
    elif recorded is not None and kind(recorded) != kind(ours):
        yield f"{path}: {kind(recorded)}, and ours is {kind(ours)}"


def kind(value: Any) -> str:
    """Returns the JSON type of a value."""
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
