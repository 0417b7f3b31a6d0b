"""Monitors and hosts agree on the same pages, and no other host reads a host's."""

from __future__ import annotations

from dataclasses import replace

from deploy.slices.monitor import ExportersSlice, PageSlice
from deploy.spec import Firewall, Gateway, Monitor, Secret
from deploy.topology.monitors import targets_of
from tests.unit.test_balancing import EDGE, OPEN, planned, serving

EYES = Monitor(os="debian-12", address="10.0.0.9")
ALONE = serving("10.0.0.11", OPEN) | {"pool": "", "firewall": Firewall(allow=("10.1.0.0/16",))}


def test_a_monitor_reads_every_page_of_every_host_and_no_other() -> None:
    gateway = Gateway(ports=(8080, 8090), keys=None)
    plan = planned(a=serving("10.0.0.11") | {"gateway": gateway}, edge={"balancer": EDGE}, eyes={"monitor": EYES})
    (mine,) = plan.monitors
    read = {(target.address, target.path) for target in mine.targets if not target.probe}
    read |= {tuple(target.probe.removeprefix("http://").partition("/")[::2]) for target in mine.targets if target.probe}
    shown = [*(host.exporters for host in plan.slices), *(host.exporters for host in plan.balancers), mine.exporters]
    pages = {
        (f"{exporter.address}:{exporter.port}", page.path) for exporter in shown if exporter for page in exporter.pages
    }
    assert {(address, "/" + path.removeprefix("/")) for address, path in read} - pages == {
        ("10.0.0.5:8080", "/v2/models/minilm/ready")  # through the balancer, as clients ask
    }
    assert pages <= {(address, "/" + path.removeprefix("/")) for address, path in read}


def test_a_port_that_asks_for_keys_is_asked_whether_it_answers_and_not_for_models() -> None:
    key = Secret.command("cat", "keys/edge.key")
    asks = replace(EDGE, certificate="keys/edge.pem", certificate_key=key, keys="file", open_to_all=False)
    (mine,) = planned(a=serving("10.0.0.11"), edge={"balancer": asks}, eyes={"monitor": EYES}).monitors
    probed = {target.instance: target.probe for target in mine.targets if target.probe and target.host == "edge"}
    assert probed == {"edge/chat/edge": "https://10.0.0.5:8080/v2/health/ready"}


def test_a_host_forwards_metrics_that_listen_on_loopback() -> None:
    served = serving("10.0.0.11") | {"gateway": Gateway(ports=(8080,), keys=None)}
    plan = planned(a=served, b=serving("10.0.0.12"), edge={"balancer": EDGE}, eyes={"monitor": EYES})
    exporters = plan.for_host("a").exporters
    assert exporters
    assert {page.path: page.url for page in exporters.pages} == {
        "/host": "http://127.0.0.1:8006/metrics",
        "/triton/main": "http://127.0.0.1:8002/metrics",
        "/model/main/minilm": "http://127.0.0.1:8000/v2/models/minilm/ready",
        "/gateway/8080": "http://127.0.0.1:8080/metrics",
    }
    assert exporters.monitors == ("10.0.0.9",)


def test_targets_have_the_names_that_alerts_and_dashboards_read() -> None:
    pages = tuple(PageSlice(path=path, url="") for path in ("/host", "/triton/main", "/gateway/8090", "/model/main/m"))
    shown = ExportersSlice(address="fd00::11", port=8005, monitors=(), pages=pages)
    named = [(target.job, target.instance, target.host, target.port) for target in targets_of("h", shown)]
    assert named == [
        ("host", "h", "h", 0),
        ("triton", "h/main", "h", 0),
        ("gateway", "h", "h", 8090),
        ("probe", "h/main/m", "h", 0),
    ]
    assert {target.address for target in targets_of("h", shown)} == {"[fd00::11]:8005", "127.0.0.1:8008"}


def test_dcgm_exporter_runs_where_a_monitor_names_its_image_and_on_no_balancer() -> None:
    image = "nvcr.io/nvidia/k8s/dcgm-exporter@sha256:" + "a" * 64
    plan = planned(a=serving("10.0.0.11"), edge={"balancer": EDGE}, eyes={"monitor": replace(EYES, dcgm_image=image)})
    shown = [plan.for_host("a").exporters, plan.balancers[0].exporters]
    assert [exporters.dcgm_image for exporters in shown if exporters] == [image, ""]
    assert [target.instance for target in plan.monitors[0].targets if target.job == "dcgm"] == ["a"]


def test_an_inventory_without_a_monitor_keeps_its_digest_and_its_firewall() -> None:
    plan = planned(a=ALONE)
    assert plan.for_host("a").exporters is None
    assert "exporters" not in plan.for_host("a").to_json()
    assert "monitors" not in plan.to_json()


def test_a_monitor_changes_the_digest_and_is_in_no_wave() -> None:
    plan = planned(a=ALONE, eyes={"monitor": EYES})
    assert plan.digest != planned(a=ALONE).digest
    assert (plan.hosts, plan.waves) == (("a", "eyes"), (("a",),))
    assert plan.parts("eyes") == (None, plan.monitors[0])


def test_a_monitor_is_let_in_where_it_asks_as_clients_do() -> None:
    edge = {"balancer": EDGE, "firewall": Firewall(allow=("10.1.0.0/16",), metrics=("10.2.0.0/16",))}
    (balancer,) = planned(a=serving("10.0.0.11"), edge=edge, eyes={"monitor": EYES}).balancers
    assert balancer.firewall
    assert balancer.firewall.allow == ("10.1.0.0/16", "10.0.0.9/32")
    assert "10.0.0.9/32" not in balancer.firewall.metrics


def test_two_monitors_read_each_other() -> None:
    plan = planned(a=ALONE, eyes={"monitor": EYES}, eyes_2={"monitor": replace(EYES, address="10.0.0.10")})
    for mine in plan.monitors:
        assert {target.host for target in mine.targets if target.job == "host"} == {"a", "eyes", "eyes_2"}
        assert mine.exporters.monitors == ("10.0.0.9", "10.0.0.10")
