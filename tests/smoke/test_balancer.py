"""An audit of a balancer: HAProxy runs with its configured file, and clients get answers through it."""

from __future__ import annotations

import re

from testinfra.host import Host

from deploy.slices.traffic import BalancerSlice
from deploy.topology.balancing import backends

DIFFERS = "/usr/bin/python3 -B /usr/local/lib/enginehouse/host balancer differs"
SETTINGS = "/etc/enginehouse/balancer"


def test_haproxy_runs_and_starts_at_boot(balancing: Host) -> None:
    """The unit is ours, not the package's."""
    ours, theirs = balancing.service("enginehouse-balancer"), balancing.service("haproxy")
    assert (ours.is_running, ours.is_enabled, theirs.is_running, theirs.is_enabled) == (True, True, False, False)


def test_the_whole_configuration_is_in_force(balancing: Host) -> None:
    """Server lines, version and everything else."""
    assert balancing.check_output(DIFFERS) == ""


def test_the_key_is_readable_by_root_only(balancing: Host, edge: BalancerSlice) -> None:
    """A balancer without a certificate has no key file."""
    modes = balancing.check_output(f"find {SETTINGS} -name '*.key' -printf '%m %u '")
    assert modes == ("600 root " if edge.certificate else "")


def test_every_model_of_every_pool_answers_through_the_balancer(balancing: Host, edge: BalancerSlice) -> None:
    """The request is sent on the balancer itself, because this machine may not reach the ports. Ports that require
    keys or certificates answer 401."""
    scheme = "https" if edge.certificate else "http"
    pages = [
        f"{scheme}://{edge.address}:{route.http_port}/v2/models/{model}/ready"
        for route in edge.routes
        for model in dict.fromkeys(model for member in route.members for model in member.models)
    ]
    ask = "curl --silent --insecure --noproxy '*' --max-time 30 --output /dev/null --write-out '%{http_code}'"
    wanted = dict.fromkeys(pages, "401" if edge.keys or edge.clients else "200")
    assert {page: balancing.check_output(f"{ask} {page}") for page in pages} == wanted


def test_every_server_of_every_pool_is_sent_requests(balancing: Host, edge: BalancerSlice) -> None:
    """HAProxy checks the models of the pool on each server, and its exporter shows the results, whatever keys the
    ports require."""
    address = f"[{edge.address}]" if ":" in edge.address else edge.address
    exposition = balancing.check_output("curl -s --noproxy '*' %s", f"http://{address}:{edge.metrics_port}/metrics")
    up = re.compile(r'^haproxy_server_status\{proxy="([^"]*)",server="([^"]*)",state="UP"\} 1', re.MULTILINE)
    wanted = {
        (backend, member.name) for route in edge.routes for member in route.members for backend in backends(route.pool)
    }
    assert wanted - set(up.findall(exposition)) == set()
