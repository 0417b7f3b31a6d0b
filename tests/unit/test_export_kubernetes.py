"""`enginehouse export kubernetes`: the Pods equal the containers of the hosts' units, argument by argument."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.exports.kubernetes.manifests import files
from deploy.exports.kubernetes.names import host_labels
from deploy.exports.kubernetes.weights import Storage
from deploy.exports.served import ServedHost, ServedServer
from deploy.inventory.knobs import SUFFIX
from deploy.spec import Hub, Registry, Secret
from gateway.settings import settings_of
from roles.gateway.programs import unit
from roles.gateway.settings import settings
from roles.health.defaults import Defaults as Health
from roles.triton.defaults import Defaults
from roles.triton.release import release_of
from tests.unit.exported import (
    INVENTORIES,
    container,
    named,
    objects,
    of_plan,
    rendered,
    start_line,
    texts,
    unit_times,
)
from tests.unit.golden import same_as_golden
from tests.unit.samples import plan

ANNOTATION_BYTES = 262_144


def servers(inventory: str) -> list[tuple[ServedHost, ServedServer, dict[str, Any]]]:
    """Every server of an inventory beside its Deployment."""
    labels = host_labels(host.slice.host for host in rendered(inventory).hosts)
    return [
        (host, server, named(texts(inventory), "Deployment", f"triton-{server.slice.name}-{labels[host.slice.host]}"))
        for host in rendered(inventory).hosts
        for server in host.servers
    ]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_pod_runs_the_hosts_start_line(inventory: str) -> None:
    """Image, words, user, ports, mounts, environment, sizes and switches, from the file that the unit starts."""
    for host, server, deployment in servers(inventory):
        drain = host.slice.traffic.drain_seconds if host.slice.traffic else 0
        release = release_of(server.slice, Defaults(), drain)
        line, triton = start_line(release.files["run"], server.path), container(deployment, "triton")
        pod = deployment["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume.get("emptyDir", {}).get("sizeLimit") for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in triton["volumeMounts"]}
        service = named(texts(inventory), "Service", deployment["metadata"]["name"])["spec"]["ports"]
        inside = {port["name"]: port["containerPort"] for port in triton["ports"]}
        context = pod["securityContext"]
        assert (triton["image"], triton["args"][-len(line.words) :]) == (line.image, line.words)
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == line.user
        assert {port["port"]: inside[port["targetPort"]] for port in service} == line.published
        assert {variable["name"]: variable["value"] for variable in triton["env"]} == line.environment
        assert {name: volumes[name] for name in ("tmp", "shm")} == {
            "tmp": f"{line.tmpfs_mib}Mi",
            "shm": f"{line.shm_mib}Mi",
        }
        weights = {path: readonly for path, readonly in line.mounts.items() if "/weights/" in path}
        assert {path: readonly for path, readonly in mounts.items() if "/weights/" in path} == weights
        assert all(mounts[path] for path in ("/etc/passwd", "/run/enginehouse", "/var/lib/enginehouse/releases"))
        assert not mounts["/var/cache/enginehouse"]
        assert sum(triton["resources"]["limits"].values()) == len(line.devices)
        assert triton["securityContext"] == {
            "allowPrivilegeEscalation": "no-new-privileges" not in line.switches,
            "readOnlyRootFilesystem": "--read-only" in line.switches,
            "capabilities": {"drop": ["ALL"] if "--cap-drop ALL" in line.switches else []},
        }


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_probes_have_the_times_of_the_units_and_of_the_watchdog(inventory: str) -> None:
    """TimeoutStartSec, TimeoutStopSec, and the number of unanswered probes."""
    for host, server, deployment in servers(inventory):
        drain = host.slice.traffic.drain_seconds if host.slice.traffic else 0
        times = unit_times(release_of(server.slice, Defaults(), drain).unit_settings.content)
        triton, pod = container(deployment, "triton"), deployment["spec"]["template"]["spec"]
        assert triton["startupProbe"]["timeoutSeconds"] == times["TimeoutStartSec"]
        assert pod["terminationGracePeriodSeconds"] == times["TimeoutStopSec"]
        assert triton["startupProbe"]["exec"]["command"][-3:] == ["pod", "prove", server.slice.name]
        live = triton["livenessProbe"]
        assert live["exec"]["command"][-3:] == ["pod", "watch", server.slice.name]
        assert (live["periodSeconds"], live["failureThreshold"]) == (Health().watch_seconds, Health().misses)
        assert triton["lifecycle"]["preStop"]["exec"]["command"][-3:] == ["pod", "drain", server.slice.name]
        assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_pod_has_every_byte_of_the_release(inventory: str) -> None:
    """The files come from ConfigMaps at the release's paths, so the release's id is the host's; repair packages come
    by hash."""
    maps = {item["metadata"]["name"]: item["data"] for item in objects(texts(inventory), "ConfigMap")}
    for host, server, deployment in servers(inventory):
        drain = host.slice.traffic.drain_seconds if host.slice.traffic else 0
        release = release_of(server.slice, Defaults(), drain)
        volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
        carried = {
            item["path"]: maps[source["configMap"]["name"]][item["key"]].encode()
            for source in volumes["settings"]["projected"]["sources"]
            for item in source["configMap"]["items"]
        }
        pod = json.loads(carried.pop("pod.json"))
        assert carried == {f"release/{path}": content for path, content in release.files.items()}
        assert pod["release"] == release.id
        assert [wheel["sha256"] for wheel in pod["wheels"]] == [wheel.digest for wheel in release.wheels]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_the_gateway_has_the_hosts_settings_and_start_line(inventory: str) -> None:
    """Only addresses differ: it listens on all of its Pod's, and servers are Services with the plan's ports."""
    labels = host_labels(host.slice.host for host in rendered(inventory).hosts)
    services = {item["metadata"]["name"]: item for item in objects(texts(inventory), "Service")}
    for host in rendered(inventory).hosts:
        if not host.slice.gateway:
            continue
        name = f"gateway-{labels[host.slice.host]}"
        ours = json.loads(named(texts(inventory), "ConfigMap", name)["data"]["settings.json"])
        theirs = json.loads(json.dumps(settings(host.slice, host.slice.gateway)))
        settings_of(ours)
        assert {key: ours[key] for key in ours if key not in ("servers", "listen")} == {
            key: theirs[key] for key in theirs if key not in ("servers", "listen", "mutual")
        }
        assert (list(ours["servers"]), ours["listen"]["ports"]) == (list(theirs["servers"]), theirs["listen"]["ports"])
        for server in ours["servers"].values():
            service, _, port = server["grpc"].partition(":")
            assert int(port) in [item["port"] for item in services[service]["spec"]["ports"]]
            page = re.fullmatch(r"http://([a-z0-9-]+):(\d+)/ready/\S+", server["ready_url"])
            assert page and int(page[2]) in [item["port"] for item in services[page[1]]["spec"]["ports"]]
        start = re.search(r"(?m)^ExecStart=(.*) %i$", unit(host.slice.gateway).content)
        pod = named(texts(inventory), "Deployment", name)["spec"]["template"]["spec"]
        assert start
        for number, process in enumerate(pod["containers"]):
            assert process["command"] == [*shlex.split(start[1]), str(number)]
            assert process["ports"][0]["containerPort"] == host.slice.gateway.ports[number]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_no_object_is_larger_than_kubectl_applies(inventory: str) -> None:
    """The size is that of JSON in an annotation, with `<`, `>` and `&` escaped as Go does."""
    for item in objects(texts(inventory)):
        text = json.dumps(item, ensure_ascii=False)
        size = len(text.encode()) + 5 * sum(map(text.count, "<>&"))
        assert size < ANNOTATION_BYTES, item["metadata"]["name"]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_every_pod_is_restricted(inventory: str) -> None:
    """Kubernetes' restricted rules hold: no root, no capability, no privilege, seccomp, and harmless volumes only."""
    harmless = {"projected", "emptyDir", "persistentVolumeClaim", "secret"}
    for item in [*objects(texts(inventory), "Deployment"), *objects(texts(inventory), "Job")]:
        pod = item["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {key for volume in pod["volumes"] for key in volume} - {"name"} <= harmless
        for box in [*pod.get("initContainers", []), *pod["containers"]]:
            assert not box["securityContext"]["allowPrivilegeEscalation"]
            assert box["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_names_that_are_mounted_and_named_are_there() -> None:
    """Every claim and ConfigMap of a Pod is in the folder, and every Secret is on its page."""
    for inventory in INVENTORIES:
        written = texts(inventory)
        names = {(item["kind"], item["metadata"]["name"]) for item in objects(written)}
        pods = [*objects(written, "Deployment"), *objects(written, "Job")]
        for volume in (volume for item in pods for volume in item["spec"]["template"]["spec"]["volumes"]):
            sources = volume.get("projected", {}).get("sources", [])
            for source in sources:
                if "configMap" in source:
                    assert ("ConfigMap", source["configMap"]["name"]) in names
                else:
                    assert f"create secret generic {source['secret']['name']}" in written["README.md"]
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in names


def test_secrets_are_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of the hub and the key of the registry are read from Secrets; no value is written."""
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("NGC_API_KEY", "hunter2")
    declared = plan(hub=Hub(token=Secret.env("HF_TOKEN")), registry=Registry(key=Secret.env("NGC_API_KEY")))
    written = files(of_plan(declared), "enginehouse", Storage())
    (job,) = objects(written, "Job")
    secrets = [
        volume["secret"]["secretName"] for volume in job["spec"]["template"]["spec"]["volumes"] if "secret" in volume
    ]
    assert secrets == ["enginehouse-hub"]
    assert job["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "enginehouse-registry"}]
    assert objects(written, "Secret") == []
    assert not any("hunter2" in text for text in written.values())


def test_a_mig_instance_is_its_own_resource() -> None:
    """The resource is named as by the device plugin's mixed strategy."""
    resources = [container(deployment, "triton")["resources"]["limits"] for _, _, deployment in servers("mig")]
    assert {name for item in resources for name in item} <= {"nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb"} | {
        f"nvidia.com/mig-{profile}" for host in rendered("mig").hosts for profile in host.slice.mig
    }


def test_policies_and_page_are_reviewed() -> None:
    """The golden files have the policies, and the commands in their order."""
    same_as_golden("kubernetes/policies.yaml", texts("h100")["stage/policies.yaml"])
    page = re.sub(r"plan-[0-9a-f]{16}|(?<=fetch-h100-01-)[0-9a-f]{10}", "…", texts("h100")["README.md"])
    same_as_golden("kubernetes/README.txt", page)


def test_a_hub_of_a_private_authority_is_trusted(tmp_path: Path) -> None:
    """The authority's certificate is among the Job's settings, at the path that the settings name."""
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    written = files(of_plan(plan(hub=Hub(ca_file=str(tmp_path / "ca.crt")))), "enginehouse", Storage())
    (settings_map,) = [item["data"] for item in objects(written, "ConfigMap") if "hub-ca.crt" in item["data"]]
    assert settings_map["hub-ca.crt"] == "-----BEGIN CERTIFICATE-----\n"
    assert '"ca_file": "/etc/enginehouse/hub-ca.crt"' in settings_map["weights.gpt-oss-20b.json"]


@pytest.mark.parametrize(
    ("image", "named_as"),
    [
        ("10.0.0.9:5000/gateway:7", {"newName": "10.0.0.9:5000/gateway", "newTag": "7"}),
        (f"hub.example.internal/gateway:7@sha256:{'a' * 64}",
         {"newName": "hub.example.internal/gateway", "digest": f"sha256:{'a' * 64}"}),
    ],
)  # fmt: skip
def test_pods_run_the_gateways_image_that_its_operator_pushes(image: str, named_as: dict[str, str]) -> None:
    written = files(rendered("h100"), "enginehouse", Storage(), image)
    (renamed,) = yaml.safe_load(written["serve/kustomization.yaml"])["images"]
    assert renamed == {"name": "enginehouse-gateway", **named_as}
    tagged = image.partition("@")[0]
    build = f"docker build -t {tagged} -f gateway-image/Containerfile gateway-image"
    assert f"{build} && docker push {tagged}\n" in written["README.md"]


@pytest.mark.parametrize("image", ["gateway", "Gateway:1", "hub.example.internal/gateway:", "gateway:1; id"])
def test_an_image_of_the_gateway_without_a_tag_is_refused(image: str) -> None:
    words = ["export", "kubernetes", "inventories/h100.py", "-o", "never", "--gateway-image", image]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, Path("never").exists()) == (1, False)
    assert "try     --gateway-image registry.example.internal/enginehouse-gateway:1" in done.output


def test_an_engine_is_refused() -> None:
    """Engines are compiled and signed on hosts."""
    done = CliRunner().invoke(main, ["export", "kubernetes", "inventories/h100_engine.py", "-o", "never"])
    assert (done.exit_code, Path("never").exists()) == (1, False)
    assert 'try     path="pytorch"' in done.output


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    """A folder of an earlier export is replaced, without obsolete files."""
    (tmp_path / "mine.txt").write_text("kept")
    arguments = ["export", "kubernetes", "inventories/h100.py", "-o"]
    done = CliRunner().invoke(main, [*arguments, str(tmp_path)])
    assert (done.exit_code, [path.name for path in tmp_path.iterdir()]) == (1, ["mine.txt"])
    folder = tmp_path / "k8s"
    assert CliRunner().invoke(main, [*arguments, str(folder)]).exit_code == 0
    (folder / "serve" / "old.yaml").write_text("of an earlier plan")
    assert CliRunner().invoke(main, [*arguments, str(folder)]).exit_code == 0
    assert not (folder / "serve" / "old.yaml").exists()


def test_an_inventorys_knobs_reach_the_pods() -> None:
    """`triton_settings` and `health_settings`, as on a host."""
    data = {"h100-01": {f"triton{SUFFIX}": {"tmp_mib": 512}, f"health{SUFFIX}": {"misses": 9}}}
    written = files(of_plan(plan(), data=data), "enginehouse", Storage())
    deployment = named(written, "Deployment", "triton-main-h100-01")
    volumes = {volume["name"]: volume for volume in deployment["spec"]["template"]["spec"]["volumes"]}
    assert volumes["tmp"]["emptyDir"]["sizeLimit"] == "512Mi"
    assert container(deployment, "triton")["livenessProbe"]["failureThreshold"] == 9


def test_host_labels_are_dns_labels_and_differ() -> None:
    """Short if that is enough; addresses begin with a letter."""
    labels = host_labels(["a.x", "a.y", "b.x", "10.0.0.5", "LONG-" * 20])
    assert (labels["a.x"], labels["b.x"], labels["10.0.0.5"]) == ("a-x", "b", "host-10-0-0-5")
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{0,29}", label) for label in labels.values())
    assert len(set(labels.values())) == 5
