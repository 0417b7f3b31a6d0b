"""A YAML mapping with its lines, and containers written under other keys than compose's or a pod's.

Forms: Ansible's `docker_container`, compose's `extends`, the custom resources of KServe (LLMInferenceService), NIM
Operator (NIMService) and Dynamo (`mainContainer`), and the templates of Argo Workflows. Seen in public files of
2026-11-28.
"""

from collections.abc import Iterator
from typing import Any

from deploy.catalog.containers import SERVICE_KEYS
from deploy.linter.words import pasted

ANSIBLE = {"env": "environment", "ipc_mode": "ipc", "published_ports": "ports", "restart_policy": "restart"}
"""Keys of Ansible's `docker_container`, and the same keys of compose."""
PARALLELISM = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
}
MOST_EXTENDED = 16
"""Services in a row that extend each other; those behind them are not read."""
KSERVE_IMAGE = "kserve/vllm-openai"
"""The image of a container that an LLMInferenceService does not name: KServe's own build of vLLM."""


class Fields(dict[str, Any]):
    """A YAML mapping with the line of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}

    def put(self, key: str, value: object, line: int) -> None:
        """Sets a key that is on this line."""
        self[key] = value
        self.lines[key] = line


def fields_of(value: object, *path: str) -> Fields:
    """The mapping at a path of keys; empty without a mapping there."""
    for key in path:
        value = value.get(key) if isinstance(value, Fields) else None
    return value if isinstance(value, Fields) else Fields()


def rows_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def shown(value: object) -> str:
    """A scalar in a form that YAML reads as the same scalar."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or isinstance(value, dict | list) else str(value)


def of_ansible(task: Fields) -> Fields:
    """The settings of Ansible's `docker_container` under compose's keys."""
    fields = Fields()
    for key, value in task.items():
        name = "gpus" if key == "device_requests" else ANSIBLE.get(key, key)
        if name in SERVICE_KEYS:
            fields.put(name, value, task.lines[key])
    for request in rows_of(fields.get("gpus")):
        sets = request.get("capabilities") if isinstance(request, Fields) else None
        if isinstance(sets, list) and sets and isinstance(sets[0], list):
            request["capabilities"] = sets[0]
    return fields


def services_of(document: Fields) -> Iterator[tuple[str, Fields]]:
    """The services of a compose file, each with the settings that it extends; models of a profile are left out."""
    services = fields_of(document, "services")
    extended = {_extended(service) for service in services.values()}
    for name, service in services.items():
        if isinstance(service, Fields) and not (name in extended and service.get("profiles")):
            yield name, _whole(service, services, {name})


def _extended(service: object) -> str:
    value = service.get("extends") if isinstance(service, Fields) else None
    return shown(value.get("service")) if isinstance(value, Fields) else shown(value)


def _whole(service: Fields, services: Fields, met: set[str]) -> Fields:
    """The service over the one that it extends: mappings are merged, lists are joined, other keys replaced."""
    name = _extended(service)
    model = fields_of(services, name)
    if not model or name in met or len(met) > MOST_EXTENDED:
        return service
    return _merged(_whole(model, services, {*met, name}), service)


def _merged(below: Fields, above: Fields) -> Fields:
    merged = Fields()
    for fields in (below, above):
        for key, value in fields.items():
            own = merged.get(key)
            if isinstance(own, Fields) and isinstance(value, Fields):
                value = _merged(own, value)
            elif isinstance(own, list) and isinstance(value, list) and key not in ("command", "entrypoint"):
                value = [*own, *value]
            merged.put(key, value, fields.lines.get(key, 1))
    return merged


def custom_container(key: str, inner: Fields, holder: Fields, owner: Fields) -> Fields | None:
    """The settings of a container that is the value of `key`, under a pod's keys; None for any other value."""
    if key == "container" and ("command" in inner or "args" in inner) and isinstance(inner.get("image"), str):
        return inner
    if key != "mainContainer" or not isinstance(inner.get("image"), str):
        return None
    count = fields_of(owner, "resources", "limits").get("gpu") or fields_of(holder, "resources", "limits").get("gpu")
    return _with_gpus(inner, count, owner)


def _with_gpus(container: Fields, count: object, owner: Fields) -> Fields:
    """The container with a limit of GPUs that its owner has."""
    if count is None or "resources" in container:
        return container
    limits, resources = Fields(), Fields()
    line = owner.lines.get("resources", 1)
    limits.put("nvidia.com/gpu", count, line)
    resources.put("limits", limits, line)
    above = Fields()
    above.put("resources", resources, line)
    return _merged(container, above)


def custom_resource(document: Fields) -> tuple[Fields, Fields] | None:
    """The container of an LLMInferenceService or a NIMService, and its pod; None for any other object."""
    spec = fields_of(document, "spec")
    if document.get("kind") == "NIMService":
        return _of_nim(spec), spec
    if document.get("kind") != "LLMInferenceService":
        return None
    pod = fields_of(spec, "template")
    named = [row for row in rows_of(pod.get("containers")) if isinstance(row, Fields)]
    container = next((row for row in named if row.get("name") == "main"), named[0] if named else Fields())
    words = [shown(row) for key in ("command", "args") for row in rows_of(container.get(key))]
    for row in rows_of(container.get("env")):
        if isinstance(row, Fields) and row.get("name") == "VLLM_ADDITIONAL_ARGS":
            lines = pasted(shown(row.get("value")))
            words += [part.text for line in lines for command in line.commands for part in command]
    sizes = fields_of(spec, "parallelism")
    words += [word for key, flag in PARALLELISM.items() if key in sizes for word in (flag, shown(sizes[key]))]
    settings, line = Fields(), spec.lines.get("model", 1)
    settings.put("image", container.get("image") or KSERVE_IMAGE, container.lines.get("image", line))
    settings.put("args", words, line)
    return _merged(Fields() if not container else _without(container, ("image", "command", "args")), settings), pod


def _without(fields: Fields, keys: tuple[str, ...]) -> Fields:
    kept = Fields()
    for key in (key for key in fields if key not in keys):
        kept.put(key, fields[key], fields.lines[key])
    return kept


def _of_nim(spec: Fields) -> Fields:
    """The container of a NIMService: its image in parts, its variables and its resources."""
    container, image = Fields(), fields_of(spec, "image")
    tag = shown(image.get("tag"))
    name = f"{shown(image.get('repository'))}{':' if tag else ''}{tag}"
    container.put("image", name, image.lines.get("repository", 1))
    for key in ("env", "resources", "command", "args"):
        if key in spec:
            container.put(key, spec[key], spec.lines[key])
    return container
