"""Loads inventories through pyinfra and makes their plans in the surroundings of this machine.

`deploy.py` and the other verbs of pyinfra call `planned`; `enginehouse` and programs call `load_plan`. pyinfra is
imported only when an inventory is loaded.
"""

import contextlib
import fnmatch
import os
import re
import select
import shlex
import sys
import traceback
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from deploy.inventory.fleet import Fleet, is_read
from deploy.inventory.knobs import Table
from deploy.io.certificates import key_problems, with_certificates
from deploy.io.engine_inputs import input_problems
from deploy.io.engine_records import with_engines
from deploy.io.group_data import unmatched_group_data, unread_group_data
from deploy.io.groups import (
    contradictions,
    group_meant,
    no_group_reason,
    repeated_hosts,
    shape_problems,
)
from deploy.io.host_keys import host_key_problems
from deploy.io.inventory_file import (
    PROGRAMS,
    PROGRAMS_AT,
    confirm_is_python,
    host_as_inventory,
    missing,
    syntax_refusal,
)
from deploy.io.key_file import models_of_keys
from deploy.io.limits import no_data_pair, no_host_in_limit
from deploy.io.local_weights import look_around
from deploy.io.mistakes import connector_refusal, ended_itself, explained
from deploy.io.model_lock import lock_of, read_lock
from deploy.io.named_files import missing_files
from deploy.planning.plan import Plan, make_plan
from deploy.refusals import Refusal, refuse, refuse_all
from deploy.validation.rollout import no_hosts, one_program, out_of_step

_plans: WeakKeyDictionary[Any, Plan] = WeakKeyDictionary()
_files: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The file of each inventory that was loaded in this process: pyinfra's inventory does not record it."""
_last_loaded: list[str] = [""]
"""The file of an inventory that pyinfra's own command loaded: config.py has loaded the same file before."""


def planned(inventory: Any, host: Any, knobs: Table | None = None) -> Plan:
    """The plan of the whole inventory, made once for all its hosts and limited to the hosts of `--limit`.

    `knobs` are the roles' declarations for `<role>_settings`. Raises: a Refusal for an inventory that the plan refuses,
    a plan other than `--data expect=DIGEST`, and engines whose build needs files that this machine lacks.
    """
    _confirm_run_by_pyinfra()
    real = getattr(host, "inventory", inventory)
    if real not in _plans:
        plan = _plan_of(real, knobs)
        refuse_all([*input_problems(plan.slices, Path.cwd()), *key_problems(plan.balancers, Path.cwd(), plan.slices)])
        _plans[real] = plan
    limited = getattr(getattr(real, "state", None), "limit_hosts", None)
    return _plans[real].only(host.name for host in limited) if isinstance(limited, list) else _plans[real]


def _confirm_run_by_pyinfra() -> None:
    """Ends a program that Python runs without pyinfra. Raises: a Refusal if pyinfra has not read the config.py beside
    it."""
    from pyinfra.context import ctx_inventory

    program, words = Path(sys.argv[0]).name, sys.argv[1:]
    if program in PROGRAMS and not ctx_inventory.isset():
        file = next((word for word in words if word.endswith(".py")), "INVENTORY")
        raise SystemExit(f"{program} is a program of pyinfra. Write: pyinfra {file} {program} --dry")
    if program == "pyinfra" and "--config" not in words and not Path("config.py").exists():
        raise refuse(
            "without-config",
            f"pyinfra reads config.py in the current directory alone, and there is none in {Path.cwd()}",
            where=str(Path.cwd()),
            seen=" ".join(["pyinfra", *words[:2]]),
            wanted=f"the directory {PROGRAMS_AT}",
            attempt=f"cd {PROGRAMS_AT}; then the command with paths from there",
        )


def _plan_of(inventory: Any, knobs: Table | None) -> Plan:
    """The plan of an inventory in the surroundings of this machine."""
    fleet, root = Fleet.of(inventory, knobs), Path.cwd()
    if hasattr(inventory, "get_group_data"):
        unread = (*fleet.unread, *contradictions(inventory, is_read), *host_key_problems(inventory, root))
        fleet = replace(fleet, unread=unread)
    around = with_certificates(with_engines(look_around(fleet, root), inventory, fleet, root), fleet, root)
    file = _files.get(inventory, _last_loaded[0])
    around = replace(around, inventory=file, locked=read_lock(lock_of(file)) if file else {})
    keys, unread_keys = models_of_keys(root)
    missing = (*missing_files(inventory, fleet, root), *unread_keys)
    return make_plan(fleet, replace(around, missing=missing, keys=keys))


def load_inventory(file: str, data: dict[str, Any]) -> Any:
    """pyinfra's own reading of an inventory: group data, host data, and `data` with precedence over both.

    Raises: a Refusal for a file that is not Python, ends with an exception, or would make pyinfra fail.
    """
    from pyinfra.api.exceptions import PyinfraError
    from pyinfra.api.state import State
    from pyinfra.context import ctx_state
    from pyinfra_cli.exceptions import UnexpectedExternalError
    from pyinfra_cli.inventory import make_inventory
    from pyinfra_cli.util import PYTHON_CODES

    PYTHON_CODES.pop(file, None)  # pyinfra would run what it compiled before a verb such as `pin` changed the file
    confirm_is_python(file)
    _last_loaded[0] = file
    if (here := str(Path.cwd())) not in sys.path:  # as pyinfra's own command does, so that an inventory may import
        sys.path.append(here)
    with ctx_state.use(State()):
        try:
            _confirm_groups(file)
            with contextlib.redirect_stdout(sys.stderr):  # what the file prints is no part of a verb's output
                inventory = make_inventory(file, override_data=data, cwd=str(Path.cwd()))
            _files[inventory] = file
            return inventory
        except UnexpectedExternalError as error:
            raise explained(error.exception, str(error.filename)) from None
        except SyntaxError as error:  # in a file of group_data
            raise syntax_refusal(error, str(error.filename), file) from None
        except Refusal:
            raise
        except (PyinfraError, ValueError) as error:  # ValueError: a connector's program printed no JSON
            raise connector_refusal(error, file) from None


def _confirm_groups(file: str) -> None:
    """Raises: a Refusal for groups that pyinfra cannot read, or would silently read in part."""
    from pyinfra_cli.util import exec_file

    here = Path.cwd()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            variables = exec_file(file, return_locals=True)
    except SystemExit as error:
        if (place := traceback.extract_tb(error.__traceback__)[-1]) and "pyinfra_cli" in place.filename:
            raise  # Ctrl-C, which pyinfra's own command turns into SystemExit
        raise ended_itself(error, file) from None
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:  # such as asyncio.CancelledError, which pyinfra lets through
        raise explained(error, file) from None
    if (elsewhere := Path.cwd()) != here:
        os.chdir(here)
        raise refuse(
            "inventory-elsewhere",
            f"{file} changes the current directory, from which every path is read",
            where=file,
            seen=f"os.chdir to {elsewhere}",
            wanted="a file that only declares hosts",
            attempt="take os.chdir out; Path(__file__).parent is the directory of the file",
        )
    folders = [folder / "group_data" for folder in {Path(file).parent, Path()}]
    refuse_all(unread_group_data(folders))
    refuse_all(shape_problems(variables, file))
    if reason := no_group_reason(variables):
        raise no_hosts(reason, group_meant(variables))
    public = {name for name, value in variables.items() if name[0] != "_" and isinstance(value, list | tuple)}
    refuse_all(unmatched_group_data(folders, public | {"all", Path(file).stem}))
    refuse_all(repeated_hosts(variables, is_read))


def confirm_loads(file: str, data: Iterable[str] = (), limit: Iterable[str] = (), is_verb: bool = False) -> None:
    """Confirms that the inventory loads.

    Raises: a Refusal if pyinfra would print a traceback over an inventory file, or would succeed without a host.

    An argument that is not a file (a host's name, `@local`, a module) is left to pyinfra, unless a verb needs its plan.
    """
    if Path(file).exists():
        inventory = load_inventory(file, override_data(data))
        if not list(inventory):
            raise no_hosts()
        names_in(inventory, limit)
    elif "/" in file.partition("@")[0] or file.endswith(".py"):
        raise missing(file)
    elif is_verb and not Path("group_data").is_dir():
        raise host_as_inventory(file)


def confirm_in_step(operations: Iterable[str], serial: bool, no_wait: bool) -> None:
    """Raises: a Refusal if a verb is called with `--serial` or `--no-wait`, which take hosts out of step.

    pyinfra's own commands have no gates and may have these options.
    """
    programs = list(operations)
    if are_verbs(programs):
        refuse_all(one_program(programs))
        refuse_all(
            out_of_step(word for word, is_given in {"--serial": serial, "--no-wait": no_wait}.items() if is_given)
        )


def confirm_can_answer(typed: Iterable[str]) -> None:
    """Raises: a Refusal if pyinfra would ask for a key press, and its input is closed, empty, or a pipe that has ended.

    cron gives its jobs such a pipe, and systemd the null device. `typed`: the words of the command line.
    """
    from gevent.monkey import get_original

    try:
        is_empty = os.path.samestat(os.fstat(0), os.stat(os.devnull))
        poll = get_original("select", "poll")()  # gevent's reports the end of a pipe as input
        poll.register(0, select.POLLIN)
        has_ended = any(event & select.POLLHUP and not event & select.POLLIN for _, event in poll.poll(0))
    except OSError:
        is_empty = has_ended = True
    if is_empty or has_ended:
        words = ["pyinfra", *typed]
        hidden = ["…" if re.fullmatch("--[a-z-]*password", before) else word for before, word in pairwise(["", *words])]
        command = shlex.join(re.sub("^(--[a-z-]*password=).*", r"\1…", word) for word in hidden)
        raise refuse(
            "no-answer",
            "pyinfra asks before it changes hosts, and its input is empty: nobody can answer",
            where="standard input",
            seen="no terminal, and neither -y nor --dry",
            wanted="a terminal; or -y, after a plan that somebody has read",
            attempt=f"{command} --dry; then {command} -y",
        )


def are_verbs(operations: Iterable[str]) -> bool:
    """True if pyinfra was called with deploy files, and not with a command of its own (`exec`, a fact)."""
    return all(word.endswith(".py") for word in operations)


def load_plan(file: str, data: Iterable[str] = (), limit: Iterable[str] = (), knobs: Table | None = None) -> Plan:
    """The plan of an inventory file, for programs such as the smoke tests; `data` and `limit` as pyinfra takes them."""
    loaded = load_inventory(file, override_data(data))
    return _plan_of(loaded, knobs).only(names_in(loaded, limit))


def host_data(file: str, data: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    return {host.name: host.data.dict() for host in load_inventory(file, override_data(data))}


def names_in(inventory: Any, limit: Iterable[str]) -> list[str]:
    """Hosts of these groups, names or patterns, as pyinfra's `--limit` takes them; all hosts without a limit.

    Raises: a Refusal for a word of `limit` that matches no host.
    """
    words = tuple(limit)
    if not words:
        return [host.name for host in inventory]
    from pyinfra_cli.cli import _apply_inventory_limit

    hosts, groups = [host.name for host in inventory], [name for name in inventory.groups if inventory.groups[name]]
    refuse_all(
        no_host_in_limit(word, hosts, groups)
        for word in words
        if word not in groups and not fnmatch.filter(hosts, word)
    )
    return [host.name for host in _apply_inventory_limit(inventory, words)]


def override_data(pairs: Iterable[str]) -> dict[str, Any]:
    """`--data key=value`, read as pyinfra reads it."""
    from pyinfra_cli.util import parse_cli_arg

    split = [pair.partition("=") for pair in pairs]
    for key, equals, value in split:
        if problem := no_data_pair(key, value, bool(equals)):
            raise problem
    return {key: parse_cli_arg(value) for key, _, value in split}
