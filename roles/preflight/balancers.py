"""Checks that the host of a balancer or monitor is the one of the plan, before the first change, with all findings.

A foreign HAProxy configuration, or another program on our ports, is reported here and not in the middle of a run.
"""

from collections.abc import Iterator
from ipaddress import ip_address

from deploy.refusals import Refusal
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice
from roles._pyinfra.facts import HostFacts, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles.preflight import haproxy
from roles.preflight.defaults import Defaults
from roles.preflight.judge import clock, refusal
from roles.preflight.network import address_of

OURS = "enginehouse-balancer.service"
PROMETHEUS = "enginehouse-prometheus.service"
LISTENING = 'while read -r n a r s x; do [ "$s" = 0A ] && echo "$a"; done'


class BalancerMachine(RoleFact):
    """System, clock, addresses, listening programs, and HAProxy's state and configuration."""

    shell_executable = "bash"

    def command(self) -> str:
        return script(
            ask_value("os", '. /etc/os-release && echo "$ID-$VERSION_ID"'),
            ask_value("systemd", "[ -d /run/systemd/system ] && echo yes"),
            ask_value("clock", "date +%s"),
            ask_value("addresses", "hostname -I | xargs -n 1"),
            ask_value("listening", f"cat /proc/net/tcp /proc/net/tcp6 | {LISTENING}"),
            ask_value("listeners", "ss -Hltnp"),
            *haproxy.fact_commands(OURS, PROMETHEUS),
        )


def findings(
    facts: HostFacts, mine: BalancerSlice | MonitorSlice, chosen: Defaults, control_seconds: float
) -> list[Refusal]:
    return [
        *_system(facts, mine),
        *clock(facts, mine, chosen, control_seconds),
        *_address(facts, mine),
        *(haproxy.foreign_haproxy(facts, mine.host, OURS) if isinstance(mine, BalancerSlice) else ()),
        *_ports(facts, mine),
    ]


def _spec(mine: BalancerSlice | MonitorSlice) -> str:
    return "Balancer" if isinstance(mine, BalancerSlice) else "Monitor"


def _system(facts: HostFacts, mine: BalancerSlice | MonitorSlice) -> Iterator[Refusal]:
    if facts.value("os") != mine.os:
        attempt = f'{_spec(mine)}(os="{facts.value("os")}", …), or another machine'
        yield refusal(mine, "the system is not the declared one", facts.value("os"), mine.os, attempt, "os")
    if not facts.value("systemd"):
        yield refusal(mine, "systemd does not run", "another init", "systemd", "use a VM", "systemd")


def _address(facts: HostFacts, mine: BalancerSlice | MonitorSlice) -> Iterator[Refusal]:
    own = facts.value("addresses").splitlines()
    if ip_address(mine.address) not in [ip_address(address) for address in own]:
        attempt = f"correct `address` of its {_spec(mine)}: hosts let in that one alone"
        attempt += ", and ask it at a stop" if isinstance(mine, BalancerSlice) else ""
        yield refusal(mine, f"it has no address {mine.address}", ", ".join(own), mine.address, attempt, "address")


def _ports(facts: HostFacts, mine: BalancerSlice | MonitorSlice) -> Iterator[Refusal]:
    if facts.unit(OURS if isinstance(mine, BalancerSlice) else PROMETHEUS).runs:
        return
    if isinstance(mine, MonitorSlice):
        wanted = {mine.prometheus_port: "prometheus_port", mine.alertmanager_port: "alertmanager_port"}
    else:
        wanted = {mine.metrics_port: "metrics_port"}
        wanted |= {port: f"route {route.pool}" for route in mine.routes for port in (route.http_port, route.grpc_port)}
    taken = {address_of(line)[1] for line in facts.value("listening").splitlines()}
    for port in sorted(taken & wanted.keys()):
        owner = next((line for line in facts.value("listeners").splitlines() if f":{port} " in line), "")
        program = owner.split('(("')[1].split('"')[0] if '(("' in owner else "a program of this host"
        attempt = f"stop that program (ss -ltnp | grep :{port}), or another port"
        yield refusal(mine, f"port {port} is taken", f"{program} listens there", wanted[port], attempt, "port-taken")
