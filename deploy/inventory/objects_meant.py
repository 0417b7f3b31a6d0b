"""The object, choice or text that an operator probably meant by a plain value in its place."""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import PurePath

from deploy import spec
from deploy.catalog import DEFAULT_RELEASE, SYSTEMS
from deploy.catalog.gpus import card_called
from deploy.refusals import secret_in
from deploy.spec.sources import DIRECTORY

LONGEST = 200
DEFAULT_SYSTEM = "ubuntu-24.04"
FIRST_TEXTS = {
    "AcceptedHoles": '{0}(ids=("{1}",), reason="…")',
    "Acme": '{0}(names=("{1}",))',
    "AptMirror": '{0}(url="{1}", key_file=…)',
    "Calibration": '{0}(directory="{1}")',
    "Balancer": '{0}(os="debian-12", address="{1}", routes=(Route(…),))',
    "DataDisk": '{0}(device="{1}")',
    "Driver": '{0}(branch="{1}")',
    "EngineTrust": '{0}(key="{1}")',
    "Fabric": '{0}(kind="{1}", gbit=400, interface="ib0")',
    "Hub": '{0}(endpoint="{1}")',
    "Identity": '{0}(header="{1}")',
    "LLM": '{0}("{1}")',
    "Monitor": '{0}(os="debian-12", address="{1}")',
    "Proxy": '{0}(url="{1}")',
    "Replay": '{0}(prompts="{1}")',
    "Route": '{0}(pool="{1}", http_port=8443, grpc_port=8444)',
    "Toolkit": '{0}(version="{1}")',
}
"""Objects that are often typed as the text of one of their fields."""
FORMS = {
    "AcceptedHoles": r"CVE-.+",
    "Acme": r"[\w-]+(?:\.[\w-]+)+",
    "Balancer": r"[0-9a-fA-F]*[.:][0-9a-fA-F.:]+",
    "DataDisk": r"/dev/.+",
    "Driver": r"[0-9]{3}",
    "Fabric": r"infiniband|roce|ethernet",
    "LLM": r".+/.+",
    "LoRA": r".*/.+",
    "Monitor": r"[0-9a-fA-F]*[.:][0-9a-fA-F.:]+",
    "Weights": r".*/.+",
}
"""By class: the form of a text that counts as the field of FIRST_TEXTS, if other texts are typed there too."""
NOTHING = ("", "off", "no", "false", "none", "null", "disabled", "0")
FIRST_NUMBERS = {
    "KVCache": "tokens",
    "Opening": "port",
    "Parallel": "tensor",
    "Rollout": "wave_percent",
    "Sharing": "port",
    "Traffic": "drain_seconds",
}
"""Objects that are often typed as the number of one of their fields."""
EXAMPLES = {
    "AcceptedHoles": 'AcceptedHoles(ids=("CVE-2025-23266",), reason="…")',
    "Acme": 'Acme(names=("llm.example.com",))',
    "Adapter": 'Adapter(name="sql-lora", task_id=1, weights=Weights.hub("OWNER/NAME", "COMMIT"))',
    "Alias": 'Alias(models={"MODEL": 95, "ANOTHER": 5})',
    "AptMirror": 'AptMirror(url="https://apt.example.com/docker", key_file="keys/docker.asc")',
    "Balancer": 'Balancer(os="debian-12", address="10.0.0.5", routes=(Route(…),))',
    "Calibration": 'Calibration(directory="calibration")',
    "DataDisk": 'DataDisk(device="/dev/nvme1n1")',
    "Draft": 'Draft(checkpoint="CHECKPOINT", weights=Weights.hub("OWNER/NAME", "COMMIT"))',
    "Eagle": 'Eagle(weights=Weights.hub("OWNER/NAME", "COMMIT"))',
    "EngineStore": 'EngineStore.directory("/mnt/engines")',
    "EngineTrust": 'EngineTrust(key="keys/engines")',
    "Fabric": 'Fabric(kind="infiniband", gbit=400, interface="ib0")',
    "Firewall": 'Firewall(allow=("10.0.0.0/8",))',
    "GPU": 'GPU(pci_id="10de:2b85", sm="120", mib=32607)',
    "Https": 'Https(acme=Acme(names=("llm.example.com",)))',
    "Identity": 'Identity(header="x-forwarded-email")',
    "LLM": 'LLM("OWNER/NAME")',
    "LoRA": "LoRA(adapters=(Adapter(…),))",
    "Machine": 'Machine(os="ubuntu-24.04", gpu="h100-80")',
    "Medusa": 'Medusa(weights=Weights.hub("OWNER/NAME", "COMMIT"))',
    "Monitor": 'Monitor(os="debian-12", address="10.0.0.9")',
    "Opening": "Opening(port=9100)",
    "OwnModel": 'OwnModel(name="rules", path="/srv/models", mib=2048)',
    "Price": "Price(prompt=0.1, completion=0.4)",
    "Proxy": 'Proxy(url="http://proxy.example.com:3128")',
    "ReDrafter": 'ReDrafter(weights=Weights.hub("OWNER/NAME", "COMMIT"))',
    "Release": f'Release(name="ours", derived_from="{DEFAULT_RELEASE}")',
    "Replay": 'Replay(prompts="prompts.jsonl")',
    "Route": 'Route(pool="chat", http_port=8443, grpc_port=8444)',
    "Secret": 'Secret.env("NAME")',
    "Server": 'Server(name="main", models=(LLM("OWNER/NAME"),))',
    "Weights": 'Weights.hub("OWNER/NAME", "COMMIT")',
}
"""An example of each class with other settings than its defaults, as an operator types it."""
MAPPINGS = {
    "aliases": '{"gpt-4o": "MODEL"}',
    "daemon": '{"log-level": "warn"}',
    "models": '{"MODEL": 95, "ANOTHER": 5}',
    "options": '{"reduce_fusion": "enable"}',
    "prefixes": '{"search_query": "query: ", "search_document": "passage: "}',
    "prices": '{"MODEL": Price(prompt=0.1, completion=0.4)}',
}
"""A dictionary for each field that takes one."""
SWITCHED_ON = {
    "Firewall": 'Firewall(allow=("10.0.0.0/8",))',
    "Gateway": "Gateway()",
    "Https": 'Https(acme=Acme(names=("llm.example.com",)))',
    "Rollout": "Rollout()",
    "Sharing": "Sharing()",
}
"""Objects that are often typed as True."""


