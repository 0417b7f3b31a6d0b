"""Random inventories: a good one with a few places changed to unexpected objects, numbers and texts.

`choose` picks an item of a sequence: hypothesis draws in tests, a seeded random generator in

    python -m tests.unit.random_inventories --seed 1 --count 1000000 --jobs 16

which prints a line for each fault and one with the totals: the same inventories whatever the number of processes. A
place is any value inside the data of a host, or its name.
"""

from __future__ import annotations

import argparse
import json
import random
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

from pyinfra.api import connectors
from pyinfra.api import inventory as pyinfra_inventory
from pyinfra.api.inventory import Inventory

from deploy.cli.knobs import knobs
from deploy.inventory.fleet import is_read
from deploy.io import inventory as reading
from deploy.io.groups import no_group_reason, repeated_hosts, shape_problems
from deploy.io.mistakes import explained
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal, Refusals, refuse_all
from deploy.reports.plan import plan_report
from tests.unit.plain_judge import absurdities
from tests.unit.test_hostile_words import inventories
from tests.unit.unexpected_values import KEYS, SECRET, VALUES, Text, endless, unexpected_value

PART = 500
"""Inventories of one task of a process."""
Choose = Callable[[Sequence[Any]], Any]
FACTORS = (-1, 0, 0.001, 0.01, 1 / 1024, 0.5, 2, 10, 100, 1000, 1024, 2**20, 10**6, 10**9)
"""Factors between the right unit of a number and a mistaken one."""


def changed(value: Any, choose: Choose, depth: int = 0) -> Any:
    """The value with a change in one place: the value itself, or an element inside it."""
    inside = _inside(value)
    if inside and choose(range(8)) >= (1 if depth else 0):
        key = choose(inside)
        return _with(value, key, changed(_at(value, key), choose, depth + 1))
    return _substitute(value, choose)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, tuple | list):
        return list(range(len(value)))
    if is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in fields(value)]
    return []


def _at(value: Any, key: Any) -> Any:
    return getattr(value, key) if is_dataclass(value) else value[key]


def _with(value: Any, key: Any, item: Any) -> Any:
    if isinstance(value, dict):
        return {**value, key: item}
    if isinstance(value, tuple | list):
        return type(value)([*value[:key], item, *value[key + 1 :]])
    return replace(value, **{key: item})


def _substitute(value: Any, choose: Choose) -> Any:
    """A replacement of `value`: another unit, a part doubled or removed, or something else altogether."""
    way = choose(range(4))
    if way == 0 and isinstance(value, int | float) and not isinstance(value, bool):
        scaled = value * choose(FACTORS)
        return round(scaled) if isinstance(value, int) and choose((True, True, False)) else scaled
    if way == 0 and isinstance(value, tuple):
        return choose((value + value, value[1:], list(value), value[0] if value else (None,)))
    if way == 0 and isinstance(value, str):
        return choose((value + " ", value.upper(), value[:-1], f"x{value}", value + "/", [value], Text(value)))
    if way == 0 and isinstance(value, dict):
        return choose(({**value, choose(KEYS): unexpected_value(choose)}, list(value), {}, {**value, "x": endless()}))
    return unexpected_value(choose)


@dataclass(frozen=True)
class RandomInventory:
    """Data by host, and the changes made to it; `error` is an exception that Python itself raised."""

    hosts: dict[Any, dict[Any, Any]]
    error: Exception | None = None


BASES = tuple(inventories())


def random_inventory(choose: Choose) -> RandomInventory:
    """A good inventory with one to three places changed."""
    _name, good = choose(BASES)
    hosts: dict[Any, dict[Any, Any]] = {name: dict(data) for name, data in good.items()}
    for _ in range(choose((1, 1, 1, 2, 3))):
        name = choose(list(hosts))
        way = choose(range(12))
        try:
            if way == 0:
                hosts[name] = {**hosts[name], choose(KEYS): unexpected_value(choose)}
            elif way == 1:
                hosts[f"{choose(('h100-02', 'x', 'H100-01', '10.0.0.1'))}"] = dict(hosts[name])
            elif way == 2:
                text = choose([value for value in VALUES if isinstance(value, str)])
                hosts[text] = hosts.pop(name)
            elif way == 3 and hosts[name]:
                hosts[name].pop(choose(list(hosts[name])))
            elif hosts[name]:
                key = choose(list(hosts[name]))
                hosts[name][key] = changed(hosts[name][key], choose, 1)
        except Exception as error:  # an inventory that Python itself ends
            return RandomInventory(hosts, error)
    return RandomInventory(hosts)


