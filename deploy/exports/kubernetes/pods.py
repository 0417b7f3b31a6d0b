"""The Deployment of a server: the containers of its host's start lines, and the counterparts of the host's units.

prepare      prepare.sh: puts the release at its path, makes a key, and ends with an error without weights
page         the traffic service: /ready/SERVER
triton       run; its startup probe is `host prove`, its liveness probe is that of the watchdog
llm          llm/run, started after Triton as on a host: Triton is then a sidecar whose startup probe has to pass first
"""

from typing import Any

from deploy.exports.kubernetes.files import volume
from deploy.exports.kubernetes.names import READY_PORT, Manifest, labels, manifest, object_name
from deploy.exports.served import Served, ServedHost, ServedServer
from deploy.models.cards import planned_card
from deploy.models.files import ROOT, WEIGHTS
from deploy.models.runtimes import OF_THE_RELEASE
from deploy.slices.container import ContainerSlice

RELEASES, SERVERS, RUN, CACHE = f"{ROOT}/releases", f"{ROOT}/servers", "/run/enginehouse", "/var/cache/enginehouse"
START = 'ulimit -c 0; ulimit -S -s 65536; rm -f {proof}; exec "$0" "$@"'
"""Command that starts a container: without core files, which would hold prompts, and with a large stack, both as far as
a process may set them. It removes the readiness proof of an earlier start before any program listens."""
PORTS = ("http", "grpc", "metrics")
PAGE_PERIOD_SECONDS = 5
HEADROOM_MIB = 8192
"""MiB that a Pod requests for Triton and its backends, beside shared memory and /tmp; an overlay may change it."""


def host_program(served: Served, *words: str) -> list[str]:
    return ["python3", "-B", f"{served.programs_path}/host", "pod", *words]


def deployment(
    served: Served,
    host: ServedHost,
    server: ServedServer,
    label: str,
    namespace: str,
    programs: list[dict[str, Any]],
    sources: list[dict[str, Any]],
) -> Manifest:
    """The Deployment of one server of one host. `sources` are the sources of the volume with settings and release."""
    mine, name = server.slice, server.slice.name
    marks = labels("triton", label, name)
    page = _ours("page", served, server, host_program(served, "serve", name))
    page |= {"restartPolicy": "Always", "ports": [{"name": "ready", "containerPort": READY_PORT}]}
    page["livenessProbe"] = {"tcpSocket": {"port": READY_PORT}, "periodSeconds": 20, "failureThreshold": 3}
    triton = _triton(served, host, server)
    before, serving = [_prepare(served, server), page], [triton]
    if server.llm:
        before, serving = [*before, triton | {"restartPolicy": "Always"}], [_llm(served, host, server, server.llm)]
    pod = {
        **pod_head(server.triton.uid),
        "terminationGracePeriodSeconds": server.stop_seconds,
        # No DNS: the container may not reach the outside, and the host's resolver would be a way out.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        **placed(host),
        **({"imagePullSecrets": [{"name": "enginehouse-registry"}]} if host.slice.registry.key else {}),
        "initContainers": before,
        "containers": serving,
        "volumes": _volumes(server, object_name("weights", label), programs, sources),
    }
    return manifest(
        "apps/v1",
        "Deployment",
        object_name("triton", name, label),
        namespace,
        marks,
        spec={
            "replicas": 1,
            "revisionHistoryLimit": host.keep_releases,
            "progressDeadlineSeconds": server.stop_seconds
            + server.start_seconds * (2 if mine.standalone_llm else 1)
            + 600,
            # The old Pod holds the GPUs, so no new Pod can start beside it.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "selector": {"matchLabels": marks},
            "template": template(host, marks | {"enginehouse/release": server.release}, pod),
        },
    )


