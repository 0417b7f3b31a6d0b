"""Judges a pod's container besides its image and command: forms, GPU, variables, ports, probes and /dev/shm."""

import re
from collections.abc import Iterator
from typing import Any

from deploy.catalog.containers import CONTAINER_KEYS
from deploy.catalog.names import slip_of
from deploy.linter.environment import DROPPED, HELD, judge_variable
from deploy.linter.fields import Fields, fields_of, rows_of, shown
from deploy.linter.findings import Call, Judged
from deploy.linter.fragments import fragment, variables
from deploy.linter.gpus import CERTAIN, is_shown, judge_absence, judge_count, judge_hidden, need_of
from deploy.linter.limits import know_shm
from deploy.linter.manifests import Container
from deploy.linter.ports import is_port, listening_ports
from deploy.linter.words import varies

GPU = "nvidia.com/gpu"
OF_GPUS = re.compile(r"gpu|nvidia\.com/|\bmig-|accelerator|amd\.com/|neuron|habana|tpu", re.IGNORECASE)
MISSPELT = re.compile(r"nvidia\.com/(?:gpus|GPU|GPUs|Gpu)|nvidia[/.-]gpus?|nvidia|gpus?", re.IGNORECASE)
"""Names that people write for `nvidia.com/gpu`."""
TRITON_PATHS = re.compile(r"/v2(?:/health/(?:live|ready)|/models/[^/]+(?:/versions/[^/]+)?/ready)?|/metrics")
SEVERAL_PODS = frozenset(["leaderWorkerTemplate", "rayClusterConfig", "workerGroupSpecs", "mpiReplicaSpecs"])
"""Parts of an object that splits one server over several pods."""
TEMPLATE = re.compile(r"Runtime$|Config$|Template$")
"""Kinds of objects whose containers get their GPUs from another object."""
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def judge_container(container: Container, call: Call | None) -> Judged:
    """Every finding about the container's own settings, and the corrected settings."""
    judged, mended = Judged(), dict[str, Any]()
    need = need_of(container.image, call)
    _keys(judged, container, mended)
    _texts(judged, container, mended)
    _environment(judged, container, mended, need)
    _gpus(judged, container, mended, need, call)
    _ports(judged, container, mended)
    if call and call.program == "tritonserver":
        _probes(judged, container, mended, call)
        _shared_memory(judged, container)
    judged.right = fragment(container, mended)
    return judged


def _keys(judged: Judged, container: Container, mended: dict[str, Any]) -> None:
    for key in (key for key in container.settings if key not in CONTAINER_KEYS):
        near = slip_of(key, CONTAINER_KEYS)
        if near:
            judged.add(
                "unknown-setting",
                f"a container has no field `{key}`",
                seen=f"line {container.line_of(key)}: {key}",
                wanted="a field of a container",
                attempt=f"did you mean `{near}`?",
            )
            if near not in container.settings:
                mended[near] = container.settings[key]


def _texts(judged: Judged, container: Container, mended: dict[str, Any]) -> None:
    for key in ("command", "args"):
        value = container.settings.get(key)
        if isinstance(value, str) and value and not varies(value) and "{{" not in value:
            judged.add(
                "no-list",
                f"`{key}` of a container is a list; Kubernetes runs no shell over a text",
                seen=f"line {container.line_of(key)}: {key}: {value.strip().splitlines()[0][:60]}",
                wanted="a list of words",
                attempt=f"{key}: [{', '.join(value.split()[:3])}, …]",
            )
            mended[key] = ["/bin/sh", "-c", value] if key == "command" else value.split()
        rows = rows_of(value)
        numbers = [shown(row) for row in rows if isinstance(row, int | bool)]
        if numbers:
            judged.add(
                "text-wanted",
                f"`{key}` takes texts: Kubernetes refuses {numbers[0]} without quotes",
                seen=f"line {container.line_of(key)}: {', '.join(numbers)}",
                wanted="each word a text",
                attempt=f'"{numbers[0]}"',
            )
            mended[key] = [shown(row) for row in rows]


