"""Faster replacements for pyinfra's work per operation, fact and login, which a fleet pays for each host.

pyinfra (3.10.0) orders operations by the line numbers of the call stack, and has `inspect` read the source around
every frame for it: 9 ms for each operation and host, two thirds of the CPU of a run on a fake host (62 operations,
0.80 s with it and 0.24 s without; 2026-11-23, a busy machine). The frames already have the line numbers. The next
largest parts were the 33 arguments that every operation takes, each looked up in all layers of a host's data, and
paramiko, which asks who is logged in here for each entry of ssh_config and each host. paramiko also looks ten times a
second after each connection that is silent. pyinfra has no hook, so `install` replaces the functions. REPLACED lists
them for roles/README.md; a test compares their source with the source that was read.
"""

import getpass
import inspect
import os
import sys
from copy import copy
from functools import cache
from importlib import import_module
from types import FrameType, SimpleNamespace
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

from pyinfra.api import Host, State, arguments, facts
from pyinfra.api.host import extract_callable_datas
from pyinfra.api.util import PYINFRA_INSTALL_DIR
from pyinfra.context import ContextObject, ctx_config, ctx_host, ctx_state

WAKE_SECONDS = 1.0
"""Seconds after which paramiko checks if a silent connection was closed here, or needs a keep-alive. Input wakes it
at once."""
_pop_global_arguments: Any = arguments.pop_global_arguments

UNCHANGED = "ENGINEHOUSE_PYINFRA_UNCHANGED"
"""Environment variable: if set, pyinfra and paramiko are not patched; runs are slower, with the same result."""

REPLACED = {
    "pyinfra.api.operation.get_operation_order_from_stack": "reads source files for line numbers that the frames have",
    "pyinfra.api.operation.signature": "inspects the same functions for each host",
    "pyinfra.api.operation.context": "looks up the current host through two proxies for each attribute",
    "pyinfra.api.arguments.all_global_arguments": "resolves the same type hints for each operation",
    "pyinfra.api.facts.all_global_arguments": "the same function under the name that facts call",
    "pyinfra.api.operation.pop_global_arguments": "looks up 33 arguments in every layer of a host's data",
    "pyinfra.api.facts.pop_global_arguments": "the same function under the name that facts call",
    "pyinfra.context.ContextObject.__getattr__": "asks twice for what the proxy stands for",
    "paramiko.config.getpass": "asks who is logged in for each entry of ssh_config and each host",
    "paramiko.transport.Transport._active_check_timeout": "wakes ten times a second for each silent connection",
    "pyinfra.connectors.ssh.SSHConnector.run_shell_command": "ends the run if one connection breaks (`connections.py`)",
    "pyinfra.connectors.ssh.SSHConnector.connect": "keeps no connection alive (`connections.py`)",
    "pyinfra.api.inventory.Inventory.make_hosts_and_groups": "reaches this machine by SSH, too (`here.py`)",
}
"""The attributes that this folder replaces, and the behaviour of the original."""


def install() -> None:
    """Orders every operation that is added from now on by `line_numbers`, unless UNCHANGED is set."""
    if os.environ.get(UNCHANGED):
        return
    # As an attribute, pyinfra.api.operation is a function and not the module.
    operation = import_module("pyinfra.api.operation")
    setattr(operation, "get_operation_order_from_stack", line_numbers)  # noqa: B010
    setattr(operation, "signature", cache(inspect.signature))  # noqa: B010
    for module in (arguments, facts):
        setattr(module, "all_global_arguments", global_arguments)  # noqa: B010
    for module in (operation, facts):
        setattr(module, "pop_global_arguments", pop_global_arguments)  # noqa: B010
    setattr(operation, "context", Now())  # noqa: B010
    setattr(ContextObject, "__getattr__", attribute)  # noqa: B010
    setattr(import_module("paramiko.config"), "getpass", SimpleNamespace(getuser=cache(getpass.getuser)))  # noqa: B010
    setattr(import_module("paramiko.transport").Transport, "_active_check_timeout", WAKE_SECONDS)  # noqa: B010


@cache
def global_arguments() -> tuple[tuple[str, Any], ...]:
    return tuple(get_type_hints(arguments.AllArguments).items())


class Now:
    """The host and the state that pyinfra's `host` and `state` currently stand for, which an operation keeps."""

    host = property(lambda _: ctx_host.get())
    state = property(lambda _: ctx_state.get())


def attribute(proxy: ContextObject, name: str) -> Any:
    """The attribute of the object behind pyinfra's `host` or `state`, resolved in a single step."""
    target = proxy._container.module
    return getattr(proxy._base_cls if target is None else target, name)


def pop_global_arguments(state: State, host: Host, keywords: dict[str, Any]) -> Any:
    """Global arguments of an operation, and the keys that it named: pyinfra's own result, cached for each host."""
    is_plain = _kept_names().isdisjoint(keywords) and isinstance(keywords.get("name", ""), str)
    if not is_plain or host.current_deploy_kwargs or host.get_deploy_data():
        return _popped(state, host, keywords)
    config = ctx_config.get() or state.config
    made_of = ({**vars(config), "ENV": dict(config.ENV)}, dict(host.data.override_datas))
    mine = host.state.inventory.get_host(host.name)
    if mine not in _kept or _kept[mine][0] != made_of:
        popped = _popped(state, host, {})[0]
        plain = {key for key, value in popped.items() if value is None or isinstance(value, bool | int | float | str)}
        _kept[mine] = made_of, popped, set(popped) - plain
    _, popped, more = _kept[mine]
    popped = popped | {key: copy(popped[key]) for key in more}
    return (popped | {"name": keywords.pop("name")}, ["name"]) if "name" in keywords else (popped, [])


@cache
def _kept_names() -> frozenset[str]:
    return frozenset(name for name, _ in global_arguments()) - {"name"}


def _popped(state: State, host: Host, keywords: dict[str, Any]) -> Any:
    """Global arguments and named keys by pyinfra's own function, from a flat copy of the host data that it reads."""
    layers = list(extract_callable_datas(host.data.datas))
    host_data = {
        key: copy(layer[key])
        for key, _ in global_arguments()
        if (layer := next((layer for layer in layers if key in layer), None)) is not None
    }
    narrow_host = SimpleNamespace(data=SimpleNamespace(**host_data), current_deploy_kwargs=host.current_deploy_kwargs)
    return _pop_global_arguments(state, narrow_host, keywords)


def line_numbers(state: State) -> list[int]:
    """The number of the verb's file, then the line of each call from the file to here, without pyinfra's own frames.

    The same as `pyinfra.api.util.get_operation_order_from_stack` returns under pyinfra's command line.
    """
    frames = list[tuple[str, int]]()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    frames.reverse()
    files = [file for file, _ in frames]
    verb = state.current_deploy_filename
    first = files.index(verb) if verb in files else (len(frames) - 1 if verb else 0)
    own = PYINFRA_INSTALL_DIR
    return [state.current_op_file_number, *(line for file, line in frames[first:] if not file.startswith(own))]


_kept: WeakKeyDictionary[Host, tuple[Any, dict[str, Any], set[str]]] = WeakKeyDictionary()
