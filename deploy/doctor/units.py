"""Findings about systemd's units: services, oneshot units, and the timers that check both."""

from collections.abc import Iterator

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings, number
from deploy.doctor.wanted import Wanted

SERVES = (
    *("triton@", "llm@", "enginehouse-traffic", "enginehouse-balancer", "enginehouse-gateway", "enginehouse-mutual"),
    *("enginehouse-https", "docker.service"),
)
GPU_TIMER, DOCKER, JOURNAL = "enginehouse-gpu-state.timer", "docker.service", "systemd-journald.service"

Unit = dict[str, str]


def parse_units(text: str) -> dict[str, Unit]:
    """The units of one `systemctl show`, by their Id: blocks of `Key=value`, an empty line between two."""
    units: dict[str, Unit] = {}
    for block in text.split("\n\n"):
        unit = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if unit.get("Id"):
            units[unit["Id"]] = unit
    return units


def unit_findings(readings: Readings, wanted: Wanted, placed: frozenset[str]) -> Iterator[Finding]:
    """Units that failed, stopped or restarted; `placed` are the servers that have a release on the host."""
    units = parse_units(readings.text("units"))
    if readings.ended.get("units") != "0":
        return
    journal = units.pop(JOURNAL, {}).get("ActiveState", "active")
    if journal not in ("active", "activating"):
        yield finding_of("journal-down", f"{JOURNAL} is {journal}", JOURNAL)
    for name, unit in sorted(units.items()):
        yield from _state(name, unit)
    beside = {server.name for server in wanted.servers if server.llm}
    for server in sorted(placed & {server.name for server in wanted.servers}):
        yield from _server(f"triton@{server}.service", units.get(f"triton@{server}.service", {}))
        if server in beside:
            yield from _server(f"llm@{server}.service", units.get(f"llm@{server}.service", {}))
        timer = f"enginehouse-watch@{server}.timer"
        yield from _timer(timer, units.get(timer, {}))
    if placed:
        yield from _timer(GPU_TIMER, units.get(GPU_TIMER, {}))
    docker = units.get(DOCKER, {})
    if placed and docker.get("ActiveState", "inactive") != "active":
        yield finding_of(
            "docker-down", f"{DOCKER} is {docker.get('ActiveState', 'not installed')}", DOCKER, unit=DOCKER
        )


def error_findings(readings: Readings) -> Iterator[Finding]:
    for row in readings.rows("errors"):
        if len(row) == 2:
            yield finding_of("errors-logged", f"{row[1]}: {number(row[0])} lines", row[1], unit=row[1])


def is_active(readings: Readings, unit: str) -> bool:
    return parse_units(readings.text("units")).get(unit, {}).get("ActiveState") == "active"


def _state(name: str, unit: Unit) -> Iterator[Finding]:
    if unit.get("ActiveState") == "failed":
        kind = "unit-failed" if name.startswith(SERVES) else "job-failed"
        yield finding_of(kind, f"{name} failed: {unit.get('Result') or 'no result'}", name, unit=name)
    elif restarts := number(unit.get("NRestarts", "")):
        yield finding_of("unit-restarted", f"{name} restarted {restarts} times", name, unit=name)


def _server(name: str, unit: Unit) -> Iterator[Finding]:
    state = unit.get("ActiveState", "inactive")
    if state in ("activating", "reloading"):
        yield finding_of("unit-starting", f"{name} is {state}", name, unit=name)
    elif state not in ("active", "failed"):
        yield finding_of("unit-stopped", f"{name} is {state}", name, unit=name)


def _timer(name: str, unit: Unit) -> Iterator[Finding]:
    if unit.get("ActiveState") not in ("active", "failed"):
        yield finding_of("timer-stopped", f"{name} is {unit.get('ActiveState', 'not there')}", name, unit=name)
