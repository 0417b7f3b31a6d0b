"""Judges the settings of a compose service besides its image and command: keys, GPU, variables, limits and ports."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from deploy.catalog.containers import SERVICE_KEYS
from deploy.catalog.names import slip_of
from deploy.linter.environment import DROPPED, HELD, judge_variable
from deploy.linter.fields import Fields, fields_of, rows_of, shown
from deploy.linter.findings import Call, Judged
from deploy.linter.fragments import fragment, variables
from deploy.linter.gpus import CDI, CERTAIN, GPU_FILE, is_shown, judge_absence, judge_count, judge_hidden, need_of
from deploy.linter.limits import inside_of, judge_port_text, judge_shm, judge_silent, judge_ulimit, know_shm
from deploy.linter.manifests import Container
from deploy.linter.ports import HIGHEST, listening_ports
from deploy.linter.words import varies

DEVICE: dict[str, Any] = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
WRITTEN = "devices: [{driver: nvidia, count: all, capabilities: [gpu]}] among the reservations, as below"
PLACE = "deploy.resources.reservations.devices"
MOST_SERVICES = 64
"""Services of a file whose ports are compared with each other's."""
OUTSIDE = re.compile(r"(?:(?P<address>\[[^\]]*\]|[\d.]*):)?(?P<outside>\d+):(?P<inside>[^:]+)")


def judge_service(container: Container, call: Call | None) -> Judged:
    """Every finding about the service's own settings, and the corrected settings."""
    judged, mended = Judged(), dict[str, Any]()
    need = need_of(container.image, call)
    _keys(judged, container, mended)
    _environment(judged, container, mended, need)
    _gpus(judged, container, mended, need, call)
    _limits(judged, container, mended, call)
    _ports(judged, container, mended, call)
    judged.right = fragment(container, mended)
    return judged


def _keys(judged: Judged, container: Container, mended: dict[str, Any]) -> None:
    if "services" not in container.owner:
        return
    for key in (key for key in container.settings if key not in SERVICE_KEYS):
        if key.startswith("x-") or not re.fullmatch(r"[\w.-]+", key):
            continue
        near = slip_of(key, SERVICE_KEYS)
        judged.add(
            "unknown-setting",
            f"a service of compose has no setting `{key}`, so compose rejects the file",
            seen=f"line {container.line_of(key)}: {key}",
            wanted="a setting of the compose specification",
            attempt=f"did you mean `{near}`?" if near else f"remove {key}, or write {PLACE}",
        )
        if near and near not in container.settings:
            mended[near] = container.settings[key]


def _environment(judged: Judged, container: Container, mended: dict[str, Any], need: tuple[str, str]) -> None:
    right: dict[str, str | None] = {}
    before = len(judged.findings)
    for name, value, is_written in variables(container.settings.get("environment")):
        right[name] = value if is_written else None
        if not is_written:
            continue
        if judge_hidden(judged, name, value, need, seen=f"{name}={value}"):
            del right[name]
            continue
        kept = judge_variable(judged, name, value, place="compose")
        if kept == DROPPED:
            del right[name]
        elif kept == HELD:
            right[name] = f"${{{name}}}"
    if len(judged.findings) > before:
        mended["environment"] = right


def _gpus(
    judged: Judged, container: Container, mended: dict[str, Any], need: tuple[str, str], call: Call | None
) -> None:
    before = len(judged.findings)
    settings = container.settings
    resources = fields_of(settings, "deploy", "resources")
    requests = [*rows_of(fields_of(resources, "reservations").get("devices")), *rows_of(settings.get("gpus"))]
    is_misplaced = _misplaced(judged, container)
    right = [_request(judged, request, container) for request in requests if isinstance(request, Fields)]
    _form_of_gpus(judged, container)
    if len(judged.findings) > before:
        mended["deploy"] = _reserved(right or [dict(DEVICE)], settings)
        return
    sources = [_gives(settings), bool(requests), "generic_resources" in fields_of(resources, "reservations")]
    if need[0] and not is_misplaced and not any(sources) and "extends" not in settings:
        judge_absence(judged, need, seen=f"no {PLACE}, gpus, runtime or devices", attempt=WRITTEN)
        if need[0] == CERTAIN:
            mended["deploy"] = _reserved([dict(DEVICE)], settings)
    counts = [_count(request) for request in requests if isinstance(request, Fields)]
    if len(counts) == 1 and counts[0] is not None:
        before = len(judged.findings)
        judge_count(judged, counts[0], call, seen=f"count: {counts[0]}", attempt="count: {ranks}")
        if len(judged.findings) > before:
            mended["deploy"] = _reserved([dict(DEVICE)], settings)


