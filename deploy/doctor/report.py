"""The findings of all hosts as one verdict: text for people, JSON for programs, an exit status for timers."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy.doctor.finding import SEVERITIES, Finding
from deploy.refusals import on_one_line
from deploy.rollout.drift import shown

HEALTHY, NOT_ASKED, BROKEN, WARNINGS = 0, 1, 2, 3
_WORDS = {HEALTHY: "healthy", NOT_ASKED: "could not ask", BROKEN: "broken", WARNINGS: "warnings"}
EVIDENCES = 3
"""Largest number of different lines of evidence that a group of hosts shows."""


@dataclass(frozen=True)
class Report:
    """The findings on every host of a run."""

    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """Findings by host; none for a healthy host."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """The reason why a host could not be asked, by its name."""
    stopped: str = ""
    """The reason why no host could be asked."""
    archive: str = ""
    """The file that `--data report=FILE` wrote, and its size."""

    @property
    def exit_code(self) -> int:
        """0: healthy; 1: a host could not be asked; 2: something is broken; 3: warnings only. Notes do not count."""
        severities = {finding.severity for findings in self.findings.values() for finding in findings}
        if self.stopped or self.unasked or not self.findings:
            return NOT_ASKED
        return BROKEN if "broken" in severities else WARNINGS if "warning" in severities else HEALTHY

    @property
    def verdict(self) -> str:
        return _WORDS[self.exit_code]

    def groups(self) -> list[tuple[Finding, dict[str, list[str]]]]:
        """Findings that differ only in host and evidence, the worst first: a finding, and the evidence by host."""
        alike: dict[tuple[str, str, str], tuple[Finding, dict[str, list[str]]]] = {}
        for host, findings in self.findings.items():
            for finding in findings:
                _, hosts = alike.setdefault((finding.id, finding.subject, finding.attempt), (finding, {}))
                hosts.setdefault(host, []).append(finding.evidence)
        return sorted(alike.values(), key=lambda group: SEVERITIES.index(group[0].severity))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.archive:
            yield self.archive
        if self.stopped:
            yield self.stopped
        for finding, hosts in self.groups():
            yield from _paragraph(finding, hosts)
            yield ""
        alike: dict[str, list[str]] = {}
        for host, reason in self.unasked.items():
            alike.setdefault(reason, []).append(host)
        for reason, names in alike.items():
            yield f"could not be asked: {shown(names)}" + (f" ({on_one_line(reason)})" if reason else "")
        healthy = [host for host, findings in self.findings.items() if not findings]
        if healthy:
            yield f"nothing found: {shown(healthy)}"
        yield f"verdict: {self.verdict}, {len(self.findings)} of {len(self.findings) + len(self.unasked)} hosts asked"

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "hosts": {host: [finding.to_json() for finding in findings] for host, findings in self.findings.items()},
            "not_asked": dict(self.unasked),
            "stopped": self.stopped,
            "archive": self.archive,
        }

    def to_text(self) -> str:
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False)


def _paragraph(finding: Finding, hosts: Mapping[str, list[str]]) -> Iterator[str]:
    evidences = list(dict.fromkeys(line for lines in hosts.values() for line in lines))
    subject = f"  {on_one_line(finding.subject)}" if finding.subject else ""
    yield f"{finding.severity}  {finding.id}{subject}  on {shown(list(hosts))}"
    for line in evidences[:EVIDENCES]:
        yield f"  seen   {on_one_line(line)}"
    if len(evidences) > EVIDENCES:
        yield f"  seen   {len(evidences) - EVIDENCES} further lines; --json has them"
    yield f"  means  {finding.kind.means}"
    yield f"  try    {on_one_line(finding.attempt)}"
    yield f"  ours   {'yes, that command repairs it' if finding.kind.ours else 'no'}"
