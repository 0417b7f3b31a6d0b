"""A second judge of plans: simple claims that hold for every sensible plan, checked on its JSON alone.

It shares no code with `deploy.validation`, so that both would have to be wrong in the same way.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

MOST = {
    "_mib": 2**30,
    "_seconds": 7 * 86_400,
    "_percent": 1000,
    "_port": 65_535,
    "_tokens": 10**10,
    "_days": 4000,
}
"""The largest number that a field of a plan may hold, by the end of its name."""
MARGIN = 1.001


def absurdities(plan: dict[str, Any], secret: str) -> Iterator[str]:
    """A sentence for each absurdity in a plan; `secret` is a text that no plan may contain."""
    if secret in str(plan):
        yield "the plan shows a secret"
    yield from _numbers(plan, "plan")
    yield from _waves(plan)
    for name, host in plan["hosts"].items():
        yield from (f"{name}: {sentence}" for sentence in _host(host))
    yield from _networks(plan, "plan")
    yield from _addresses(plan)


def _numbers(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, f"{place}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, place)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = next((most for end, most in MOST.items() if place.endswith(end)), 10**15)
        if not 0 <= value <= most and not place.endswith(("dimensions", "seed")):
            yield f"{place} is {value}"


def _waves(plan: dict[str, Any]) -> Iterator[str]:
    rolled = [host for wave in plan["waves"] for host in wave]
    if len(rolled) != len(set(rolled)):
        yield "a host is in two waves"
    if rolled and set(rolled) != set(plan["hosts"]):
        yield "the waves are not all hosts"
    if len(plan["hosts"]) > 1 and len(plan["waves"]) == 1 and len(set(_pools(plan))) == 1:
        yield "every host is in the first wave"


def _pools(plan: dict[str, Any]) -> list[str]:
    return [pool["name"] for pool in plan.get("pools", [{"name": ""}])]


def _host(host: dict[str, Any]) -> Iterator[str]:
    gpus = host["machine"]["gpus"]
    if not 1 <= gpus <= 16:
        yield f"{gpus} GPUs"
    ports: list[int] = []
    used: dict[int, float] = {}
    for server in host["servers"]:
        ports += [server["http_port"], server["grpc_port"], server["metrics_port"]]
        if not server["models"]:
            yield f"server {server['name']} has no models"
        for gpu in server["gpus"]:
            if not host["machine"]["mig"] and not 0 <= gpu < gpus:
                yield f"GPU {gpu} of {gpus}"
            used[gpu] = used.get(gpu, 0) + sum(_per_gpu(model) for model in server["models"])
    if len(ports) != len(set(ports)):
        yield f"a port twice in {ports}"
    if 22 in ports:
        yield "a server on SSH's port"
    if not host["machine"]["mig"] and max(used.values(), default=0) > host["gpu_mib"] * MARGIN:
        yield f"models of {max(used.values()):,.0f} MiB on a GPU of {host['gpu_mib']:,} MiB"


def _per_gpu(model: dict[str, Any]) -> float:
    """MiB of one model on one GPU, as the plan counts it; none on a CPU."""
    if model["settings"].get("device") == "cpu":
        return 0
    return float(sum(model["memory"].values()))


def _networks(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _networks(item, f"{place}.{key}")
    elif isinstance(value, list) and place.endswith((".allow", ".metrics", ".sources")):
        texts = [item for item in value if isinstance(item, str)]
        halves = sum(ipaddress.ip_network(text).num_addresses for text in texts if ":" not in text)
        if halves > 2**26:
            yield f"{place} holds {halves:,} addresses"
    elif isinstance(value, list):
        for item in value:
            yield from _networks(item, place)


def _addresses(plan: dict[str, Any]) -> Iterator[str]:
    addresses = [host["address"] for kind in ("balancers", "monitors") for host in plan.get(kind, {}).values()]
    if len(addresses) != len(set(addresses)):
        yield f"an address twice in {addresses}"
