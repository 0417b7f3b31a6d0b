"""Findings about a host with commands that repair them: each host runs one command, and no host is changed.

There is no operation: the facts are asked while pyinfra prepares, so `--dry` gives the same result. When the last host
has answered, the findings of all hosts are printed (deploy/doctor judges), and a listener gets those of each host
(roles/_pyinfra/events.py).
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

import click
from pyinfra import host
from pyinfra.api import State
from pyinfra.api.exceptions import PyinfraError

from deploy.doctor.archive import archive_of
from deploy.doctor.examine import findings_of
from deploy.doctor.finding import Finding
from deploy.doctor.readings import Readings
from deploy.doctor.report import Report
from deploy.doctor.wanted import Wanted, wanted_of
from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.events import emit
from roles._pyinfra.steps import ask, has_failed
from roles.doctor.archive import confirm_new, write
from roles.doctor.facts import DoctorFacts
from roles.doctor.questions import About, names_of

NO_ANSWER = "it did not answer; pyinfra said why above"
NO_CONNECTION = "no connection"
_answers: WeakKeyDictionary[State, dict[str, tuple[Finding, ...] | None]] = WeakKeyDictionary()
"""Answers of each host to the doctor's checks; None for a host without an answer."""
_read: WeakKeyDictionary[State, dict[str, tuple[Readings, Wanted]]] = WeakKeyDictionary()
"""Answers of each host, with its planned state, for `--data report=FILE`."""


def examine(mine: Slice | BalancerSlice | MonitorSlice, releases: Mapping[str, str]) -> None:
    """Prints the findings of this host; after the last host's, those of all. `releases`: planned ids by server.

    Raises: a Refusal if the file of `--data report=FILE` cannot be made.
    """
    confirm_new(host.data.get("report"))
    by_host = _answers.setdefault(host.state, {})
    began = time.time()
    try:
        readings = ask(host, DoctorFacts, about=(about := About.of(mine)))
    except PyinfraError:  # pyinfra raises this if no host is left
        by_host[host.name] = None
        _report_once_all(host.state, by_host)
        raise
    if has_failed(host):
        by_host[host.name] = None
    else:
        wanted = wanted_of(mine, releases, datetime.now(UTC).date(), began, time.time())
        readings = readings.expecting(names_of(about))
        by_host[host.name] = findings_of(readings, wanted)
        _read.setdefault(host.state, {})[host.name] = readings, wanted
        emit(host.name, findings=[finding.to_json() for finding in by_host[host.name] or ()])
    _report_once_all(host.state, by_host)


def report_of(state: State, by_host: Mapping[str, tuple[Finding, ...] | None]) -> Report:
    """The report on all hosts of the run, unreachable ones included."""
    wanted = [run_host.name for run_host in state.inventory if state.is_host_in_limit(run_host)]
    away = {name: NO_ANSWER if name in by_host else NO_CONNECTION for name in wanted if by_host.get(name) is None}
    return Report({name: findings for name in wanted if (findings := by_host.get(name)) is not None}, away)


def _report_once_all(state: State, by_host: Mapping[str, tuple[Finding, ...] | None]) -> None:
    if {run_host.name for run_host in state.activated_hosts} - set(by_host):
        return
    report = replace(report_of(state, by_host), archive=_archived(state))
    click.echo(report.to_text() if host.data.get("json") == "yes" else str(report))


def _archived(state: State) -> str:
    """Path and size of the archive of `--data report=FILE`; printed before it is written."""
    if not (path := host.data.get("report")):
        return ""
    archive = archive_of(_read.get(state, {}), time.time())
    line = f"{path}: {archive.summary}"
    click.echo(f"writing {line}", err=True)
    write(path, archive.packed)
    emit(archive=line)
    return line