def _environment(judged: Judged, container: Container, mended: dict[str, Any], need: tuple[str, str]) -> None:
    rows = container.settings.get("env")
    right: list[Any] = []
    before = len(judged.findings)
    if isinstance(rows, Fields):
        judged.add(
            "no-list",
            "`env` of a container is a list of names and values",
            seen=f"line {container.line_of('env')}: env with {', '.join(list(rows)[:3])}",
            wanted="- name: NAME, and value: VALUE",
            attempt="as below",
        )
    named = {shown(row.get("name")): row for row in rows if isinstance(row, Fields)} if isinstance(rows, list) else {}
    for name, value, is_written in variables(rows):
        row = dict(named.get(name) or {"name": name, "value": value})
        if is_written:
            if judge_hidden(judged, name, value, need, seen=f"{name}={value}"):
                continue
            kept = "" if "{{" in value or "$(" in value else judge_variable(judged, name, value, place="pod")
            if kept == DROPPED:
                continue
            if kept == HELD:
                row = {"name": name, "valueFrom": {"secretKeyRef": {"name": "secrets", "key": name}}}
            elif isinstance(row.get("value"), int | bool):
                judged.add(
                    "text-wanted",
                    f"the value of {name} is a text: Kubernetes refuses a number or true without quotes",
                    seen=f"{name}: {value}",
                    wanted=f'value: "{value}"',
                    attempt=f'value: "{value}"',
                )
                row["value"] = value
        right.append(row)
    if len(judged.findings) > before:
        mended["env"] = right


def _gpus(
    judged: Judged, container: Container, mended: dict[str, Any], need: tuple[str, str], call: Call | None
) -> None:
    before = len(judged.findings)
    resources = fields_of(container.settings, "resources")
    limits, requests = fields_of(resources, "limits"), fields_of(resources, "requests")
    right = {"limits": dict(limits), "requests": dict(requests)}
    for part, rows in (("limits", limits), ("requests", requests)):
        for key in list(rows):
            if MISSPELT.fullmatch(key) and key != GPU:
                _resource(judged, f"no resource is named `{key}`", f"{part}: {key}", f"{GPU}: {shown(rows[key])}")
                right[part][GPU] = right[part].pop(key)
    if OF_GPUS.search(" ".join(resources.keys() - {"limits", "requests", "claims"})):
        key = next(key for key in resources if key not in ("limits", "requests", "claims") and OF_GPUS.search(key))
        _resource(judged, "`resources` declares GPUs below `limits` only", f"resources: {key}", f"limits: {{{GPU}: 1}}")
        right["limits"].setdefault(GPU, resources[key])
    requested, granted = right["requests"].get(GPU), right["limits"].get(GPU)
    if requested is not None and granted is None:
        _resource(
            judged, "a GPU that is requested has to be a limit too", f"requests: {shown(requested)}", f"{GPU} in limits"
        )
        right["limits"][GPU] = requested
    elif (
        requested is not None
        and shown(requested) != shown(granted)
        and not varies(f"{shown(requested)}{shown(granted)}")
    ):
        seen = f"requests {shown(requested)}, limits {shown(granted)}"
        _resource(judged, "request and limit of a GPU are equal: GPUs are not overcommitted", seen, "the limit alone")
        del right["requests"][GPU]
    number = shown(right["limits"].get(GPU))
    if number and not varies(number) and "{{" not in number and not number.isdecimal():
        _resource(judged, f"a GPU is given whole: `{number}` is not a number of GPUs", f"{GPU}: {number}", f"{GPU}: 1")
        right["limits"][GPU] = 1
        right["requests"].pop(GPU, None)
    if (
        need[0]
        and not TEMPLATE.search(shown(container.owner.get("kind")))
        and not _gives(container, {**right["limits"], **right["requests"]})
    ):
        judge_absence(judged, need, seen=f"no {GPU} among the limits", attempt=f"resources: {{limits: {{{GPU}: 1}}}}")
        if need[0] != CERTAIN:
            return
        right["limits"][GPU] = 1
    elif number.isdecimal() and not SEVERAL_PODS & fields_of(container.owner, "spec").keys():
        judge_count(judged, int(number), call, seen=f"{GPU}: {number}", attempt=f"{GPU}: {{ranks}}")
        if judged.findings and judged.findings[-1].kind == "fewer-gpus-than-ranks":
            right["limits"][GPU] = int(judged.findings[-1].attempt.rpartition(" ")[2])
            right["requests"].pop(GPU, None)
    if len(judged.findings) > before and right["limits"]:
        mended["resources"] = {part: rows for part, rows in right.items() if rows}


