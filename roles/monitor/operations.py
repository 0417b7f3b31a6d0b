"""Commands for the difference between the monitor's facts and the wanted state; pure except for the receivers."""

from collections.abc import Iterator
from shlex import quote

from pyinfra.api.command import StringCommand

from deploy.slices.monitor import MonitorSlice
from deploy.topology.monitors import BLACKBOX_PORT, in_address
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping import apt, secrets
from roles._shipping.templates import template
from roles._shipping.texts import Text
from roles.monitor import config
from roles.monitor.defaults import (
    ALERTMANAGER,
    ALERTS,
    ALL,
    BLACKBOX,
    CONFIG,
    FOLDER,
    PACKAGES,
    PROBES,
    PROMETHEUS,
    READ,
    RULES,
    SAMPLES,
    SILENCES,
    runtime,
    unit_path,
)

READY = {PROMETHEUS: "/-/ready", ALERTMANAGER: "/-/ready", BLACKBOX: "/-/healthy"}
ANSWERS_TRIES = 120
REFUSED = (
    "Alertmanager refuses the inventory's receivers; the old file stays in force. `amtool check-config FILE` shows the "
    "reason for a file with `route: {receiver: ticket}` and these receivers"
)


def texts(mine: MonitorSlice) -> list[Text]:
    return [*(unit(name, mine) for name in ALL), Text(PROBES, config.probes())]


def unit(name: str, mine: MonitorSlice) -> Text:
    """The unit of one of the three programs."""
    values = {
        "mine": mine,
        "path": unit_path(name),
        "runtime": runtime(name),
        "files": " ".join(READ[name]),
        "config": READ[name][-1],
        "listen": listen(name, mine),
        "samples": SAMPLES,
        "silences": SILENCES,
    }
    return Text(unit_path(name), template("monitor", f"{name}.j2").render(**values))


def listen(name: str, mine: MonitorSlice) -> str:
    """Address of a program; loopback for blackbox-exporter, which probes any address that it gets."""
    ports = {PROMETHEUS: mine.prometheus_port, ALERTMANAGER: mine.alertmanager_port}
    return in_address(mine.listen, ports[name]) if name in ports else f"127.0.0.1:{BLACKBOX_PORT}"


def package(facts: HostFacts) -> Iterator[Command]:
    """Commands that install the three programs; their own units would listen on every address."""
    yield from apt.install_masked(PACKAGES, facts.packages)


def rules(facts: HostFacts, mine: MonitorSlice) -> Iterator[Command]:
    """Commands after which rules and configuration are as wanted; promtool checks each before it replaces the old."""
    yield from _checked(facts, RULES, config.rules(mine), "promtool check rules")
    # The configuration names the file of rules, so it is checked after the rules.
    yield from _checked(facts, CONFIG, config.prometheus(mine), "promtool check config")


def alerts(facts: HostFacts, mine: MonitorSlice) -> Iterator[Command]:
    """Commands after which Alertmanager's file is as wanted, readable by root and Alertmanager only.

    The receivers contain passwords and URLs of hooks, so they are sent on standard input and never shown.
    """
    secret, head = mine.receivers, config.alerts()
    if secret is None:
        yield from _checked(facts, ALERTS, head + config.NO_RECEIVERS, "amtool check-config")
        return
    if problem := secrets.missing(secret):
        yield Refuse(problem)
        return
    if not facts.holds(ALERTS, f"{head}{secrets.read(secret, is_whole=True)}\n"):
        first, new = f"{ALERTS}.head", f"{ALERTS}.checked"
        yield write(first, head)
        refused = f"{{ rm -f {new}; echo {quote(REFUSED)} >&2; false; }}"
        # amtool's message about a mistake may quote the receivers, so it is not shown.
        yield StringCommand(
            f"umask 077 && cat {first} - > {new} && chgrp prometheus {new} && chmod 0640 {new} && rm -f {first}"
            f" && {{ amtool check-config {new} >/dev/null 2>&1 || {refused}; }} && {_in_place(ALERTS, new)}",
            _stdin=secrets.SecretText(secret, is_whole=True),
        )


def in_force(facts: HostFacts, mine: MonitorSlice) -> Iterator[Command]:
    for name in ALL:
        unit = facts.unit(name)
        if not unit.starts_at_boot:
            yield f"systemctl enable {name}"
        if not unit.runs or name in facts.value("started").split():
            yield f"systemctl restart {name} && {_answers(name, mine)}"
        elif name in facts.value("loaded").split():
            yield f"systemctl reload {name} && {_answers(name, mine)}"


def _checked(facts: HostFacts, path: str, wanted: str, check: str) -> Iterator[Command]:
    if not facts.holds(path, wanted):
        new = f"{path}.checked"
        yield write(new, wanted, then=f"{check} {new} && {_in_place(path, new)}")


def _in_place(path: str, new: str) -> str:
    return f"sync {new} && mv -T {new} {path} && sync {FOLDER}"


def _answers(name: str, mine: MonitorSlice) -> str:
    """Shell that waits until the program answers, and shows its last messages if it does not."""
    url = f"http://{listen(name, mine)}{READY[name]}"
    probe = f"curl -fs --noproxy '*' --max-time 2 -o /dev/null {url}"
    shown = f"{{ journalctl -q -u {name} -n 8 -o cat >&2; false; }}"
    return f"{{ for i in $(seq {ANSWERS_TRIES}); do {probe} && exit; sleep 0.5; done; {shown}; }}"
