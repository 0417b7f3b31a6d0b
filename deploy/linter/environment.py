"""Judges the environment variables of a container: names in guides that no server reads, and secrets in plain text."""

import re

from deploy.inventory.guides import NAMES, SETTINGS
from deploy.linter.findings import HIDDEN, Judged, is_secret

DEFAULT = re.compile(r"\$\{\w+:?-(?P<value>[^${}]+)\}")
"""A variable of compose with a default value."""
PLACES = {
    "docker": (
        "is on the command line, so that shell history, ps and docker inspect show it",
        "the name alone, taken from the environment, or a file only root reads",
    ),
    "compose": (
        "is in plain text: in the file, its repository, its backups and docker inspect",
        "the name alone, taken from the environment or a file only root reads",
    ),
    "pod": ("is in plain text in the manifest: everyone who may read the pod sees it", "a reference to a Secret"),
}
ATTEMPTS = {
    "docker": "export {name} beforehand and write -e {name}",
    "compose": "{name}: ${{{name}}}, with {name} exported, or in an env_file",
    "pod": "valueFrom: {{secretKeyRef: {{name: secrets, key: {name}}}}}",
}
KEPT, DROPPED, HELD = "kept", "dropped", "held"
"""The right form of a variable: unchanged, left out, or without its value."""


def judge_variable(judged: Judged, name: str, value: str, *, place: str, option: str = "") -> str:
    """The variable's right form, after its findings were added."""
    option = f"{option} " if option else ""
    default = DEFAULT.fullmatch(value)
    if name in NAMES:
        setting = ".".join(SETTINGS[name]) if name in SETTINGS else "KVCache(tokens=…) or max_batch_tokens"
        judged.add(
            "guide-name",
            f"no server reads the variable {name}",
            seen=f"{option}{name}={value}",
            wanted=f"a typed setting: {setting}",
            attempt=f"remove {option}{name}; memory is bounded in tokens, by the model's own settings",
        )
        return DROPPED
    if is_secret(name, default["value"] if default else value):
        where, wanted = PLACES[place]
        judged.add(
            "secret-in-words",
            f"the value of {name} {where}",
            seen=f"{option}{name}={HIDDEN}",
            wanted=wanted,
            attempt=ATTEMPTS[place].format(name=name),
        )
        return HELD
    return KEPT
