"""Runs a role against fake hosts in this process, and reports its actions: the tool of every role test.

    ran = run(lambda: docker.apply(mine), answers={"dpkg-query": "docker-ce 5:29.1"})
    assert ran.commands == ("apt-mark hold docker-ce",)

pyinfra itself does the work (its state, its ordering by source line, its `--dry`), only the connector is scripted. The
output of a fact or command comes from `answers`; a command without a match succeeds without output. The rehearsal tests
the commands themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyinfra
from pyinfra.api import Config, FileUploadCommand, FunctionCommand, Host, Inventory, State, StringCommand
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.api.operations import run_ops
from pyinfra.api.state import StateStage
from pyinfra.connectors.fake import FakeConnector
from pyinfra.connectors.util import CommandOutput, OutputLine
from pyinfra.context import ctx_config, ctx_host, ctx_inventory, ctx_state, init_base_classes

from roles._pyinfra import fact_batch, order
from roles._shipping import units

ENDED_WELL = "ActiveState=inactive\nResult=success"
SIZE = re.compile(r"\) = \d+ ")
"""Size of a file in the command that writes it, which changes with every edit of a program."""
Answer = Any
"""A string of output, a list of lines, {"stdout", "stderr", "success"}, a function of the command, or `Then`."""


class Then:
    """Answers in turn, the last one for ever, for a fact that changes after an action."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    def __call__(self, command: str) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@dataclass(frozen=True)
class Step:
    """An operation on a host. `would_change` is the answer of --dry; `commands` are the commands that then ran."""

    host: str
    name: str
    would_change: bool
    commands: tuple[str, ...] = ()
    failed: bool = False


@dataclass(frozen=True)
class Ran:
    """The outcome of a run; the tuples have the entries of all hosts in pyinfra's order (see `on`)."""

    steps: tuple[Step, ...]
    stopped: str = ""
    """The reason why the whole run stopped ("No hosts remaining!"), empty if it went to its end."""
    failed_hosts: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    """Lines pyinfra and the roles logged."""
    shell: dict[str, list[Heard]] = field(default_factory=dict)
    """Every command and query of each host, including facts and commands of callbacks."""

    @property
    def operations(self) -> tuple[str, ...]:
        """Names of all operations, changed or not."""
        return tuple(step.name for step in self.steps)

    @property
    def would_change(self) -> tuple[str, ...]:
        """Names of the operations that --dry reports as changes."""
        return tuple(step.name for step in self.steps if step.would_change)

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the operations that changed something."""
        return tuple(step.name for step in self.steps if step.commands and not step.failed)

    @property
    def commands(self) -> tuple[str, ...]:
        """Shell commands of all operations; uploads appear as `put PATH`, callbacks as `call NAME`."""
        return tuple(command for step in self.steps for command in step.commands)

    def on(self, host: str) -> Ran:
        """The outcome of one host only."""
        return Ran(tuple(step for step in self.steps if step.host == host), self.stopped, self.failed_hosts, self.log)


@dataclass(frozen=True)
class Heard:
    """A shell command as the connector got it."""

    command: str
    stdin: str = ""
    sudo: bool = False
    executing: bool = False
    seconds: int | None = None
    """Time limit in seconds; None for none."""


class ScriptedConnector(FakeConnector):
    """@fake with answers that may change over time, which records standard input, and can be unreachable."""

    answers: Mapping[Any, Answer] = {}
    reachable = True
    heard: list[Heard]

    def __init__(self, state: State, host: Host) -> None:
        super().__init__(state, host)
        self.heard = []

    def connect(self) -> None:
        if not self.reachable:
            raise ConnectError(f"Could not connect ({self.host.name} is scripted to be unreachable)")

    def run_shell_command(self, command, print_output=False, print_input=False, **arguments):
        if isinstance(command, fact_batch.Script):
            return self._answer_all(command, arguments)
        text = command if isinstance(command, str) else command.get_masked_value()
        stdin = arguments.get("_stdin") or ""
        stdin = stdin if isinstance(stdin, str) else "".join(stdin)
        executing = bool(self.state.is_executing)
        self.heard.append(Heard(text, stdin, bool(arguments.get("_sudo")), executing, arguments.get("_timeout")))
        return super().run_shell_command(command, print_output, print_input, **arguments)

    def _answer_all(self, script, arguments):
        """Returns the answers to all questions of the script, each answered separately."""
        lines = [f"{fact_batch.BEGAN} {Path('/proc/uptime').read_text().split()[0]}"]
        for number, question in enumerate(script.calls):
            alone = StringCommand(question.fact().command(**question.arguments))
            as_root = {"_sudo": True} if script.prefix and number else {}
            done, output = self.run_shell_command(alone, **{**arguments, **as_root})
            lines += [*output.stdout_lines, "", f"{fact_batch.END} {number} {0 if done else 1}"]
        return True, CommandOutput([OutputLine("stdout", line) for line in lines])

    def _lookup_response(self, command_str: str):
        for matcher, answer in self.answers.items():
            if matcher.search(command_str) if isinstance(matcher, re.Pattern) else matcher in command_str:
                self.data["fake_responses"] = {command_str: answer(command_str) if callable(answer) else answer}
                return super()._lookup_response(command_str)
        # systemd answers by default; a test where it does not gives its own response.
        self.data["fake_responses"] = {command_str: ENDED_WELL} if units.PROPERTIES in command_str else {}
        return super()._lookup_response(command_str)


def run(
    story: Callable[[], object],
    *,
    answers: Mapping[Any, Answer] | Mapping[str, Mapping[Any, Answer]] | None = None,
    hosts: Sequence[str] = ("host",),
    data: Mapping[str, Any] | None = None,
    unreachable: Sequence[str] = (),
    dry: bool = False,
    detect_changes: bool = True,
) -> Ran:
    """The outcome of `story` (deploy code, called once per host) on the hosts.

    `answers` is one script for all hosts, or one per host if its keys are the hosts' names. `dry` stops after prepare.
    `detect_changes=False` is the CLI's `-y`. A `Refusal` raised by deploy code is raised as by the CLI.
    """
    per_host = answers if answers and set(answers) <= set(hosts) else dict.fromkeys(hosts, answers or {})
    names = [(f"@fake/{name}", {"fake_delay": 0, "fake_delay_jitter": 0, **(data or {})}) for name in hosts]
    inventory = Inventory((names, {}))
    for host in inventory:
        short = host.name.removeprefix("@fake/")
        host.connector_cls = type(
            "Scripted",
            (ScriptedConnector,),
            {"answers": per_host.get(short, {}), "reachable": short not in unreachable},
        )
    logged: list[str] = []
    with ExitStack() as stack:
        state = _begin(stack, inventory, logged, detect_changes)
        return _play(state, story, logged, dry)


def _begin(stack: ExitStack, inventory: Inventory, logged: list[str], detect_changes: bool) -> State:
    """A pyinfra state in the CLI's mode; `stack` restores everything global."""
    init_base_classes()
    order.install()
    state = State(check_for_changes=detect_changes)
    state.cwd = str(Path(__file__).parents[2])
    stack.enter_context(mock.patch.object(pyinfra, "is_cli", True))
    for level in ("info", "warning", "error"):
        stack.enter_context(
            mock.patch.object(pyinfra.logger, level, lambda text, *rest, **_: logged.append(_plain(text, rest)))
        )
    for context, value in ((ctx_state, state), (ctx_inventory, inventory)):
        stack.enter_context(context.use(value))
    state.init(inventory, Config())
    state.print_noop_info = True
    return state


