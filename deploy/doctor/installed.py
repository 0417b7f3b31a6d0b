"""Findings about this project's own parts of a host: releases, swaps, leases, ports, certificates."""

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deploy.doctor.catalogue import finding_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings, fields, number, seconds
from deploy.doctor.units import is_active, parse_units
from deploy.doctor.wanted import Wanted

CERTIFICATE_DAYS = 21
"""Days before the end of a certificate; the plan warns as early (deploy/validation/certificates.py)."""
AUTHORITY_DAYS = 180
"""Days of warning before the fleet's authority ends: certificates that it signs end with it."""
SPECIAL = (
    ("fleet-authority", re.compile(r"/(mutual|gateway)/authority\.pem$"), AUTHORITY_DAYS),
    ("fleet-certificate", re.compile(r"/(mutual/host|gateway/mutual)\.pem$"), CERTIFICATE_DAYS),
    ("ordered-certificate", re.compile(r"/https/acme\.pem$"), CERTIFICATE_DAYS),
)
"""Kind of finding, path and days of warning: files by which hosts of the fleet authenticate each other, and the
certificate that a timer renews."""
WATCHED_SECONDS = 2 * 3600
CACHE_SHARE = 0.95
"""Share of the KV cache at which the alert CacheNearlyFull fires (deploy/monitoring/causes.py)."""
LINK_SHARE = 0.25
"""Share of the declared speed below which the ranks' exchange has taken another network, or a broken one. 64 MiB do not
fill a fast link: half of its speed is usual."""
GIVES_UP = 3
"""Restarts within WATCHED_SECONDS after which the watchdog stops restarting a server (role health's defaults)."""
_LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
_LISTENS = "0A"


@dataclass(frozen=True)
class Place:
    """A server's directory on the host: its releases by id, and the records beside them."""

    name: str
    current: str = ""
    is_cut: bool = False
    verdict: dict[str, Any] | None = None
    wanted: dict[str, Any] | None = None
    watch: dict[str, Any] | None = None


def places_of(readings: Readings) -> dict[str, Place]:
    """The servers of the host, by name. Shape: lines `SERVER KEY VALUE`."""
    records: dict[str, dict[str, str]] = {}
    for line in readings.lines("servers"):
        name, _, rest = line.partition(" ")
        key, _, value = rest.partition(" ")
        records.setdefault(name, {})[key] = value.strip()
    return {
        name: Place(
            name,
            server_records.get("current", ""),
            "cut" in server_records,
            *(fields(server_records.get(record, "")) or None for record in ("verdict", "wanted", "watch")),
        )
        for name, server_records in records.items()
    }


def release_findings(readings: Readings, wanted: Wanted, places: dict[str, Place]) -> Iterator[Finding]:
    """Each server's release compared with the plan, and the result of its last swap."""
    if not readings.is_whole("servers"):
        return
    if wanted.servers and not any(place.current for place in places.values()):
        yield finding_of("nothing-deployed", "no server has a release")
        return
    planned = {server.name: server for server in wanted.servers}
    for name, server in planned.items():
        place = places.get(name, Place(name))
        if not place.current:
            yield finding_of("server-missing", f"server {name} has no release", name)
        elif server.release and place.current != server.release:
            yield finding_of("release-differs", f"server {name} has {place.current}, planned {server.release}", name)
    for name, place in places.items():
        if name not in planned and place.current:
            yield finding_of("server-left", f"server {name} has {place.current}", name)
        yield from _swap(readings, place)


