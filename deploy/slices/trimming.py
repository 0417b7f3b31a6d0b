"""A host's slice as plain values, without fields that its inventory does not declare.

So the digests of older inventories do not change.
"""

from dataclasses import asdict
from typing import Any

from deploy.spec import Gateway, Machine

OF_EVERY_MACHINE = frozenset(
    {"os", "gpu", "gpus", "memory_mib", "disk_mib", "kernel_flavour", "secure_boot", "nvswitch", "confidential", "mig"}
    | {"data_disk"}
)
"""Fields of the first digests. Any later field of `Machine` counts only if an inventory declares it."""


def trimmed(plain: dict[str, Any]) -> dict[str, object]:
    """The slice's plain values without undeclared fields."""
    for name in ("firewall", "gateway", "https", "mutual", "exporters", "sharing", "repair", "proxy"):
        if plain[name] is None:
            del plain[name]
    if "gateway" in plain:
        unsaid = {"others": (), "trace_one_in": 0, "prices": (), "usage_days": Gateway().usage_days}
        unsaid |= {"unknown_fields": "ignore", "cors_origins": (), "default_embedder": "", "default_reranker": ""}
        unsaid |= {"pages": True, "identity": None}
        for name, default in unsaid.items():
            if plain["gateway"][name] == default:
                del plain["gateway"][name]
        for alias in plain["gateway"]["aliases"]:
            for name in ("weights", "sticky", "fallback"):
                if not alias[name]:
                    del alias[name]
    machine = asdict(Machine(os="", gpu=""))
    for name in machine.keys() - OF_EVERY_MACHINE:
        if plain["machine"][name] == machine[name]:
            del plain["machine"][name]
    if not plain["on_host"]:
        del plain["on_host"]
    if not plain["bundle"]:
        del plain["bundle"]
    if plain["mirrors"]["system"] is None:
        del plain["mirrors"]["system"]
    if not plain["pool"]:
        del plain["pool"], plain["traffic"]
    for image in (plain["image"], *(server["image"] for server in plain["servers"])):
        if not image["shared_port"]:
            del image["shared_port"]
    for server in plain["servers"]:
        for name in ("traces", "own_models"):
            if not server[name]:
                del server[name]
    models = [model for server in plain["servers"] for model in server["models"]]
    for model in models:
        for name in ("drafts_with", "replay", "runtime"):
            if model[name] is None:
                del model[name]
        for name in ("environment", "group"):
            if "runtime" in model and not model["runtime"][name]:
                del model["runtime"][name]
    for engine in (*plain["engines"], *(engine for model in models for engine in model["engines"])):
        if not engine["unjudged"]:
            del engine["unjudged"]
    return plain
