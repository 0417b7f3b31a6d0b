"""Merges the inventory's settings of a role into that role's `Defaults`. Only here do roles read `host.data`."""

import pkgutil
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from pyinfra.api import Host

import roles
from deploy.inventory.knobs import SUFFIX, role_problems
from deploy.refusals import refuse_all

D = TypeVar("D")


@cache
def known_settings() -> dict[str, type[Any]]:
    """The `Defaults` of roles by the role's name; plans judge `<role>_settings` by these classes."""
    packages = [module.name for module in pkgutil.iter_modules(roles.__path__) if module.ispkg]
    modules = {name: import_module(f"roles.{name}.defaults") for name in sorted(packages) if _has_defaults(name)}
    return {name: module.Defaults for name, module in modules.items() if hasattr(module, "Defaults")}


def _has_defaults(role: str) -> bool:
    return find_spec(f"roles.{role}.defaults") is not None


def overridden(host: Host, role: str, defaults: D) -> D:
    """`defaults` with the keys of the dictionary `host.data.<role>_settings`. Raises: a Refusal for an invalid one.

    The suffix distinguishes them from the spec's own keys (`docker = Docker(…)`, `registry = Registry(…)`).
    """
    overrides = host.data.get(f"{role}{SUFFIX}") or {}
    refuse_all(role_problems(f"{role}{SUFFIX}", overrides, type(defaults)))
    return replace(defaults, **overrides)  # type: ignore[type-var]  # every Defaults is a dataclass; D cannot say so