def planned(hosts: dict[Any, dict[Any, Any]]) -> Plan:
    """The plan of hosts, read as an inventory file is. Raises: a Refusal."""
    variables = {"gpu": list(hosts.items())}
    refuse_all(shape_problems(variables, "hosts.py"))
    if reason := no_group_reason(variables):
        raise reading.no_hosts(reason)
    refuse_all(repeated_hosts(variables, is_read))
    return reading._plan_of(Inventory((variables["gpu"], {})), knobs())


def fault_of(case: RandomInventory) -> tuple[str, str]:
    """The verdict, and the fault: a traceback, a secret in the text, a message without a part, or an absurd plan."""
    try:
        if case.error is not None:
            text = str(explained(case.error, "hosts.py"))
            return "refused", f"a secret is shown: {text}" if SECRET in text else ""
        plan = planned(case.hosts)
    except Refusal as refusal:
        problems = refusal.problems if isinstance(refusal, Refusals) else (refusal,)
        return "refused", next(filter(None, map(_unhelpful, problems)), "")
    except Exception:
        return "traceback", traceback.format_exc()
    try:
        plan_report(plan)
        as_json = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    except Exception:
        return "traceback", traceback.format_exc()
    return "planned", "; ".join(absurdities(as_json, SECRET))


def _unhelpful(problem: Refusal) -> str:
    text = str(problem)
    if SECRET in text:
        return f"a secret is shown: {text}"
    if not ({"where", "seen", "wanted"} <= problem.facts.keys() and problem.attempt):
        return f"a part is missing: {text}"
    return f"the message is {len(text):,} characters long: {text[:300]}" if len(text) > 6000 else ""


def tried(seed: int, numbers: range) -> tuple[Counter[str], list[tuple[str, str, str]]]:
    """The verdicts on the inventories of these numbers, and (kind, inventory, text) of each fault."""
    _ask_for_connectors_once()
    seen: Counter[str] = Counter()
    faults: list[tuple[str, str, str]] = []
    for number in numbers:
        verdict, fault = fault_of(random_inventory(random.Random(f"{seed}/{number}").choice))
        seen[verdict] += 1
        if fault:
            kind = fault.strip().splitlines()[-1][:120] if verdict == "traceback" else fault[:60]
            faults.append((kind, f"{seed}/{number}", f"{verdict}: {fault}"))
    return seen, faults


def _ask_for_connectors_once() -> None:
    """Caches pyinfra's list of connectors, whose lookup takes half of the time of an inventory here."""
    for module in (connectors, pyinfra_inventory):
        for name in ("get_all_connectors", "get_execution_connectors"):
            asker = getattr(connectors, name)
            setattr(module, name, asker if hasattr(asker, "cache_info") else cache(asker))


def main() -> None:
    """Tries COUNT inventories of a seed in JOBS processes, and prints the first two of each fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    words = parser.parse_args()
    parts = [range(start, min(start + PART, words.count)) for start in range(0, words.count, PART)]
    seen: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    with ProcessPoolExecutor(words.jobs, get_context("spawn")) as pool:
        for of_part, faulty in pool.map(partial(tried, words.seed), parts):
            seen += of_part
            for kind, inventory, text in faulty:
                faults[kind] += 1
                if faults[kind] <= 2:
                    print(f"{inventory}: {text}", flush=True)
    print(json.dumps({"seed": words.seed, "count": words.count, **seen, "faults": faults.total()}))


if __name__ == "__main__":
    main()
