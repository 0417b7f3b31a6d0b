"""All rules of a fleet as one file for Prometheus 2.42 and later."""

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from deploy.monitoring.alert import Alert, Recording
from deploy.monitoring.causes import CAUSES, ends, of_llms
from deploy.monitoring.levels import LEVELS, Level, alerts, recordings

HEAD = "# Written by enginehouse; edits are put right by a run.\n"


def groups(
    branches: Iterable[str] = (), levels: Iterable[Level] = LEVELS, has_llms: bool = False
) -> list[dict[str, Any]]:
    """The rule groups, recorded expressions before their readers; `branches` are the fleet's driver branches.

    `has_llms`: the fleet has LLMs beside Triton.
    """
    by_level = [_group(level.name.lower(), [*recordings(level), *alerts(level)]) for level in levels]
    beside = [_group("llms", of_llms())] if has_llms else []
    return [*by_level, _group("causes", [*CAUSES, *ends(branches)]), *beside]


def rule_file(branches: Iterable[str] = (), levels: Iterable[Level] = LEVELS, has_llms: bool = False) -> str:
    """The text of the rule file."""
    text: str = yaml.safe_dump({"groups": groups(branches, levels, has_llms)}, sort_keys=False, width=1_000)
    return HEAD + text


def _group(name: str, rules: Sequence[Alert | Recording]) -> dict[str, Any]:
    return {"name": f"enginehouse-{name}", "interval": "1m", "rules": [rule.to_yaml() for rule in rules]}
