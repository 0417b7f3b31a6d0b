"""Finds a place for every key of a compose service, of a pod's container, of its pod and of the object around it."""

from collections.abc import Iterator, Mapping

from deploy.linter.compose import port_text
from deploy.linter.fields import Fields, fields_of, rows_of, shown
from deploy.linter.gpus import CDI
from deploy.linter.manifests import COMPOSE, Container
from deploy.linter.words import Word
from deploy.migrate.container_options import (
    CACHE_DIRECTORY,
    CONTAINER,
    HEALTH,
    HOST,
    IMAGE,
    REGISTRY,
    STORE,
    gpus_of,
    publish,
    volume_of,
)
from deploy.migrate.findings import Finding
from deploy.migrate.options import MANY_HOSTS, words_of
from deploy.migrate.places import Settings
from deploy.migrate.variables import filled

PLAIN_KEYS = words_of(
    """
    container_name restart ipc shm_size ulimits network_mode networks privileged cap_add security_opt user
    runtime extends profiles init stdin_open tty hostname logging stop_grace_period entrypoint command working_dir
    labels pull_policy platform mem_limit cpus read_only extra_hosts
    """
)
OF_A_CONTAINER = {
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), HEALTH),
    **dict.fromkeys(("securityContext", "tty", "stdin", "terminationMessagePath", "workingDir"), CONTAINER),
    **dict.fromkeys(("imagePullPolicy",), "the image is pinned by its digest and pulled once"),
    "lifecycle": "Server(stop_seconds=…) and the gateway's drain",
    **dict.fromkeys(("modelFormat", "runtime", "protocolVersion"), "the server is Triton with TensorRT-LLM"),
}
OF_A_POD = {
    **dict.fromkeys(("nodeSelector", "tolerations", "affinity", "runtimeClassName"), "the inventory names its hosts"),
    "topologySpreadConstraints": "the inventory names its hosts",
    "terminationGracePeriodSeconds": "Server(stop_seconds=…) and Gateway(drain_seconds=…)",
    **dict.fromkeys(("hostIPC", "hostNetwork", "shareProcessNamespace", "securityContext"), CONTAINER),
    "restartPolicy": CONTAINER,
    "imagePullSecrets": REGISTRY,
    "storage": STORE,
    "router": "a Balancer of the inventory passes requests on",
    "expose": "Gateway(ports=…)",
}
SECRETS = "secrets are the inventory's: Secret.env(…), or a vault"
OWN_KEYS = frozenset(
    words_of(
        """
        model minReplicas maxReplicas image resources replicas env mainContainer container name inputs outputs
        parallelism template
        """
    )
)
"""Keys of a pod or of a custom resource whose content has findings of its own."""


def of_service(container: Container, call: Settings, listening: str) -> Iterator[Finding]:
    """A finding for every key of a service of a compose file, and for the other services."""
    settings = container.settings
    for key, value in settings.items():
        if key in ("environment", "command", "entrypoint"):
            continue
        if key == "ports":
            yield from (publish(call, _port_text(row), listening) for row in rows_of(value))
        elif key == "volumes":
            yield from (volume_of(call, f"volume {_volume_text(row)}", _volume_text(row)) for row in rows_of(value))
        elif key in ("deploy", "gpus"):
            yield from _of_deploy(settings, key, call)
        elif key == "devices":
            for row in rows_of(value):
                name = shown(row)
                by_cdi = name.rpartition(CDI)[2] if CDI in name else ""
                yield gpus_of(call, f"--device {name}", by_cdi) if by_cdi else _unread(f"device {name}")
        elif key == "image":
            yield Finding(f"image {shown(value)}", place=IMAGE)
        elif key == "healthcheck":
            yield Finding(key, place=HEALTH)
        elif key in PLAIN_KEYS:
            yield Finding(key, place=CONTAINER)
        elif key == "env_file":
            yield Finding(key, why="the file was not read: give its variables as words")
        elif key == "secrets":
            yield Finding(key, why=SECRETS)
        else:
            yield _unread(key)
    for name in fields_of(container.owner, "services"):
        if name != container.name:
            yield Finding(f"service {name}", why=HOST)


def _unread(key: str) -> Finding:
    return Finding(key, why="not read here", is_known=False)


def _of_deploy(settings: Fields, key: str, call: Settings) -> Iterator[Finding]:
    """GPUs that a service reserves, and its replicas."""
    if key == "gpus":
        requests = rows_of(settings[key])
        if not requests:
            yield gpus_of(call, f"gpus: {shown(settings[key])}", shown(settings[key]))
    else:
        deploy = fields_of(settings, "deploy")
        requests = rows_of(fields_of(deploy, "resources", "reservations").get("devices"))
        for name in (name for name in deploy if name != "resources"):
            if name == "replicas":
                yield _replicas(call, shown(deploy[name]))
            else:
                yield Finding(f"deploy.{name}", place=CONTAINER)
        for name in (name for name in fields_of(deploy, "resources") if name != "reservations"):
            yield Finding(f"deploy.resources.{name}", why=HOST)
    for request in requests:
        ids, count = fields_of(request).get("device_ids"), shown(fields_of(request).get("count")) or "all"
        if isinstance(ids, list):
            names = ",".join(shown(row) for row in ids)
            yield gpus_of(call, f"device_ids: {names}", f"device={names}")
        else:
            yield gpus_of(call, f"count: {count}", "all" if count == "-1" else count)


