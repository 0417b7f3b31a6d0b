"""The literal that an operator probably meant by a value of the wrong type: "32k" for 32768, 580 for "580"."""

import json
import re

from deploy.catalog import SYSTEMS
from deploy.catalog.names import offer
from deploy.inventory.objects_meant import LONGEST, choice_of, class_named, no_choice, object_meant, text_of_list
from deploy.refusals import secret_in

NUMBER = re.compile(r"\s*([0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*(?:\.[0-9]+)?)\s*([a-zA-Z%]*)\s*")
SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
MIB = {"m": 1, "mb": 1, "mib": 1, "g": 1024, "gb": 1024, "gib": 1024, "t": 1024**2, "tb": 1024**2, "tib": 1024**2}
TOKENS_LEFT = "tokens counts tokens; KVCache() takes the memory that is left, and the plan writes their number"
MEMORY = ("mb", "mib", "g", "gb", "gib", "tb", "tib", "%")
"""Units of a cache typed as memory or as a share of it."""
DAYS = {"d": 1, "day": 1, "days": 1, "w": 7, "m": 30, "y": 365, "a": 365}
COUNT = {"k": 1024, "m": 1024**2}
COUNTED = ("x", "gpu", "gpus", "card", "cards", "host", "hosts", "token", "tokens", "request", "requests", "users")
"""Nouns that may follow a number."""
PARAMETERS = {"k": 1000, "m": 10**6, "b": 10**9, "t": 10**12}
UNITS = {"_seconds": SECONDS, "_mib": MIB, "_days": DAYS, "parameters": PARAMETERS, "_count": PARAMETERS}
"""Units of a number typed as a text, by the ending of its field."""
SWITCHES = {
    **dict.fromkeys(("1", "y", "yes", "true", "on", "enable", "enabled"), True),
    **dict.fromkeys(("0", "n", "no", "false", "off", "none", "", "disable", "disabled"), False),
}
"""Words that other configurations have for True and False."""
PORTS = re.compile(r"([0-9]{4,5})\s*(?:-|:|\.\.)\s*([0-9]{4,5})")
"""A range of ports or other numbers, as firewalls have it."""
CLOCK = re.compile(r"PT(?=.)(?:([0-9]{1,3})H)?(?:([0-9]{1,4})M)?(?:([0-9]{1,5})S)?|([0-9]{1,2}):([0-9]{2}):([0-9]{2})")
"""A duration as ISO 8601 or a clock has it."""
MOST_SHOWN = 12
"""Largest number of values of a list in a hint."""
SYNONYMS = {
    **dict.fromkeys(("fp16", "half", "f16", "torch.float16"), "float16"),
    **dict.fromkeys(("bf16", "torch.bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp32", "f32", "float", "torch.float32"), "float32"),
    **dict.fromkeys(("fp8_e4m3", "fp8_e5m2", "float8"), "fp8"),
    **dict.fromkeys(("awq", "w4a16_awq"), "int4_awq"),
    **dict.fromkeys(("gptq", "w4a16_gptq"), "int4_gptq"),
    **dict.fromkeys(("trt", "tensorrt", "trt-llm", "tensorrt_llm"), "engine"),
    **dict.fromkeys(("torch", "pyt"), "pytorch"),
    **dict.fromkeys(("cuda", "gpu:0", "cuda:0"), "gpu"),
    **dict.fromkeys(("amazon", "ec2"), "aws"),
    **dict.fromkeys(("google", "gce"), "gcp"),
    **dict.fromkeys(("ib", "mellanox"), "infiniband"),
    **dict.fromkeys(("eth", "tcp/ip"), "ethernet"),
}
"""Words of other programs for a choice, and ours."""
MOST = 10**12
MOST_PARAMETERS = 20 * 10**12


def meant_by(value: object, wanted: str, where: str) -> str:
    """`field=LITERAL` for the value in the wanted type; empty if no literal is likely."""
    field = re.sub(r"\[[^]]*\]", "", where).rpartition(".")[2]
    kinds = [kind for kind in wanted.split(" or ") if kind[:1].isupper()]
    named = class_named(value, kinds)
    for kind in [named] if named else kinds:
        is_alone = bool(named) or (kinds == wanted.split(" or ") and (len(kinds) == 1 or where.endswith("]")))
        if built := object_meant("yes" if named else value, kind, field, where.endswith("]"), is_alone):
            return built
    if wanted == "str" and (built := text_of_list(value, field)):
        return _of_place(built, where)
    if wanted.startswith("int") and isinstance(value, str) and field == "tokens" and not NUMBER.fullmatch(value):
        return TOKENS_LEFT
    if wanted == "int" and field == "usage_days" and value is None:
        return "usage_days=0 counts nothing"
    if field == "trust_remote_code":
        return "leave trust_remote_code out: code of a repository is never run"
    if wanted == "bool" and isinstance(value, (str, int)) and str(value).strip().lower() in SWITCHES:
        return _of_place(f"{field}={SWITCHES[str(value).strip().lower()]}", where)
    if field == "gpu" and type(value).__name__ == "GPU":
        return 'gpu="rtx-5090-32", card=GPU(…): a name of its own, and its numbers beside it'
    if field == "gpus" and isinstance(value, (tuple, list)) and 0 < len(value) <= MOST_SHOWN:
        return f"gpus={len(value)}, a number; a Server says which"
    if isinstance(value, (tuple, list)) and value and wanted == "int" and all(type(item) is int for item in value):
        again = "; another object for each of the others" if len(value) > 1 else ""
        return _of_place(f"{field}={value[0]}" if abs(value[0]) < MOST else "", where) + again
    if wanted in ("dict", "Mapping") and isinstance(value, str):
        if built := _of_json(value):
            return f"{field}={built}"
        flags = re.findall(r"--([\w-]+)(?:[= ]([\w.-]+))?", value)
        written = ", ".join(f'"{flag}": "{word or "enable"}"' for flag, word in flags if not word.startswith("--"))
        return f"{field}={{{written}}}" if written and len(flags) <= MOST_SHOWN else ""
    if isinstance(value, (tuple, list)) and wanted in ("dict", "Mapping") and (built := _pairs(value)):
        return f"{field}={built}"
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    words = wanted.split(" or ")
    if "int" in words or "float" in words:
        typed = _number(value, field, "str" in words)
    else:
        typed = _text(value, field) if "str" in words else ""
    return _of_place(typed, where)


def _pairs(values: tuple[object, ...] | list[object]) -> str:
    """A dictionary of pairs of plain texts; empty for anything else."""
    pairs = [item for item in values if isinstance(item, (tuple, list)) and len(item) == 2]
    texts = [text for pair in pairs for text in pair]
    is_plain = all(isinstance(text, str) and re.fullmatch(r"[\w.:/+-]{1,80}", text) for text in texts)
    if not pairs or len(pairs) != len(values) or len(pairs) > MOST_SHOWN or not is_plain:
        return ""
    return "{" + ", ".join(f'"{key}": "{value}"' for key, value in pairs) + "}"


def _of_json(text: str) -> str:
    """The dictionary that a short text of JSON is, as Python; empty for any other text, and for one with a secret."""
    try:
        value = json.loads(text) if len(text) <= LONGEST and not secret_in(text) else None
    except (ValueError, RecursionError):
        return ""
    return repr(value).replace("'", '"') if isinstance(value, dict) and value and "'" not in text else ""


def choice_meant(value: object, words: list[str], where: str) -> str:
    """The intended choice: the only one, the same word in other letter case, or the choice that other tools call by
    this word."""
    field = re.sub(r"\[[^]]*\]", "", where).rpartition(".")[2]
    if isinstance(value, (tuple, list)) and (typed := choice_of(tuple(value), words, field)):
        return typed
    text = value if isinstance(value, str) else ""
    meant = SYNONYMS.get(text.lower(), text.lower())
    same = [word for word in words if word.lower() == meant]
    if len(words) == 1 or same:
        return f'{field}="{(same or words)[0]}"'
    return (not any(word.startswith(text[:3] or "?") for word in words) and no_choice(value, words, field)) or offer(
        text, words
    )


def _of_place(typed: str, where: str) -> str:
    return typed.partition("=")[2] if where.endswith("]") else typed


def tuple_of(values: object, field: str, of_numbers: bool = False) -> str:
    """`field=(VALUE, …)` for a list, a range or a set of a few plain values; empty for anything else."""
    if isinstance(values, str) and of_numbers and re.fullmatch(r"[0-9]{1,5}(?:[, ]+[0-9]{1,5})*", values.strip()):
        values = [int(part) for part in re.findall("[0-9]+", values)]
    elif isinstance(values, str) and of_numbers and not PORTS.fullmatch(values):
        return f"{field}=(0, 1): whole numbers, each written out" if field == "gpus" else ""
    if isinstance(values, str) and (ends := PORTS.fullmatch(values)):
        values = range(int(ends[1]), int(ends[2]) + 1)
    if isinstance(values, str) and "," in values:
        values = [part.strip() for part in values.split(",") if part.strip()]
    if isinstance(values, dict) and all(isinstance(item, str) for item in values.values()):
        values = list(values.values())
    if isinstance(values, dict) and all(type(count) is int and 0 < count < MOST_SHOWN for count in values.values()):
        values = [key for key, count in values.items() for _ in range(count)]
    if not isinstance(values, (list, range, set, frozenset)) or not 0 < len(values) <= MOST_SHOWN:
        return ""
    items = sorted(values, key=repr) if isinstance(values, (set, frozenset)) else list(values)
    is_plain = all(
        (isinstance(item, str) and re.fullmatch(r"[\w.:/+-]{1,40}", item)) or (type(item) is int and abs(item) < MOST)
        for item in items
    )
    written = ", ".join(f'"{item}"' if isinstance(item, str) else f"{item}" for item in items)
    return f"{field}=({written}{',' if len(items) == 1 else ''})" if is_plain else ""


def _number(value: str | float, field: str, is_share: bool) -> str:
    if isinstance(value, str):
        match = NUMBER.fullmatch(value)
        units = next((table for ending, table in UNITS.items() if field.endswith(ending)), COUNT)
        ones = ("", "%") if is_share or field.endswith("_percent") else ("",)
        if match and field == "tokens" and match[2].lower() in MEMORY:
            return TOKENS_LEFT
        if field.endswith("_seconds") and (clock := CLOCK.fullmatch(value)):
            hours, minutes, seconds = (
                int(part or 0) for part in (clock[1] or clock[4], clock[2] or clock[5], clock[3] or clock[6])
            )
            return f"{field}={hours * 3600 + minutes * 60 + seconds}"
        digits = re.findall(r"[0-9]+(?:[_,][0-9]{3})*(?:\.[0-9]+)?", value)
        if field.endswith("port") and len(digits) == 1 and 0 < float(re.sub("[_,]", "", digits[0])) < 65_536:
            protocol = ', protocol="udp"' if field == "port" and "udp" in value.lower() else ""
            return f"{field}={int(float(re.sub('[_,]', '', digits[0])))}{protocol}"
        ones = (*ones, *COUNTED)
        factor = 1 if match and match[2].lower() in ones else units.get(match[2].lower(), 0) if match else 0
        number = float(re.sub("[_,]", "", match[1])) * factor if match and len(value) < 20 else 0.0
    elif is_share and 0 < value < 1:
        return f'{field}="{round(value * 100)}%"'
    elif field.endswith("_ms") and 0 < value < 1:
        number = value * 1000
    elif field.endswith("one_in") and 0 < value < 1:
        number = 1 / value
    else:
        number = value * 100 if field.endswith("_percent") and 0 < value < 1 else value
    if not (number > 0.5 or value == "0") or number > MOST_PARAMETERS:
        return ""
    return f"{field}={round(number)}"


def _text(value: str | float, field: str) -> str:
    if isinstance(value, str):
        return ""
    if field == "os":
        return next((f'os="{name}"' for name in SYSTEMS if name.endswith(f"-{value}")), "")
    if field in ("release", "derived_from"):
        number = value / 100 if isinstance(value, int) and 0 < value < 10_000 else value
        return f'{field}="{_release_meant(number)}"' if 20 <= number < 40 else ""
    if field == "version":
        return "leave version out, or write it as a text, with all its parts"
    if field == "branch" and 100 <= value < 1000:
        return f'branch="{int(value)}"'
    if isinstance(value, float) or abs(value) >= MOST:
        return ""
    return f'{field}="{value}"'


def _release_meant(number: float) -> str:
    """The release that a number in a file means: 26.7 is July's, because no year has 70 months."""
    text = release_of_number(number)
    year, _, month = text.partition(".")
    return text if int(month) <= 12 else f"{year}.0{month[0]}"


def release_of_number(number: float) -> str:
    """The release that reads as this number: 25.1 is 25.10."""
    return f"{number:05.2f}"