def _resource(judged: Judged, problem: str, seen: str, attempt: str) -> None:
    judged.add("gpu-form", problem, seen=seen, wanted=f"{GPU} in limits, a whole number", attempt=attempt)


def _gives(container: Container, rows: dict[str, Any]) -> bool:
    """True if a pod's container gets a GPU, or may get one by its runtime, its claims or a template."""
    counted = any(OF_GPUS.search(key) and shown(value) != "0" for key, value in rows.items())
    resources = container.settings.get("resources")
    return (
        counted
        or "claims" in fields_of(container.settings, "resources")
        or shown(container.pod.get("runtimeClassName")).startswith("nvidia")
        or any(is_shown(name, value) for name, value, _ in variables(container.settings.get("env")))
        or (isinstance(resources, str) and bool(resources))
        or any("{{" in key for key in container.settings)
    )


def _ports(judged: Judged, container: Container, mended: dict[str, Any]) -> None:
    rows = container.settings.get("ports")
    right: list[Any] = []
    before = len(judged.findings)
    for row in rows_of(rows):
        written = fields_of(row).get("containerPort", row if not isinstance(row, Fields) else None)
        text = shown(written)
        if varies(text) or "{{" in text:
            right.append(row)
            continue
        if not isinstance(row, Fields) or not isinstance(written, int) or not is_port(text):
            judged.add(
                "no-port",
                f"containerPort is a number, and Kubernetes refuses the text `{text}`"
                if is_port(text)
                else f"`{text}` is not a port of a container",
                seen=f"line {container.line_of('ports')}: {text}",
                wanted="containerPort: a number without quotes, from 1 to 65535",
                attempt=f"containerPort: {text if is_port(text) else 8000}",
            )
            name = {"name": row["name"]} if isinstance(row, Fields) and "name" in row else {}
            row = name | {"containerPort": int(text) if is_port(text) else 8000}
        right.append(row)
    if len(judged.findings) > before:
        mended["ports"] = right


def _probes(judged: Judged, container: Container, mended: dict[str, Any], call: Call) -> None:
    """Adds findings for probes that Triton answers with 404, or that send HTTP to Triton's gRPC port."""
    listening = listening_ports(call.args)
    for name in PROBES:
        request = fields_of(container.settings, name, "httpGet")
        path, port = shown(request.get("path")), shown(request.get("port"))
        right = dict(request)
        if path and not varies(path) and not TRITON_PATHS.fullmatch(path.partition("?")[0].rstrip("/") or "/"):
            judged.add(
                "no-such-endpoint",
                f"Triton has no endpoint {path}: the probe fails for ever",
                seen=f"{name}: {path}",
                wanted="/v2/health/live or /v2/health/ready",
                attempt="path: /v2/health/ready",
            )
            right["path"] = "/v2/health/ready"
        if port.isdecimal() and listening and port not in listening:
            judged.add(
                "silent-port",
                f"the probe asks port {port}, on which this tritonserver does not listen",
                seen=f"{name}: port: {port}",
                wanted=f"one of {', '.join(sorted(listening))}",
                attempt=f"port: {min(listening)}",
            )
            right["port"] = int(min(listening))
        if right != dict(request):
            mended[name] = dict(fields_of(container.settings, name)) | {"httpGet": right}


def _shared_memory(judged: Judged, container: Container) -> None:
    mounts = list(_paths(container.settings.get("volumeMounts")))
    if "/dev/shm" not in mounts and not any(varies(path) or "{{" in path for path in mounts):
        attempt = "an emptyDir {medium: Memory, sizeLimit: 2Gi}, mounted on /dev/shm"
        know_shm(judged, seen="no volume on /dev/shm", attempt=attempt, owner="a pod has")


def _paths(mounts: object) -> Iterator[str]:
    for row in rows_of(mounts):
        yield shown(fields_of(row).get("mountPath"))