def object_meant(value: object, wanted: str, field: str, is_item: bool, is_alone: bool = True) -> str:
    """The object of class `wanted` that this value probably means; empty if unclear, or if a part may be a secret.

    An unclear value gets an example of the class, if no other class is allowed there (`is_alone`).
    """
    name = f"{field}=" if field and not is_item else ""
    is_on = value is True or (isinstance(value, str) and value.lower() in ("on", "yes", "true", "auto", "default"))
    if is_on and wanted in SWITCHED_ON:
        return f"{name}{SWITCHED_ON[wanted]}"
    if value is None or value is False or (isinstance(value, str) and value.lower() in NOTHING):
        return ""
    fits = isinstance(value, str) and re.fullmatch(FORMS.get(wanted, ".+"), value) and not is_on
    if isinstance(value, str) and fits and _is_plain(value) and (built := _of_text(value, wanted)):
        return built
    if type(value) is int and wanted == "Driver" and 100 <= value < 1000:
        return f'{name}Driver(branch="{value}")'
    if type(value) is int and wanted == "DataDisk":
        return f'{name}DataDisk(device="/dev/nvme1n1"), a whole blank disk; its size is its own'
    if type(value) is int and wanted in FIRST_NUMBERS and 0 < value < 10**9:
        return f"{name}{wanted}({FIRST_NUMBERS[wanted]}={value})"
    if isinstance(value, tuple) and wanted == "Opening":
        return _opening(value)
    if isinstance(value, (tuple, list)) and value and all(type(item).__name__ == wanted for item in value):
        if is_item:
            return f"one {wanted} for each place: {field}=(*MORE,) spreads a tuple, or no brackets around it"
        if len(value) == 1:
            return f"{name}{wanted}(…), without brackets and comma around it"
    built = _of_dictionary(value, wanted, name) if isinstance(value, Mapping) else ""
    return built or (_example(wanted, name) if is_alone else "")


def _example(wanted: str, name: str) -> str:
    """An object of the class, or one with only its defaults; empty for a class outside the spec."""
    if wanted in EXAMPLES:
        return f"{name}{EXAMPLES[wanted]}"
    kind = getattr(spec, wanted, None)
    needs_none = isinstance(kind, type) and is_dataclass(kind) and not _required(kind)
    return f"{name}{wanted}()" if needs_none else ""


def _required(kind: type) -> list[str]:
    """The fields of a class of the spec that have no default."""
    return [field.name for field in fields(kind) if field.default is field.default_factory is MISSING]


def class_named(value: object, kinds: list[str]) -> str:
    """The class that a text names: "eagle" and "eagle3" are Eagle; empty for a name outside `kinds`."""
    word = re.sub(r"[^a-z]", "", value.lower()) if isinstance(value, str) else ""
    return next((kind for kind in kinds if word and kind.lower() == word), "")


def function_of(kind: str) -> str:
    """The example of a class whose objects a function of it builds, such as Weights.hub; empty for another class."""
    example = EXAMPLES.get(kind, "")
    return example if re.match(r"\w+\.", example) else ""


def example_of(kind: str, field: str) -> str:
    """`field=VALUE` of the example of a class; empty without one."""
    match = re.search(
        rf'\b({field}=(?:"[^"]*"|[0-9.]+|\((?:[^()]|\([^()]*\))*\)|[\w.]+\((?:[^()]|\([^()]*\))*\)))',
        EXAMPLES.get(kind, ""),
    )
    if match:
        return match[1]
    return f"{field}={MAPPINGS[field]}" if field in MAPPINGS else ""


