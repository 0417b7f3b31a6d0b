"""Findings about repairs of GPUs, from the metrics that files/host/repair writes where the inventory allows repairs."""

import re
from collections.abc import Iterator

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.notices import moment
from deploy.doctor.readings import Readings, number

SILENT_SECONDS = 7200
"""Seconds without a check of the GPUs that the doctor reports: a repair may wait for servers for half an hour and more;
between repairs the program checks once a minute."""
_GAUGE = re.compile(r"enginehouse_repair_([a-z_]{1,40}) (\d{1,12})")
_COUNT = re.compile(r'enginehouse_repairs_total\{remedy="([a-z]{1,6})",result="([a-z]{1,8})"\} (\d{1,12})')


def repair_findings(readings: Readings) -> Iterator[Finding]:
    """Findings on a repair that needs a person, one in progress, one that waits for its turn, and a silent program."""
    lines = [line.strip() for line in readings.lines("repair")]
    gauges = {match[1]: int(match[2]) for line in lines if (match := _GAUGE.fullmatch(line))}
    counts = [match.groups() for line in lines if (match := _COUNT.fullmatch(line))]
    made = ", ".join(f"{count} {remedy} {result}" for remedy, result, count in counts if int(count)) or "no repair yet"
    if gauges.get("person"):
        yield finding_of("repair-person", f"so far: {made}")
    elif gauges.get("active"):
        yield finding_of("repair-active", f"so far: {made}")
    elif gauges.get("waits"):
        yield finding_of("repair-waits", f"so far: {made}")
    looked, now = gauges.get("looked_timestamp_seconds", 0), number(readings.text("clock"))
    if looked and now and now - looked > SILENT_SECONDS:
        yield finding_of("repair-silent", f"its last check was at {moment(looked)}")
