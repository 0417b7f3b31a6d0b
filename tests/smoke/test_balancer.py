"""A balancer as an auditor would look at it: HAProxy runs as its file says, and clients get answers through it."""

from __future__ import annotations

from testinfra.host import Host

from deploy.slice_traffic import BalancerSlice

DIFFERS = "/usr/bin/python3 -B /usr/local/lib/enginehouse/host balancer differs"
SETTINGS = "/etc/enginehouse/balancer"


def test_haproxy_runs_and_starts_at_boot(balancing: Host) -> None:
    """Our unit, and not the package's."""
    ours, theirs = balancing.service("enginehouse-balancer"), balancing.service("haproxy")
    assert (ours.is_running, ours.is_enabled, theirs.is_running, theirs.is_enabled) == (True, True, False, False)


def test_nothing_of_its_configuration_waits_to_be_in_force(balancing: Host) -> None:
    """Server lines, version and everything else."""
    assert balancing.check_output(DIFFERS) == ""


def test_the_key_is_readable_by_root_only(balancing: Host, edge: BalancerSlice) -> None:
    """Where there is a certificate."""
    modes = balancing.check_output(f"find {SETTINGS} -name '*.key' -printf '%m %u '")
    assert modes == ("600 root " if edge.certificate else "")


def test_every_model_of_every_pool_answers_through_it(balancing: Host, edge: BalancerSlice) -> None:
    """Asked on the balancer itself: where this runs may have no way there."""
    scheme = "https" if edge.certificate else "http"
    pages = [
        f"{scheme}://{edge.address}:{route.http_port}/v2/models/{model}/ready"
        for route in edge.routes
        for model in dict.fromkeys(model for member in route.members for model in member.models)
    ]
    ask = "curl --silent --insecure --noproxy '*' --max-time 30 --output /dev/null --write-out '%{http_code}'"
    assert {page: balancing.check_output(f"{ask} {page}") for page in pages} == dict.fromkeys(pages, "200")