def _of_text(text: str, wanted: str) -> str:
    if wanted == "Machine":
        card = card_called(text)
        if card or text in SYSTEMS:
            return f'Machine(os="{DEFAULT_SYSTEM if card else text}", gpu="{card.name if card else "h100-80"}")'
    if wanted == "Weights":
        if text.startswith("/"):
            return f'Weights.on_host("{text}") for files on the host, Weights.local("{text}") for files of this machine'
        return f'Weights.local("{text}")' if DIRECTORY.fullmatch(text) else f'Weights.hub("{text}", "COMMIT")'
    if wanted == "LoRA":
        last = text.rstrip("/").rpartition("/")[2]
        weights = _of_text(text, "Weights").partition(" for ")[0]
        return f'LoRA(adapters=(Adapter(name="{last}", task_id=1, weights={weights}),))'
    if wanted == "EngineStore":
        is_rsync = "://" not in text and re.match(r"[\w.@-]+:/", text)
        kind = "directory" if ":" not in text else "rsync" if is_rsync else "rclone"
        return f'EngineStore.{kind}("{text.replace("://", ":")}")'
    form = FIRST_TEXTS.get(wanted)
    return form.format(wanted, text) if form else ""


def _opening(value: tuple[object, ...]) -> str:
    """An Opening of a port, a protocol and networks in any order."""
    ports = [item for item in value if type(item) is int]
    words = [item for item in value if isinstance(item, str)]
    nested = [item for item in value if isinstance(item, (tuple, list))]
    sources = [*(word for word in words if word not in ("tcp", "udp")), *(word for part in nested for word in part)]
    if len(ports) != 1 or not all(isinstance(word, str) and _is_plain(word) for word in sources):
        return "Opening(port=9100, sources=(…,))"
    written = ", ".join(f'"{word}"' for word in sources) + ("," if len(sources) == 1 else "")
    return (
        f"Opening(port={ports[0]}"
        + (f", sources=({written})" if sources else "")
        + (', protocol="udp")' if "udp" in words else ")")
    )


def _of_dictionary(value: Mapping[object, object], wanted: str, name: str) -> str:
    kind = getattr(spec, wanted, None)
    known = {field.name: field for field in fields(kind)} if isinstance(kind, type) and is_dataclass(kind) else {}
    if not value or not all(isinstance(key, str) and key in known for key in value):
        return ""
    required = _required(kind) if isinstance(kind, type) and is_dataclass(kind) else []
    written = [f"{key}={_shown(item)}" for key, item in value.items()]
    return f"{name}{wanted}({', '.join(written + [f'{key}=…' for key in required if key not in value])})"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"' if _is_plain(value) else "…"
    return f"{value}" if isinstance(value, (int, float)) and -(10**9) < value < 10**9 else "…"


def no_choice(value: object, words: list[str], field: str) -> str:
    """The choice of None, False or a word for nothing; empty for any other value."""
    if str(value).lower() not in ("none", "off", "no", "false", "null", "auto"):
        return ""
    return f'{field}="none"' if "none" in words else f"leave {field} out"


def choice_of(values: tuple[object, ...], words: list[str], field: str) -> str:
    """The choice in a typed tuple of choices, as `field="tcp"`; of several choices the first, with the place of the
    others."""
    if not values or not all(value in words for value in values):
        return ""
    more = ", ".join(f'"{value}"' for value in values[1:])
    return f'{field}="{values[0]}"' + (f", one alone; {more} in another object" if more else "")


def text_of_list(value: object, field: str) -> str:
    """`field="[[0], [0, 0]]"` for a list of numbers instead of its text, `field="PATH"` for a path."""
    if isinstance(value, PurePath):
        return f'{field}="{value}"' if _is_plain(str(value)) else ""
    if not isinstance(value, (list, tuple)) or not value:
        return ""
    if all(isinstance(item, str) and _is_plain(item) for item in value):
        return f'{field}="{value[0]}"' + (", one of them" if len(value) > 1 else "")
    try:
        written = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return ""
    return f'{field}="{written}"' if re.fullmatch(r"[][0-9, ]+", written) and len(written) <= LONGEST else ""


def secret_meant(value: object, field: str) -> str:
    """A Secret of the file or the variable that the text names; empty for any other text, which may be the secret."""
    if not isinstance(value, str) or secret_in(value):
        return ""
    if field == "receivers":
        path = value if _is_file(value) else "secrets/receivers.yml"
        return f'Secret.command("cat", "{path}"): YAML with Alertmanager\'s receivers, `page` and `ticket` among them'
    if _is_file(value):
        return f'Secret.command("cat", "{value}")'
    name = re.fullmatch(r"\$?\{?([A-Z]{1,20}(?:_[A-Z]{1,20})+)\}?", value)
    return f'Secret.env("{name[1]}")' if name else ""


def _is_file(text: str) -> bool:
    return re.fullmatch(r"[~\w./-]{1,120}\.(?:key|pem|txt|ya?ml|token|json)", text) is not None


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"[\w.:/+-]{1,120}", text) is not None and not secret_in(text)
