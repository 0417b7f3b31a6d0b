"""Parsers with the flags, types, defaults and choices of TensorRT-LLM 1.2, and refusals in argparse's words.

rehearsal/upstream_flags.py reads them from upstream's source, and rehearsal/triton_image.py puts them beside this file
in the image (`flags.json`). Choices that only a running TensorRT-LLM knows are not checked.
"""

import argparse
import json
from pathlib import Path

ROWS = Path(__file__).with_name("flags.json")
TYPES = {"str": str, "int": int, "float": float}
PLUGINS = "Plugin config arguments"
# In the real program a function parses these, so its help lists no choices.
ENUMS = {"--kv_cache_type": ("continuous", "paged", "disabled")}


def build_parser():
    """Returns a parser with the flags of `trtllm-build`."""
    return parser("trtllm-build", _rows("1.2", "trtllm-build"))


def plugin_names():
    """Returns the settings of `plugin_config` in an engine's config.json."""
    flags = _rows("1.2", "trtllm-build")
    return [name.lstrip("-") for name, facts in flags.items() if facts.get("group") == PLUGINS]


def convert_parser(family):
    """Returns a parser with the flags of a convert script; the newest source is of December 2024."""
    rows = _rows("0.17.0.dev2024121700", f"convert_checkpoint.py of {family}")
    return parser("convert_checkpoint.py", rows)


def quantize_parser():
    """Returns a parser with the flags of quantize.py."""
    return parser("quantize.py", _rows("1.2", "quantize.py"))


def parser(program, rows):
    """Returns a plain argparse parser, which also accepts prefixes."""
    made = argparse.ArgumentParser(prog=program, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    groups = {}
    for name, facts in rows.items():
        title = facts.get("group")
        if title and title not in groups:
            groups[title] = made.add_argument_group(title)
        groups.get(title, made).add_argument(name, *facts.get("aliases", ()), **_options(name, facts))
    return made


def _options(name, facts):
    options = {"help": "(rehearsal stand-in)", "dest": name.lstrip("-").replace("-", "_")}
    if facts["type"] == "flag":
        return {**options, "action": "store_true", "default": bool(facts.get("default"))}
    options["default"] = argparse.SUPPRESS if facts.get("suppressed") else facts.get("default")
    options["type"] = TYPES[facts["type"]]
    if name in ENUMS:
        options["type"] = _one_of(ENUMS[name])
    elif facts.get("choices"):
        options["choices"] = facts["choices"]
    return options | {key: facts[key] for key in ("nargs", "required") if facts.get(key)}


def _one_of(names):
    def parse(value):
        if value.lower() not in names:
            raise argparse.ArgumentTypeError(f"Invalid value '{value}'. Expected one of {list(names)}")
        return value.lower()

    return parse


def _rows(release, program):
    return json.loads(ROWS.read_text())[release][program]