def template(host: ServedHost, marks: dict[str, str], pod: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": marks, "annotations": {"enginehouse/host": host.slice.host}}, "spec": pod}


def pod_head(uid: int, group_of_files: int = 0) -> dict[str, Any]:
    """Settings of every Pod: a user without rights, no token of the API server, no variables of other Services.

    The files of volumes belong to `group_of_files`, which is the same for all Pods that share a volume.
    """
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": uid,
            "runAsGroup": uid,
            "fsGroup": group_of_files or uid,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def confined() -> dict[str, Any]:
    """The equivalent of the start line's --read-only, --cap-drop ALL and no-new-privileges."""
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def mount(name: str, path: str, sub: str = "", *, writable: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "mountPath": path,
        **({"subPath": sub} if sub else {}),
        **({} if writable else {"readOnly": True}),
    }


def image_of(container: ContainerSlice, origin: str) -> str:
    """The image as its registry names it; hosts that share files would pull from their own loopback instead."""
    return origin if container.image.startswith("127.0.0.1:") else container.image


def _ours(name: str, served: Served, server: ServedServer, command: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": image_of(server.triton, server.slice.image.origin_reference),
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "securityContext": confined(),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [
            mount("programs", served.programs_path),
            mount("settings", served.settings_path),
            mount("servers", SERVERS, writable=True),
            mount("releases", RELEASES),
        ],
    }


def _prepare(served: Served, server: ServedServer) -> dict[str, Any]:
    prepare = _ours("prepare", served, server, host_program(served, "prepare", server.slice.name))
    prepare["volumeMounts"] = [
        *prepare["volumeMounts"][:-1],
        mount("releases", RELEASES, writable=True),
        mount("run", RUN, writable=True),
        mount("weights", WEIGHTS),
    ]
    return prepare


def _triton(served: Served, host: ServedHost, server: ServedServer) -> dict[str, Any]:
    name, origin = server.slice.name, server.slice.image.origin_reference
    passwd = f"{server.path.removeprefix(f'{RELEASES}/')}/passwd"
    container = _serving(served, server, server.triton, origin)
    container["args"] = ["/bin/bash", "-c", _start(name, "proof.json"), *_words(server, server.triton)]
    container["ports"] = [
        {"name": port, "containerPort": inside} for port, (_, inside) in zip(PORTS, server.triton.ports, strict=True)
    ]
    container["resources"] = _resources(host, server, server.triton, holds_gpus=not server.llm)
    container["volumeMounts"] += [
        mount("releases", RELEASES),
        mount("run", RUN),
        mount("releases", "/etc/passwd", passwd),
    ]
    container |= _probes(served, host, server, "", len(server.slice.in_triton))
    container["readinessProbe"] = _page_probe(name)
    container["lifecycle"] = {"preStop": {"exec": {"command": host_program(served, "drain", name)}}}
    return container


def _llm(served: Served, host: ServedHost, server: ServedServer, described: ContainerSlice) -> dict[str, Any]:
    assert server.slice.standalone_llm
    _, runtime = server.slice.standalone_llm
    passwd = f"{server.path.removeprefix(f'{RELEASES}/')}/passwd"
    container = _serving(served, server, described, runtime.image.origin_reference)
    start = _start(server.slice.name, "proof-llm.json")
    container["command"] = ["/bin/bash", "-c", start, *described.program, *_words(server, described)]
    container["ports"] = [{"name": "llm", "containerPort": described.ports[0][1]}]
    container["resources"] = _resources(host, server, described, holds_gpus=True)
    container["volumeMounts"] += [mount("releases", RELEASES), mount("releases", "/etc/passwd", passwd)]
    container |= _probes(served, host, server, "-llm", 1)
    container["readinessProbe"] = _page_probe(server.slice.name)
    drain = host_program(served, "drain", server.slice.name)
    container["lifecycle"] = {"preStop": {"exec": {"command": drain}}}
    return container


def _start(server: str, proof: str) -> str:
    return START.format(proof=f"{SERVERS}/{server}/{proof}")


def _words(server: ServedServer, container: ContainerSlice) -> list[str]:
    return [word.replace(OF_THE_RELEASE, server.path) for word in container.arguments]


def _serving(served: Served, server: ServedServer, container: ContainerSlice, origin: str) -> dict[str, Any]:
    """The fields that both kinds of containers have."""
    of_llm = "-llm" if container is server.llm else ""
    return {
        "name": "llm" if of_llm else "triton",
        "image": image_of(container, origin),
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": name, "value": value.replace(OF_THE_RELEASE, server.path)} for name, value in container.environment
        ],
        "securityContext": confined(),
        "volumeMounts": [
            mount("programs", served.programs_path),
            mount("settings", served.settings_path),
            mount("servers", SERVERS, writable=True),
            mount(f"tmp{of_llm}", "/tmp", writable=True),
            mount(f"shm{of_llm}", "/dev/shm", writable=True),
            mount(f"cache{of_llm}", CACHE, writable=True),
            *(mount("weights", path, path.removeprefix(f"{WEIGHTS}/")) for path in container.directories),
        ],
    }