def _swap(readings: Readings, place: Place) -> Iterator[Finding]:
    name = place.name
    if place.is_cut and not is_active(readings, f"enginehouse-swap@{name}.service"):
        yield finding_of("swap-cut", f"server {name} has a swap.json, and no swap is running", name)
    verdict = place.verdict or {}
    if verdict.get("result", "serves") != "serves":
        yield finding_of("swap-refused", f"{verdict.get('result')}: {verdict.get('sentence', '')}", name)
    now, restarts = number(readings.text("clock")), (place.watch or {}).get("restarts")
    recent = [when for when in restarts if seconds(when) > now - WATCHED_SECONDS] if isinstance(restarts, list) else []
    if now and recent:
        kind = "watchdog-gave-up" if len(recent) >= GIVES_UP else "watchdog-restarted"
        yield finding_of(kind, f"server {name} was restarted {len(recent)} times within two hours", name, server=name)


def answer_findings(readings: Readings, wanted: Wanted) -> Iterator[Finding]:
    """Active units whose server or model is silent. Shape: lines `SERVER MODEL STATUS`; model `-` is the server."""
    answers = {(row[0], row[1]): row[2] if len(row) > 2 else "" for row in readings.rows("ready") if len(row) > 1}
    for server in wanted.servers:
        if not is_active(readings, f"triton@{server.name}.service") or (server.name, "-") not in answers:
            continue
        whole = answers[server.name, "-"]
        if not whole:
            evidence = f"no answer at {server.address}:{server.http_port}"
            yield finding_of("server-silent", evidence, server.name, server=server.name)
            continue
        for model in server.models:
            status = answers.get((server.name, model), "200")
            if status != "200":
                page = "/health" if model == server.llm else f"/v2/models/{model}/ready"
                evidence = f"{page} answers {status or 'nothing'}"
                yield finding_of("model-not-ready", evidence, f"{server.name}/{model}", server=server.name)


def cache_findings(readings: Readings) -> Iterator[Finding]:
    """Key/value caches that are nearly full, from lines `SERVER METRIC{LABELS} VALUE` of an engine or an LLM's slot."""
    for line in readings.lines("metrics"):
        server, _, metric = line.partition(" ")
        labels, _, value = metric.rpartition(" ")
        try:
            amount = float(value)
        except ValueError:
            continue
        model = next(iter(re.findall(r'model="([^"]*)"', labels)), server)
        if '"fraction"' in labels and amount > CACHE_SHARE:
            yield finding_of("cache-full", f"{amount:.0%} of its blocks are in use", f"{server}/{model}")
        elif labels.startswith("enginehouse_llm_cache_share{") and amount > CACHE_SHARE:
            yield finding_of("cache-full", f"running requests fill {amount:.0%} of it", f"{server}/{model}")
        elif '"paused_requests"' in labels and amount > 0:
            yield finding_of(
                "cache-full", f"{amount:.0f} requests are paused because no blocks are free", f"{server}/{model}"
            )


def link_findings(readings: Readings, wanted: Wanted) -> Iterator[Finding]:
    """Groups whose ranks exchanged far slower than the declared network, from lines `SERVER GIGABYTES_A_SECOND`."""
    declared = {server.name: server.gbit for server in wanted.servers if server.gbit}
    for row in readings.rows("links"):
        gbit = declared.get(row[0])
        try:
            measured = float(row[-1]) * 8
        except ValueError:
            continue
        if gbit and 0 < measured < gbit * LINK_SHARE:
            evidence = f"all-reduce of 64 MiB: {measured:.1f} Gbit/s of {gbit} declared"
            yield finding_of("link-slow", evidence, row[0], server=row[0])


def lease_findings(readings: Readings) -> Iterator[Finding]:
    """Runs that hold the host, drains that operators left open, and changes that await confirmation or are reverted."""
    if readings.has("lock"):
        holder = fields(readings.text("lock"))
        yield finding_of("run-at-work", f"{holder.get('who', 'somebody')} since {holder.get('since', '(unknown)')}")
    now = number(readings.text("clock"))
    for line in readings.lines("holds"):
        name, _, rest = line.partition(" ")
        record = fields(rest)
        until = seconds(record.get("until"))
        if now and until > now and not (record.get("cloud") or record.get("repair")):  # see notices.py and repair.py
            ends = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(until, 2**37)))
            yield finding_of("hold", f"server {name} gets no requests until {ends}", name, server=name)
    for line in readings.lines("undo"):
        name, _, rest = line.partition(" ")
        if rest.strip() == "waiting":
            yield finding_of("undo-waiting", f"the change of {name} is not confirmed", name)
        else:
            record = fields(rest)
            yield finding_of(
                "undo-taken-back", f"{name}: {record.get('why', 'no reason')} ({record.get('when', '')})", name
            )


