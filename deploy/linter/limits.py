"""Judges limits of a container: `ulimit` by name and value, the size of /dev/shm, and published ports."""

import re
from collections.abc import Iterable

from deploy.catalog.containers import ULIMITS
from deploy.catalog.names import nearest
from deploy.linter.findings import Judged
from deploy.linter.ports import is_port

SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[kmgtp]i?b?|b)?", re.IGNORECASE)
SMALLEST = 1 << 20
PORT = re.compile(r"(?:(?P<address>\[[^\]]*\]|[^:]*):)??(?:(?P<outside>[^:]*):)?(?P<inside>[^:/]+)(?:/(?P<kind>\w+))?")


def judge_ulimit(judged: Judged, text: str, *, seen: str) -> str:
    """The right `name=soft:hard`, after its finding was added; empty if the limit should be left out."""
    name, _, value = text.partition("=")
    numbers = value.split(":")
    if name not in ULIMITS:
        near = nearest(name, ULIMITS)
        judged.add(
            "ulimit",
            f"there is no limit `{name}`: the container does not start",
            seen=seen,
            wanted=f"one of {', '.join(sorted(ULIMITS))}",
            attempt=f"did you mean `{near}`?" if near else "leave it out",
        )
        return f"{near}={value}" if near else ""
    if len(numbers) > 2 or not all(re.fullmatch(r"-?\d+", number) for number in numbers):
        judged.add(
            "ulimit",
            f"the limit `{name}` does not take `{value}`: the container does not start",
            seen=seen,
            wanted="a whole number, -1 for none, or SOFT:HARD",
            attempt=f"{name}=-1",
        )
        return f"{name}=-1"
    soft, hard = int(numbers[0]), int(numbers[-1])
    if hard != -1 and (soft > hard or soft == -1):
        judged.add(
            "ulimit",
            f"the soft limit of `{name}` is above the hard one: the container does not start",
            seen=seen,
            wanted="a soft limit of at most the hard one",
            attempt=f"{name}={hard}:{hard}",
        )
        return f"{name}={hard}:{hard}"
    return text


def know_shm(judged: Judged, *, seen: str, attempt: str, owner: str = "Docker gives a container") -> None:
    """Adds the note that /dev/shm has its default size."""
    judged.know(
        "shared-memory",
        f"{owner} 64 MB of /dev/shm; every Python model takes 1 MB and grows",
        seen=seen,
        wanted="1 GiB or more",
        attempt=attempt,
    )


def judge_shm(judged: Judged, value: str, *, seen: str, written: str) -> str:
    """The right size of /dev/shm, after its finding was added; `written` is the option's form, with a placeholder."""
    match = SIZE.fullmatch(value)
    if match and (match["unit"] or float(match["number"]) >= SMALLEST):
        return value
    number = match["number"] if match else ""
    right = (
        "2g"
        if not number.isdecimal() or number == "0" or len(number) > 12
        else f"{number}g"
        if int(number) <= 512
        else f"{number}m"
    )
    judged.add(
        "shared-memory-size",
        f"{value} without a unit counts bytes" if match else f"`{value}` is not a size: the container does not start",
        seen=seen,
        wanted="a number with its unit: 512m, 2g",
        attempt=written.format(right),
    )
    return right


def judge_port_text(judged: Judged, text: str, *, seen: str) -> bool:
    """Adds the finding that a published port is not a port; True if it can be published."""
    match = PORT.fullmatch(text)
    numbers = [number for part in ("outside", "inside") for number in _ends(match[part] if match else None)]
    if match and all(map(is_port, numbers)) and (match["kind"] or "tcp") in ("tcp", "udp", "sctp"):
        return True
    judged.add(
        "no-port",
        f"`{text}` names no port that can be published",
        seen=seen,
        wanted="HOST:CONTAINER, each from 1 to 65535",
        attempt="8000:8000",
    )
    return False


def _ends(part: str | None) -> list[str]:
    return part.split("-") if part else []


def judge_silent(judged: Judged, inside: Iterable[str], listening: frozenset[str], program: str) -> None:
    for port in dict.fromkeys(inside):
        if port.isdecimal() and listening and port not in listening:
            judged.know(
                "silent-port",
                f"port {port} of the container is published, and {program} does not listen on it",
                seen=port,
                wanted=f"one of {', '.join(sorted(listening))}",
                attempt=f"publish {min(listening)}, or start {program} on {port}",
            )


def inside_of(text: str) -> str:
    """The container's port of a published port."""
    match = PORT.fullmatch(text)
    return match["inside"] if match else ""