def _probes(served: Served, host: ServedHost, server: ServedServer, of: str, models: int) -> dict[str, Any]:
    """Probes: started once every model has answered, restarted if a model is silent `misses` times in a row."""
    name = server.slice.name
    return {
        "startupProbe": {
            "exec": {"command": host_program(served, f"prove{of}", name)},
            "timeoutSeconds": server.start_seconds,
            "failureThreshold": 1,
        },
        "livenessProbe": {
            "exec": {"command": host_program(served, f"watch{of}", name)},
            "periodSeconds": host.watch_seconds,
            # A test request and two readings of counters for each model.
            "timeoutSeconds": 3 * host.answer_seconds * max(models, 1),
            "failureThreshold": host.misses,
        },
    }


def _page_probe(server: str) -> dict[str, Any]:
    return {
        "httpGet": {"path": f"/ready/{server}", "port": READY_PORT},
        "periodSeconds": PAGE_PERIOD_SECONDS,
        "timeoutSeconds": PAGE_PERIOD_SECONDS,
        "failureThreshold": 2,
    }


def _resources(
    host: ServedHost, server: ServedServer, container: ContainerSlice, *, holds_gpus: bool
) -> dict[str, Any]:
    """Requests and limits of the container: GPUs by the device plugin's resource, memory unlimited as on a host."""
    requests = {"cpu": "2", "memory": f"{container.shm_mib + container.tmp_mib + HEADROOM_MIB}Mi"}
    count = {gpu_resource(host, server): len(server.slice.devices)} if holds_gpus and server.slice.devices else {}
    return {"requests": requests | count, "limits": count} if count else {"requests": requests}


def gpu_resource(host: ServedHost, server: ServedServer) -> str:
    """`nvidia.com/gpu`, or the MIG instance's name of the device plugin's mixed strategy."""
    _, _, instance = server.slice.devices[0].partition(":")
    return f"nvidia.com/mig-{host.slice.mig[int(instance)]}" if instance else "nvidia.com/gpu"


def placed(host: ServedHost) -> dict[str, Any]:
    """Selects nodes with the declared card, by the label of GPU feature discovery."""
    if not host.slice.machine.gpus:
        return {}
    product = f"NVIDIA-{planned_card(host.slice.machine).smi.replace(' ', '-')}"
    expressions = [{"key": "nvidia.com/gpu.product", "operator": "In", "values": [product]}]
    node = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    }
    return {
        "affinity": {"nodeAffinity": node},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }


def _volumes(
    server: ServedServer, claim: str, programs: list[dict[str, Any]], sources: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    containers = {"": server.triton, **({"-llm": server.llm} if server.llm else {})}
    own: list[dict[str, Any]] = []
    for suffix, container in containers.items():
        own += [_memory(f"tmp{suffix}", container.tmp_mib), _memory(f"shm{suffix}", container.shm_mib)]
        own += [{"name": f"cache{suffix}", "emptyDir": {}}]
    return [
        {"name": "weights", "persistentVolumeClaim": {"claimName": claim}},
        volume("settings", sources),
        volume("programs", programs),
        {"name": "releases", "emptyDir": {}},
        {"name": "servers", "emptyDir": {}},
        {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        *own,
    ]


def _memory(name: str, mib: int) -> dict[str, Any]:
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": f"{mib}Mi"}}
