"""Parsers out of the catalog's own rows for TensorRT-LLM 1.2: same flags, defaults, choices, refusals and help text.

The rows lie beside this file in the image (`flags.json`, put there by rehearsal/triton_image.py).
"""

import argparse
import json
from pathlib import Path

ROWS = Path(__file__).with_name("flags.json")
TYPES = {"str": str, "int": int, "float": float}
GROUPS = {"plugin": "Plugin config arguments", "logits": "Logits arguments"}
# Parsed by a function in the real one, so that its help lists no choices.
ENUMS = {"--kv_cache_type"}


def build_parser():
    """What `trtllm-build` takes."""
    return parser("trtllm-build", _rows()["1.2"])


def plugin_names():
    """Settings of `plugin_config` in an engine's config.json."""
    return [name.lstrip("-") for name, facts in _rows()["1.2"].items() if facts.get("kind") == "plugin"]


def convert_parser(family):
    """What a convert script takes; its newest row that was read is 0.16's."""
    return parser("convert_checkpoint.py", _rows()["_convert_checkpoint"][family]["0.16.0"])


def quantize_parser():
    """What quantize.py takes."""
    return parser("quantize.py", _rows()["_quantize.py"]["1.2"])


def parser(program, rows):
    """argparse as it comes, so that it also accepts prefixes."""
    made = argparse.ArgumentParser(prog=program, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    groups = {}
    for name, facts in rows.items():
        kind = facts.get("kind", "")
        if kind in GROUPS and kind not in groups:
            groups[kind] = made.add_argument_group(GROUPS[kind])
        groups.get(kind, made).add_argument(name, *facts.get("aliases", ()), **_options(name, facts))
    return made


def _options(name, facts):
    options = {"help": facts.get("note") or "(rehearsal stand-in)", "dest": name.lstrip("-").replace("-", "_")}
    options["help"] = options["help"].replace("%", "%%")
    if facts["type"] == "flag":
        return {**options, "action": "store_true", "default": bool(facts["default"])}
    options["default"] = argparse.SUPPRESS if facts["default"] == "unset" else facts["default"]
    options["type"] = TYPES[facts["type"]]
    if name in ENUMS:
        options["type"] = _one_of(facts["choices"])
    elif facts.get("choices"):
        options["choices"] = facts["choices"]
    return options | {key: facts[key] for key in ("nargs", "required") if facts.get(key)}


def _one_of(names):
    def parse(value):
        if value.lower() not in names:
            raise argparse.ArgumentTypeError(f"Invalid value '{value}'. Expected one of {names}")
        return value.lower()

    return parse


def _rows():
    return json.loads(ROWS.read_text())
