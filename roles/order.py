"""What pyinfra does for each operation, question and login, done once or in microseconds. A fleet pays it per host.

pyinfra (3.10.0) orders operations by the line numbers of the call stack, and has `inspect` read the source around
every frame for it: 9 ms for each operation and host, two thirds of the CPU of a run on a fake host (62 operations,
0.80 s with it and 0.24 s without; 2026-11-23, a busy machine). The line numbers alone are in the frames. After that the
largest parts were the 33 arguments that every operation takes, each looked up in all layers of a host's data, and
paramiko, which asks who is logged in here for each entry of ssh_config and each host. pyinfra has no hook, so `install`
replaces the functions.
"""

from __future__ import annotations

import getpass
import inspect
import sys
from copy import copy
from functools import cache
from importlib import import_module
from types import FrameType, SimpleNamespace
from typing import Any, get_type_hints

from pyinfra.api import Host, State, arguments, facts
from pyinfra.api.host import extract_callable_datas
from pyinfra.api.util import PYINFRA_INSTALL_DIR

_pop_global_arguments: Any = arguments.pop_global_arguments


def install() -> None:
    """Every operation that is added from now on is placed by `line_numbers`."""
    # pyinfra.api.operation is a function to whoever asks for the attribute.
    operation = import_module("pyinfra.api.operation")
    setattr(operation, "get_operation_order_from_stack", line_numbers)  # noqa: B010
    setattr(operation, "signature", cache(inspect.signature))  # noqa: B010
    for module in (arguments, facts):
        setattr(module, "all_global_arguments", global_arguments)  # noqa: B010
    for module in (operation, facts):
        setattr(module, "pop_global_arguments", pop_global_arguments)  # noqa: B010
    setattr(import_module("paramiko.config"), "getpass", SimpleNamespace(getuser=cache(getpass.getuser)))  # noqa: B010


@cache
def global_arguments() -> tuple[tuple[str, Any], ...]:
    """Names and types of the arguments that every operation takes. pyinfra resolves them anew for each operation."""
    return tuple(get_type_hints(arguments.AllArguments).items())


def pop_global_arguments(state: State, host: Host, given: dict[str, Any]) -> Any:
    """What pyinfra's own returns: it gets those of a host's data that it asks for, and no more layers of data."""
    layers = list(extract_callable_datas(host.data.datas))
    said = {
        key: copy(layer[key])
        for key, _ in global_arguments()
        if (layer := next((layer for layer in layers if key in layer), None)) is not None
    }
    seen = SimpleNamespace(data=SimpleNamespace(**said), current_deploy_kwargs=host.current_deploy_kwargs)
    return _pop_global_arguments(state, seen, given)


def line_numbers(state: State) -> list[int]:
    """The number of the verb's file, then the line of each call from there to here, without pyinfra's own.

    As `pyinfra.api.util.get_operation_order_from_stack` returns it in the command line.
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