def _reserved(devices: list[dict[str, Any]], settings: Fields) -> dict[str, Any]:
    """The service's `deploy` with these devices reserved, in the place where compose expects them."""
    deploy = fields_of(settings, "deploy")
    kept = {key: value for key, value in deploy.items() if key not in ("resources", "devices", "reservations")}
    limits = {key: value for key, value in fields_of(deploy, "resources", "limits").items() if key != "devices"}
    reservations = dict(fields_of(deploy, "resources", "reservations")) | {"devices": devices}
    return {**kept, "resources": ({"limits": limits} if limits else {}) | {"reservations": reservations}}


def _gives(settings: Fields) -> bool:
    """True if the service gets a GPU by another way than a reservation."""
    devices = [shown(row) or shown(fields_of(row).get("source")) for row in rows_of(settings.get("devices"))]
    return (
        "gpus" in settings
        or shown(settings.get("runtime")) not in ("", "runc")
        or any(CDI in device or GPU_FILE.search(device) or varies(device) for device in devices)
        or any(is_shown(name, value) for name, value, _ in variables(settings.get("environment")))
    )


def _misplaced(judged: Judged, container: Container) -> bool:
    """Adds findings for devices under keys that compose does not know."""
    deploy = fields_of(container.settings, "deploy")
    places = {
        "deploy.resources.limits.devices": "devices" in fields_of(deploy, "resources", "limits"),
        "deploy.resources.devices": "devices" in fields_of(deploy, "resources"),
        "deploy.devices": "devices" in deploy,
        "deploy.reservations": "reservations" in deploy,
    }
    for place in (place for place, is_there in places.items() if is_there):
        judged.add(
            "gpu-misplaced",
            f"compose does not read {place}: a GPU is a reservation",
            seen=place,
            wanted=PLACE,
            attempt=f"the same lines under {PLACE}",
        )
    return any(places.values())


def _request(judged: Judged, request: Fields, container: Container) -> dict[str, Any]:
    """The right form of a request for devices, after its findings were added."""
    right = dict(request)
    here = f"line {min(request.lines.values(), default=container.line)}"
    if "capabilities" not in request and request not in rows_of(container.settings.get("gpus")):
        _form(judged, "a reservation of devices names its capabilities", here, "capabilities: [gpu]")
        right["capabilities"] = ["gpu"]
    elif "capabilities" in request and not isinstance(request["capabilities"], list):
        _form(judged, "capabilities are a list", f"{here}: {shown(request['capabilities'])}", "capabilities: [gpu]")
        right["capabilities"] = [shown(request["capabilities"]) or "gpu"]
    if "count" in request and "device_ids" in request:
        _form(judged, "count and device_ids exclude each other", here, "device_ids alone, without count")
        del right["count"]
    ids = request.get("device_ids")
    if ids is not None and not (isinstance(ids, list) and all(isinstance(entry, str) for entry in ids)):
        names = [shown(entry) for entry in ids] if isinstance(ids, list) else [shown(ids)]
        written = ", ".join(f'"{name}"' for name in names)
        _form(judged, "device_ids is a list of texts: a number stands in quotes", here, f"device_ids: [{written}]")
        right["device_ids"] = names
    count = request.get("count")
    if count is not None and not (shown(count) == "all" or re.fullmatch(r"[1-9]\d*|-1|\$.*", shown(count))):
        judged.add(
            "gpu-form",
            f"count: {shown(count)} gives no GPU",
            seen=f"{here}: count: {shown(count)}",
            wanted="all, or a number of GPUs",
            attempt="count: all",
        )
        if "count" in right:
            right["count"] = "all"
    return right


def _form(judged: Judged, problem: str, seen: str, attempt: str) -> None:
    judged.add("gpu-form", f"{problem}; compose stops on it", seen=seen, wanted=attempt, attempt=attempt)


def _form_of_gpus(judged: Judged, container: Container) -> None:
    value = container.settings.get("gpus")
    if value is not None and not isinstance(value, list) and shown(value) != "all" and not varies(shown(value)):
        _form(judged, f"gpus does not take {shown(value)}", f"gpus: {shown(value)}", "gpus: all, or a list of requests")


