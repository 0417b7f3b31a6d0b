"""The object, choice or text that an operator probably meant by a plain value in its place."""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import PurePath

from deploy import spec
from deploy.catalog import SYSTEMS
from deploy.catalog.gpus import card_called
from deploy.refusals.secrets_in_text import secret_in
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
FIRST_NUMBERS = {
    "KVCache": "tokens",
    "Opening": "port",
    "Parallel": "tensor",
    "Rollout": "wave_percent",
    "Sharing": "port",
    "Traffic": "drain_seconds",
}
"""Objects that are often typed as the number of one of their fields."""
SWITCHED_ON = {
    "Firewall": 'Firewall(allow=("10.0.0.0/8",))',
    "Gateway": "Gateway()",
    "Https": 'Https(acme=Acme(names=("llm.example.com",)))',
    "Rollout": "Rollout()",
    "Sharing": "Sharing()",
}
"""Objects that are often typed as True."""


def object_meant(value: object, wanted: str, field: str, is_item: bool) -> str:
    """The object of class `wanted` that this value was to be; empty if nothing is likely or a part may be a secret."""
    name = f"{field}=" if field and not is_item else ""
    is_on = value is True or (isinstance(value, str) and value.lower() in ("on", "yes", "true", "auto", "default"))
    if is_on and wanted in SWITCHED_ON:
        return f"{name}{SWITCHED_ON[wanted]}"
    if isinstance(value, str) and _is_plain(value) and (built := _of_text(value, wanted)):
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
    return _of_dictionary(value, wanted, name) if isinstance(value, Mapping) else ""


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
    required = [key for key, field in known.items() if field.default is field.default_factory is MISSING]
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
    """The choice in a tuple of choices: `field="tcp"`; of several the first, and where the others belong."""
    if not values or not all(value in words for value in values):
        return ""
    more = ", ".join(f'"{value}"' for value in values[1:])
    return f'{field}="{values[0]}"' + (f", one alone; {more} in another object" if more else "")


def text_of_list(value: object, field: str) -> str:
    """`field="[[0], [0, 0]]"` for a list of numbers in the place of its text, `field="PATH"` for a path."""
    if isinstance(value, PurePath):
        return f'{field}="{value}"' if _is_plain(str(value)) else ""
    if not isinstance(value, (list, tuple)) or not value:
        return ""
    if len(value) == 1 and isinstance(value[0], str):
        return f'{field}="{value[0]}"' if _is_plain(value[0]) else ""
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