def _replicas(call: Settings, text: str) -> Finding:
    if not text.isdecimal() or not 0 < int(text) <= 64:
        return Finding(f"replicas: {text}", why="a host for each replica: name them in `hosts`")
    call.hosts = max(call.hosts, int(text))
    return Finding(f"replicas: {text}", place=f"{text} host{'s' if text != '1' else ''} with the same server")


def of_pod(container: Container, call: Settings, listening: str) -> Iterator[Finding]:
    """A finding for every key of a container, of its pod and of the object around it."""
    for key, value in container.settings.items():
        if key in ("env", "command", "args", "name"):
            continue
        if key == "ports":
            for row in rows_of(value):
                inside, outside = (shown(fields_of(row).get(name)) for name in ("containerPort", "hostPort"))
                yield publish(call, f"{outside or inside}:{inside}", listening)
        elif key == "resources":
            yield from _of_resources(fields_of(value), call)
        elif key == "volumeMounts":
            paths = [shown(fields_of(row).get("mountPath")) for row in rows_of(value)]
            yield from (_mounted(container, call, path) for path in paths)
        elif key == "image":
            yield Finding(f"image {shown(value)}", place=IMAGE)
        elif key in OF_A_CONTAINER:
            yield Finding(key, place=OF_A_CONTAINER[key])
        elif key == "envFrom":
            yield Finding(key, why="the ConfigMap or Secret was not read: give its variables as words")
        elif key != "storageUri":
            yield _unread(key)
    for key in container.pod:
        if key in OF_A_POD:
            yield Finding(f"pod: {key}", place=OF_A_POD[key])
        elif key in ("containers", "initContainers"):
            names = [shown(fields_of(row).get("name")) for row in rows_of(container.pod[key])]
            yield from (Finding(f"container {name}", why=HOST) for name in names if name != container.name)
        elif key == "volumes":
            for row in map(fields_of, rows_of(container.pod[key])):
                place = CONTAINER if "emptyDir" in row else STORE
                yield Finding(f"volume {shown(row.get('name'))}", place=place)
        elif key == "authSecret":
            yield Finding(f"pod: {key}", why=SECRETS)
        elif key not in OWN_KEYS:
            yield _unread(f"pod: {key}")
    yield from _of_owner(container, call)


def _of_owner(container: Container, call: Settings) -> Iterator[Finding]:
    """Replicas of the object, and a group of pods over which one model is split."""
    spec = fields_of(container.owner, "spec")
    for place in (container.owner, spec, fields_of(spec, "predictor")):
        for key in ("replicas", "minReplicas"):
            if key in place:
                yield _replicas(call, shown(place[key]))
        if "maxReplicas" in place:
            yield Finding(
                f"maxReplicas: {shown(place['maxReplicas'])}",
                why="hosts are listed by name; none is added automatically",
            )
    group = fields_of(spec, "leaderWorkerTemplate")
    if group:
        size = shown(group.get("size")) or "1"
        yield (
            Finding(f"size: {size}", place="a server of one host")
            if size == "1"
            else Finding(f"size: {size}", why=MANY_HOSTS)
        )
    known = OWN_KEYS | {"selector", "predictor", "leaderWorkerTemplate", "containers"}
    for key in (key for key in spec if key not in known):
        if key in OF_A_POD and spec is not container.pod:
            yield Finding(key, place=OF_A_POD[key])
        elif spec is not container.pod:
            is_known = key in ("strategy", "updateStrategy", "serviceName", "minReadySeconds", "revisionHistoryLimit")
            yield Finding(key, place="Rollout(…): waves behind gates") if is_known else _unread(key)


def _mounted(container: Container, call: Settings, path: str) -> Finding:
    """The finding about a mount; a claim with unknown files holds weights that the operator provides."""
    if CACHE_DIRECTORY.search(path):
        return Finding(f"mount {path}", place=STORE)
    rows = [fields_of(row) for row in rows_of(container.settings.get("volumeMounts"))]
    name = next((shown(row.get("name")) for row in rows if shown(row.get("mountPath")) == path), "")
    volumes = [fields_of(row) for row in rows_of(container.pod.get("volumes"))]
    hosted = [shown(fields_of(row, "hostPath").get("path")) for row in volumes if shown(row.get("name")) == name]
    if hosted and hosted[0]:
        call.mounts[path] = hosted[0]
        return Finding(f"mount {path}", place=f"Weights.local({hosted[0]!r}), if the weights lie there")
    return Finding(f"mount {path}", why="only the weights are brought to a host: Weights.local(…), if they lie there")


def _of_resources(resources: Mapping[str, object], call: Settings) -> Iterator[Finding]:
    """The GPUs among the limits, and the container's other resources."""
    seen: set[str] = set()
    for part in ("limits", "requests"):
        for key, value in fields_of(resources.get(part)).items():
            if key in seen:
                continue
            seen.add(key)
            if key == "nvidia.com/gpu":
                yield gpus_of(call, f"{key}: {shown(value)}", shown(value))
            elif key.startswith("nvidia.com/mig-"):
                yield Finding(f"{key}: {shown(value)}", place="Machine(mig=…)")
            else:
                yield Finding(f"{key}: {shown(value)}", why=HOST)


def _port_text(row: object) -> str:
    text = port_text(row)
    return filled(Word(text, text), {}).text


def _volume_text(row: object) -> str:
    return f"{shown(row.get('source'))}:{shown(row.get('target'))}" if isinstance(row, Fields) else shown(row)


def of_container(container: Container, call: Settings, listening: str) -> Iterator[Finding]:
    yield from (of_service if container.kind == COMPOSE else of_pod)(container, call, listening)