def _count(request: Fields) -> int | None:
    count, ids = request.get("count"), request.get("device_ids")
    if isinstance(ids, list) and "count" not in request:
        return len(ids)
    return count if isinstance(count, int) and count > 0 else None


def _limits(judged: Judged, container: Container, mended: dict[str, Any], call: Call | None) -> None:
    settings = container.settings
    rows = settings.get("ulimits")
    right: dict[str, Any] = {}
    before = len(judged.findings)
    for name, value in rows.items() if isinstance(rows, Fields) else ():
        soft, hard = (value.get("soft"), value.get("hard")) if isinstance(value, Fields) else (value, None)
        text = f"{name}={shown(soft)}" + (f":{shown(hard)}" if hard is not None else "")
        mending = text if varies(text) else judge_ulimit(judged, text, seen=f"ulimits: {text}")
        key, _, limit = mending.partition("=")
        if mending == text:
            right[name] = value
        elif key:
            lower, _, upper = limit.partition(":")
            right[key] = {"soft": int(lower), "hard": int(upper)} if upper else int(lower)
    if len(judged.findings) > before:
        mended["ulimits"] = right
    size = shown(settings.get("shm_size"))
    if size and not varies(size):
        fit = judge_shm(judged, size, seen=f"shm_size: {size}", written="shm_size: {}")
        mended |= {"shm_size": fit} if fit != size else {}
    if call and call.program == "tritonserver" and not {"shm_size", "ipc"} & settings.keys() and not _has_shm(settings):
        know_shm(judged, seen="neither shm_size nor ipc", attempt="shm_size: 2g")


def _has_shm(settings: Fields) -> bool:
    return any("/dev/shm" in shown(row) for key in ("tmpfs", "volumes") for row in rows_of(settings.get(key)))


def _ports(judged: Judged, container: Container, mended: dict[str, Any], call: Call | None) -> None:
    rows = rows_of(container.settings.get("ports"))
    right: list[Any] = []
    before = len(judged.findings)
    taken = dict(_published_before(container)) if rows else {}
    for row in rows:
        text = port_text(row)
        if varies(text) or "{{" in text:
            right.append(row)
        elif judge_port_text(judged, text, seen=f"ports: {text}"):
            right.append(_elsewhere(judged, text, taken) or row)
    if len(judged.findings) > before:
        mended["ports"] = right or ["8000:8000"]
    if call and call.program == "tritonserver" and shown(container.settings.get("network_mode")) != "host":
        judge_silent(judged, [inside_of(port_text(row)) for row in rows], listening_ports(call.args), call.program)


def port_text(row: object) -> str:
    """A row of `ports` in its short form, `ADDRESS:OUTSIDE:INSIDE`."""
    if isinstance(row, Fields):
        outside, inside, address = (shown(row.get(key)) for key in ("published", "target", "host_ip"))
        return ":".join([*([address] if address and outside else []), *([outside] if outside else []), inside])
    return shown(row)


def _published_before(container: Container) -> Iterator[tuple[str, str]]:
    for name, service in islice(fields_of(container.owner, "services").items(), MOST_SERVICES):
        if name == container.name:  # its settings may be those of a service that it extends, too
            return
        if "profiles" in service or "profiles" in container.settings:
            continue
        for row in rows_of(fields_of(service).get("ports")):
            match = OUTSIDE.fullmatch(port_text(row))
            if match:
                yield _key(match), name


def _key(match: re.Match[str]) -> str:
    return f"{match['address'] or ''}:{match['outside']}/{match['inside'].partition('/')[2] or 'tcp'}"


def _elsewhere(judged: Judged, text: str, taken: dict[str, str]) -> str:
    """A free port to publish instead of a taken one; empty if the port is free."""
    match = OUTSIDE.fullmatch(text)
    if not match:
        return ""
    key = _key(match)
    if key not in taken:
        taken[key] = "this service"
        return ""
    used = {name.rpartition(":")[2].partition("/")[0] for name in taken}
    free = next(str(port) for port in range(int(match["outside"]) + 1, 2 * HIGHEST) if str(port) not in used)
    address = f"{match['address']}:" if match["address"] else ""
    judged.add(
        "same-port",
        f"port {match['outside']} of the host is published twice",
        seen=f"ports: {text}, and by {taken[key]}",
        wanted="one port of the host for each port of a container",
        attempt=f"{address}{free}:{match['inside']}",
    )
    taken[f":{free}/{key.rpartition('/')[2]}"] = "this service"
    return f"{address}{free}:{match['inside']}"
