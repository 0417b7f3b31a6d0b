"""Steps around an encoder's network, as a repository's small files declare them; a lock keeps what a plan judges.

`files/encoders` computes these steps and settings, and refuses every other one when a server starts: here the plan does
so before a host is touched. A lock that an earlier version wrote has no such part, and is not judged.
"""

from collections.abc import Collection, Mapping
from typing import Any

from deploy.catalog.encoder_settings import ACTIVATIONS, CASELESS, DEFAULTS, POOLINGS, ROTARY, SETTINGS, STEPS
from deploy.refusals import shortened

KEY = "sentence_steps"
SCALING = ("rope_scaling", "rope_parameters")
MODULES, TEXTS = "modules.json", "sentence_bert_config.json"
MOST_FILES = 8
_MODE = "pooling_mode_"


def step_files(names: Collection[str]) -> tuple[str, ...]:
    """The small files that describe the steps, in a repository of sentence-transformers; empty for any other."""
    if MODULES not in names:
        return ()
    configs = [
        name
        for name in sorted(names)
        if name.count("/") == 1 and name.endswith(("_Pooling/config.json", "_Dense/config.json"))
    ]
    return tuple(name for name in (MODULES, TEXTS, *configs) if name in names)[:MOST_FILES]


def kept_steps(contents: Mapping[str, object]) -> dict[str, Any]:
    """The judged part of these files by their names; empty without modules.json."""
    modules = contents.get(MODULES)
    if not isinstance(modules, list):
        return {}
    types = [str(module.get("type", "")) for module in modules if isinstance(module, Mapping)]
    part: dict[str, Any] = {"steps": [kind.rpartition(".")[2] for kind in types]}
    for name, content in contents.items():
        config = content if isinstance(content, Mapping) else {}
        if "_Pooling/" in name and config:
            part["pooling"] = _modes(config)
            part |= {"leaves_prompt_out": True} if config.get("include_prompt", True) is False else {}
        elif "_Dense/" in name:
            part.setdefault("activations", []).append(str(config.get("activation_function", "Tanh")).rpartition(".")[2])
            keys = [config.get(key) for key in ("module_input_name", "module_output_name")]
            if others := [str(key) for key in keys if key not in (None, "sentence_embedding")]:
                part["projects"] = others[0]
        elif name == TEXTS and config.get("do_lower_case") is True:
            part["lowers"] = True
    return {KEY: part}


def kept_settings(config: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    """The settings of config.json that the encoder of this architecture does not have, by their names."""
    declared = {**DEFAULTS.get(architecture, {}), **config}
    settings = {name: declared[name] for name in SETTINGS.get(architecture, {}) if name in declared}
    rows = [declared.get(name) for name in SCALING] if architecture.startswith(ROTARY) else []
    rows += [row for rows_of_kind in rows if isinstance(rows_of_kind, Mapping) for row in rows_of_kind.values()]
    kinds = [row.get("type") or row.get("rope_type") for row in rows if isinstance(row, Mapping)]
    scaled = [str(kind) for kind in kinds if kind not in (None, "default")]
    return _differing(settings, architecture) | ({"rope_scaling": {"rope_type": scaled[0]}} if scaled else {})


def _differing(settings: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    wanted = SETTINGS.get(architecture, {})  # null, false and 0 all mean "without"
    return {name: value for name, value in settings.items() if (value or None) != (wanted.get(name) or None)}


def uncomputed(config: Mapping[str, Any], architecture: str, *, embeds: bool) -> tuple[str, str, str]:
    """(problem, seen, wanted) of the first setting or step that the encoders do not compute; empty texts for none."""
    wanted = SETTINGS.get(architecture, {})
    for name, value in _differing({name: config[name] for name in wanted if name in config}, architecture).items():
        seen = f"{shortened(f'{name}={value!r}')} in config.json"
        return f"its {architecture} computes with another setting than the one here", seen, f"{name}={wanted[name]!r}"
    if architecture.startswith(ROTARY) and isinstance(scaling := config.get("rope_scaling"), Mapping):
        seen = f"rope_scaling of type {scaling.get('rope_type')} in config.json"
        return "it scales its positions, as no encoder here does", seen, "no rope_scaling"
    part = config.get(KEY)
    return _uncomputed_step(part, architecture) if embeds and isinstance(part, Mapping) else ("", "", "")


def is_unscaled(config: Mapping[str, Any]) -> bool:
    """True for a repository whose own vectors keep their length: its steps end without Normalize."""
    part = config.get(KEY)
    return isinstance(part, Mapping) and "Normalize" not in _texts(part.get("steps"))


def _uncomputed_step(part: Mapping[str, Any], architecture: str) -> tuple[str, str, str]:
    steps, pooling = _texts(part.get("steps")), _texts(part.get("pooling"))
    wrong = [name for name in _texts(part.get("activations")) if name not in ACTIVATIONS]
    order = f"{', '.join(STEPS)} alone, in this order"
    if strange := [step for step in steps if step not in STEPS]:
        return (
            f"it has the step {strange[0]}, which the encoders here do not compute",
            f"{strange[0]} in {MODULES}",
            order,
        )
    if sorted(steps, key=STEPS.index) != steps:
        return "its steps follow another order than here", f"{', '.join(steps)} in {MODULES}", order
    if "pooling" in part and tuple(pooling) not in POOLINGS:
        known = "one of mean, cls and last"
        return "it pools its tokens otherwise than the encoders here", f"{' + '.join(pooling) or 'no'} pooling", known
    if part.get("leaves_prompt_out") is True:
        return "it leaves a text's prefix out of the pooling", "include_prompt=false", "pooling with the prefix"
    if wrong:
        return "its projection has another activation than here", wrong[0], " or ".join(ACTIVATIONS)
    if isinstance(part.get("projects"), str):
        return "its projection takes more than a text's vector", str(part["projects"]), "sentence_embedding"
    if part.get("lowers") is True and architecture not in CASELESS:
        seen = f"do_lower_case=true in {TEXTS}"
        return "it puts texts into small letters, and its tokenizer reads capitals", seen, "do_lower_case=false"
    return "", "", ""


def _modes(config: Mapping[str, Any]) -> list[str]:
    """The modes of a Pooling step; older files have a switch for each, newer ones a word or a list."""
    switches = [key.removeprefix(_MODE) for key, value in config.items() if key.startswith(_MODE) and value is True]
    named = config.get("pooling_mode") or []
    words = switches or ([named] if isinstance(named, str) else _texts(named))
    return [{"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}.get(word, word) for word in words]


def _texts(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []
