"""The program that removes this project, as a single text: each module runs before those that import it."""

from roles._shipping.texts import HERE

MODULES = (
    "host",
    "host.removal",
    "host.removal.host_state",
    "host.removal.packages",
    "host.removal.put_back",
    "host.removal.take_off",
)
"""Modules in the order of their imports."""
TEXT = """#!/usr/bin/python3
import sys, types
for name, source in {sources!r}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
sys.exit(module.main(sys.argv[1:]))
"""


def program() -> str:
    """The program for `python3 - list` or `python3 - remove`. It writes no file on the host: the disk may be full."""
    sources = [(name, (HERE / "files" / _path(name)).read_text()) for name in MODULES]
    return TEXT.format(sources=sources)


def _path(name: str) -> str:
    is_package = any(module.startswith(f"{name}.") for module in MODULES)
    return f"{name.replace('.', '/')}/__init__.py" if is_package else f"{name.replace('.', '/')}.py"
