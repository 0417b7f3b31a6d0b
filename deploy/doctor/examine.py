"""All findings of one host: its readings compared with its plan, and the changes that a deploy would make."""

from collections.abc import Iterator

from deploy.doctor.catalogue import finding_of
from deploy.doctor.causes import cause_findings
from deploy.doctor.finding import SEVERITIES, Finding
from deploy.doctor.holes import hole_findings
from deploy.doctor.installed import (
    answer_findings,
    cache_findings,
    certificate_findings,
    first_boot_findings,
    lease_findings,
    link_findings,
    places_of,
    port_findings,
    release_findings,
)
from deploy.doctor.kernel import kernel_findings
from deploy.doctor.notices import notice_findings
from deploy.doctor.readings import Readings
from deploy.doctor.repair import repair_findings
from deploy.doctor.system import (
    clock_findings,
    container_findings,
    disk_findings,
    hardware_findings,
    package_findings,
    unread_findings,
)
from deploy.doctor.units import error_findings, unit_findings
from deploy.doctor.wanted import Wanted
from deploy.rollout.drift import Drift, shown


def findings_of(readings: Readings, wanted: Wanted) -> tuple[Finding, ...]:
    """The findings of one host, the worst first; among equals the driver's own verdict first."""
    listed = dict.fromkeys(_findings(readings, wanted))
    listed |= dict.fromkeys(cause_findings(readings, tuple(listed)))
    return tuple(sorted(listed, key=lambda finding: SEVERITIES.index(finding.severity)))


def _findings(readings: Readings, wanted: Wanted) -> Iterator[Finding]:
    places = places_of(readings)
    placed = frozenset(name for name, place in places.items() if place.current)
    if not wanted.is_balancer:
        yield from hardware_findings(readings, wanted, bool(placed))
        yield from container_findings(readings, bool(placed))
    else:
        yield from kernel_findings(readings.lines("kernel-beside"), {}, are_all_listed=False)
    yield from unread_findings(readings)
    yield from disk_findings(readings)
    yield from clock_findings(readings, wanted)
    yield from package_findings(readings)
    yield from unit_findings(readings, wanted, placed)
    yield from first_boot_findings(readings)
    yield from release_findings(readings, wanted, places)
    yield from answer_findings(readings, wanted)
    yield from cache_findings(readings)
    yield from link_findings(readings, wanted)
    yield from lease_findings(readings)
    yield from notice_findings(readings)
    yield from repair_findings(readings)
    yield from port_findings(readings, wanted)
    yield from certificate_findings(readings, wanted)
    yield from hole_findings(readings, wanted)
    yield from error_findings(readings)


def drift_findings(drift: Drift) -> dict[str, tuple[Finding, ...]]:
    """Steps of the next deploy, by host; for a host that it would refuse, the first line of each reason."""
    findings: dict[str, list[Finding]] = {}
    for host in drift.hosts:
        steps = [step for step, names in drift.steps.items() if host in names]
        if host in drift.unasked or drift.stopped:
            reason = next(iter(drift.messages.get(host, ())), drift.stopped.partition("\n")[0] or "no reason was given")
            findings.setdefault(host, []).append(finding_of("deploy-refused", reason))
        elif host in drift.refused:
            findings.setdefault(host, []).extend(finding_of("deploy-refused", line) for line in drift.refused[host])
        elif steps:
            findings.setdefault(host, []).append(finding_of("drift", f"{len(steps)} steps: {shown(steps)}"))
    return {host: tuple(listed) for host, listed in findings.items()}
