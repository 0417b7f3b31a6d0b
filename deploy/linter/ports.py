"""Judges ports: two equal ones, and numbers that are not ports, for `tritonserver` and `docker run -p`."""

from collections.abc import Mapping, Sequence

from deploy.catalog.programs import TRITONSERVER
from deploy.linter.findings import Judged
from deploy.linter.options import Option, mixed_options
from deploy.linter.words import Word

SERVICES = {
    "--http-port": ("--allow-http", "--http-address", "8000"),
    "--grpc-port": ("--allow-grpc", "--grpc-address", "8001"),
    "--metrics-port": ("--allow-metrics", "--metrics-address", "8002"),
}
"""The port option of each service, the option that switches the service off, its address option, and its default."""
ANY = "0.0.0.0"
OFF = ("false", "0", "off")
HIGHEST = 65_535


def judge_ports(judged: Judged, options: Mapping[str, Option]) -> None:
    """Adds a finding for two services of one `tritonserver` on the same port: the second one cannot start, and the
    server exits."""
    taken: list[tuple[str, str, str]] = []
    for name, (allow, address, usual) in SERVICES.items():
        switched, port, where = options.get(allow), options.get(name), options.get(address)
        if (switched and (switched.varies or switched.value.lower() in OFF)) or (port and port.varies):
            continue
        number, listens = port.value if port and port.value else usual, where.value if where else ANY
        for owner, taken_number, taken_at in taken:
            if number == taken_number and (listens == taken_at or ANY in (listens, taken_at)):
                _same_port(judged, owner, name, number, options)
        taken.append((name, number, listens))


def listening_ports(args: Sequence[Word]) -> frozenset[str]:
    """The ports on which a `tritonserver` listens; none if a variable may change them."""
    if any(word.varies for word in args):
        return frozenset()
    options = {option.name: option for option in mixed_options(args, TRITONSERVER)[0]}
    off = {name for name, (allow, _, _) in SERVICES.items() if allow in options and options[allow].value.lower() in OFF}
    return frozenset(
        options[name].value if name in options else usual for name, (_, _, usual) in SERVICES.items() if name not in off
    )


def _same_port(judged: Judged, first: str, second: str, number: str, options: Mapping[str, Option]) -> None:
    spelt = [f"{name}={number}" + ("" if name in options else " by default") for name in (first, second)]
    mended = second if second in options else first
    used = {options[name].value if name in options else SERVICES[name][2] for name in SERVICES}
    free = next(port for port in (SERVICES[mended][2], "8000", "8001", "8002", "8003") if port not in used)
    judged.add(
        "same-port",
        f"two services of one tritonserver cannot both listen on port {number}",
        seen=", ".join(spelt),
        wanted="a port for each of HTTP, gRPC and metrics",
        attempt=f"{mended}={free}",
    )
    place = next((at for at, word in enumerate(judged.right) if word.partition("=")[0] == mended), len(judged.right))
    if place == len(judged.right) or "=" in judged.right[place]:
        judged.right[place : place + 1] = [f"{mended}={free}"]
    else:
        judged.right[place : place + 2] = [f"{mended}={free}"]


def is_port(text: str) -> bool:
    return text.isdecimal() and len(text) < 12 and 0 < int(text) <= HIGHEST


def judge_published(judged: Judged, options: Sequence[Option]) -> list[Option]:
    """The options with each port of the host published once; Docker refuses to publish a port twice."""
    used = {option.value.rpartition(":")[0].rpartition(":")[2] for option in options}
    taken: dict[str, Option] = {}
    right: list[Option] = []
    for option in options:
        mended = option
        if option.name in ("-p", "--publish") and not option.varies and "-" not in option.value:
            outside, _, inside = option.value.rpartition(":")
            key = f"{outside}/{inside.partition('/')[2] or 'tcp'}"
            if outside and key in taken:
                mended = _published_elsewhere(judged, taken[key], option, used)
            taken.setdefault(key, option)
        right.append(mended)
    return right


def _published_elsewhere(judged: Judged, first: Option, second: Option, used: set[str]) -> Option:
    outside, _, inside = second.value.rpartition(":")
    address, colon, number = outside.rpartition(":")
    if not number.isdecimal():
        return second
    free = next(str(port) for port in range(int(number) + 1, int(number) + HIGHEST) if str(port) not in used)
    used.add(free)
    elsewhere = f"{address}{colon}{free}:{inside}"
    judged.add(
        "same-port",
        f"port {number} of the host is published twice",
        seen=f"{' '.join(first.raw)} {' '.join(second.raw)}",
        wanted="one port of the host for each port of the container",
        attempt=f"-p {elsewhere}, or another free port",
    )
    return Option("-p", (Word(elsewhere, elsewhere),), ("-p", elsewhere))
