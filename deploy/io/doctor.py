"""Examines the hosts of an inventory: doctor.py's findings, and the changes that the next deploy would make."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from deploy.doctor.catalogue import finding_from
from deploy.doctor.examine import drift_findings
from deploy.doctor.finding import SEVERITIES, Finding
from deploy.doctor.holes import HOLE_KINDS
from deploy.doctor.report import Report
from deploy.io.drift import ROOT, drift_of, looked
from deploy.rollout.drift import Drift

VERB = ROOT / "doctor.py"


def examined(
    file: str, data: Sequence[str] = (), limit: Sequence[str] = (), verb: Path = VERB, with_drift: bool = True
) -> Report:
    """The report on the hosts of the inventory `file`, by asking them; doctor and dry run ask at the same time.

    Raises: a Refusal if a process that asks them ends without an answer.
    """
    with ThreadPoolExecutor(2) as pool:
        drifting = pool.submit(drift_of, file, data, limit) if with_drift else None
        record = looked(verb, file, data, limit)
        drift = drifting.result() if drifting else Drift(())
    findings = {host: tuple(map(finding_from, record["findings"].get(host, ()))) for host in record["hosts"]}
    examined = [host for host in record["hosts"] if host in record["findings"]]
    away = {host: next(iter(record["said"].get(host, ())), "") for host in record["hosts"] if host not in examined}
    of_deploy = drift_findings(drift)
    findings = {host: _sorted((*findings[host], *of_deploy.get(host, ()))) for host in examined}
    return Report(findings, away, record["stopped"], record["archive"])


def drift_with_holes(file: str, data: Sequence[str] = (), limit: Sequence[str] = (), verb: Path = VERB) -> Drift:
    """The drift of an inventory's hosts, with the known holes that the doctor finds on them as warnings.

    Raises: a Refusal if a process that asks them ends without an answer.
    """
    with ThreadPoolExecutor(2) as pool:
        examining = pool.submit(looked, verb, file, data, limit)
        drift = drift_of(file, data, limit)
    warnings = {
        host: tuple(finding["evidence"] for finding in findings if finding["id"] in HOLE_KINDS)
        for host, findings in examining.result()["findings"].items()
    }
    return replace(drift, warnings={host: lines for host, lines in warnings.items() if lines})


def _sorted(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