def first_boot_findings(readings: Readings) -> Iterator[Finding]:
    """The step of a host that deploys itself, from the state file of its first boot: the current one, or the last."""
    record = fields(readings.text("first-boot"))
    step, since = f"in the step '{record.get('step', '(unknown)')}'", record.get("since", "(unknown)")
    if record.get("state") == "failed":
        yield finding_of("first-boot-failed", f"it ended {step} with exit code {record.get('exit')}, {since}")
    elif record.get("state") == "running":
        unit = parse_units(readings.text("units")).get("enginehouse-first-boot.service", {})
        is_at_work = unit.get("ActiveState") == "activating" or record.get("step") == "reboot"
        if is_at_work or readings.ended.get("units") != "0":
            yield finding_of("first-boot-running", f"{step} since {since}")
        else:
            yield finding_of("first-boot-failed", f"it was cut {step}, begun {since}")


def port_findings(readings: Readings, wanted: Wanted) -> Iterator[Finding]:
    """Ports of servers that do not run, and ports that the plan keeps on loopback but that others can reach.

    Shape: lines `ADDRESS:PORT STATE` of /proc/net/tcp.
    """
    listening = [
        (address.upper(), int(port[:4], 16))
        for row in readings.rows("listening")
        if len(row) >= 2 and row[1] == _LISTENS
        for address, _, port in [row[0].partition(":")]
        if _is_hex(port)
    ]
    taken, open_ports = {port for _, port in listening}, {port for at, port in listening if at not in _LOOPBACK}
    units = parse_units(readings.text("units"))
    is_read = readings.ended.get("units") == "0"
    for server in wanted.servers:
        state = units.get(f"triton@{server.name}.service", {}).get("ActiveState", "inactive")
        for port in (server.http_port, *server.other_ports):
            if port in taken and is_read and state in ("inactive", "failed"):
                evidence = f"port {port} is in use, and triton@{server.name} is {state}"
                yield finding_of("port-taken", evidence, server.name, port=port)
            elif port in open_ports and server.is_local:
                yield finding_of("port-open", f"server {server.name}: port {port} is open beyond loopback", server.name)


def certificate_findings(readings: Readings, wanted: Wanted) -> Iterator[Finding]:
    """Findings on certificates that have expired or soon expire: lines `PATH notAfter=Nov 22 10:00:00 2027 GMT`, as
    openssl writes them."""
    now = wanted.after or wanted.before
    for line in readings.lines("certificates"):
        path, _, rest = line.partition(" notAfter=")
        try:
            ends = datetime.strptime(" ".join(rest.split()), "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
        except ValueError:
            continue
        left = (ends.timestamp() - now) / 86_400
        kinds = ((kind, days) for kind, pattern, days in SPECIAL if pattern.search(path))
        kind, days = next(kinds, ("certificate", CERTIFICATE_DAYS))
        if now and left < days:
            is_over = left <= 0
            when = f"{math.floor(-left)} days ago" if is_over else f"in {math.floor(left)} days"
            evidence = f"{path} {'ended' if is_over else 'ends'} on {ends:%Y-%m-%d}, {when}"
            yield finding_of(f"{kind}-{'ended' if is_over else 'ends'}", evidence, path)


def _is_hex(text: str) -> bool:
    return bool(text) and all(sign in "0123456789abcdefABCDEF" for sign in text[:4])
