"""Findings about notices of interruption, from the metrics that files/host/notices writes if a cloud is declared."""

import re
import time
from collections.abc import Iterator

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings, number

SILENT_SECONDS = 300
"""Seconds without an answer of the cloud that the doctor reports: the cloud is asked every five seconds at most, and
the metrics are written once a minute."""
_LINE = re.compile(r'enginehouse_(notices?_[a-z_]+)(?:\{kind="([A-Za-z ]{1,40})"\})? (\d{1,12})')


def notice_findings(readings: Readings) -> Iterator[Finding]:
    """Findings on a host that its cloud reclaims, on a notice that drains nothing, and on a silent metadata service."""
    values = dict[str, int]()
    standing = list[str]()
    for line in readings.lines("notices"):
        if match := _LINE.fullmatch(line.strip()):
            values[match[1]] = int(match[3])
            if match[1] == "notice_standing":
                standing.append(match[2] or "")
    if not values:
        return
    if values.get("notice_active"):
        kinds, ends = ", ".join(standing) or "a notice", moment(values.get("notice_ends_timestamp_seconds", 0))
        cut = values.get("notice_cut_requests_total", 0)
        yield finding_of("notice-drains", f"{kinds}: the cloud takes the host at {ends}; requests cut: {cut}")
    elif standing:
        yield finding_of("notice-seen", ", ".join(standing))
    answered, now = values.get("notice_answered_timestamp_seconds", 0), number(readings.text("clock"))
    if now and now - answered > SILENT_SECONDS:
        evidence = f"its last answer was at {moment(answered)}" if answered else "it has never answered"
        yield finding_of("notices-unread", evidence)


def moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