def _plain(text: object, rest: tuple[object, ...]) -> str:
    """A log line without colours."""
    line = str(text) % rest if rest else str(text)
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def _play(state: State, story: Callable[[], object], logged: list[str], dry: bool) -> Ran:
    stopped = ""
    try:
        state.set_stage(StateStage.Connect)
        connect_all(state)
        state.set_stage(StateStage.Prepare)
        state.current_deploy_filename = story.__code__.co_filename
        for host in list(state.inventory.get_active_hosts()):
            with ctx_config.use(state.config.copy()), ctx_host.use(host):
                story()
        foreseen = _foreseen(state)
        if not dry:
            state.set_stage(StateStage.Execute)
            run_ops(state)
    except PyinfraError as error:
        if state.current_stage != StateStage.Execute and "hosts" not in str(error):
            raise
        stopped, foreseen = str(error), _foreseen(state)
    failed = tuple(sorted(host.name.removeprefix("@fake/") for host in state.failed_hosts))
    shell = {host.name.removeprefix("@fake/"): host.connector.heard for host in state.inventory if host.connected}
    return Ran(_steps(state, foreseen), stopped, failed, tuple(logged), shell)


def _foreseen(state: State) -> dict[tuple[str, str], bool]:
    """The answer of --dry for every operation."""
    return {
        (host.name, key): bool(planned.operation_meta._maybe_is_change)
        for host in state.inventory
        for key, planned in state.ops[host].items()
    }


def _steps(state: State, foreseen: Mapping[tuple[str, str], bool]) -> tuple[Step, ...]:
    return tuple(
        Step(
            host.name.removeprefix("@fake/"),
            ", ".join(sorted(state.get_op_meta(key).names)),
            foreseen.get((host.name, key), False),
            tuple(_as_text(command) for command in meta._commands or ()),
            meta._success is False,
        )
        for key in state.get_op_order()
        for host in state.inventory
        if key in state.ops[host]
        for meta in [state.ops[host][key].operation_meta]
    )


def _as_text(command: object) -> str:
    """A command in the form that tests compare; its standard input follows, unless that is a whole program."""
    if isinstance(command, StringCommand):
        stdin = str(command.connector_arguments.get("_stdin") or "")
        shown = stdin if stdin.count("\n") <= 60 and not stdin.startswith("#!") else "(a program)\n"
        return f"{SIZE.sub(') = (its size) ', str(command))}\n{shown}" if stdin else str(command)
    if isinstance(command, FileUploadCommand):
        return f"put {command.dest}"
    if isinstance(command, FunctionCommand):
        return f"call {command.function.__name__}"
    return repr(command)
