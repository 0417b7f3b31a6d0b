"""The 29 operations that `benchmarks/converge.py` runs with this project and with Ansible: equal tasks, counted."""

from __future__ import annotations

import hashlib
import os
import pwd
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import against_ansible
from benchmarks.against_ansible import Timed, is_recap_silent, summary
from benchmarks.side_by_side import operations
from tests.roles.fake import run

HOST = "@fake/host"
MINE = {operation.name: operation for operation in operations.operations(HOST)}
(PLAY,) = yaml.safe_load(Path(against_ansible.PLAYBOOK).read_text())
TASKS: dict[str, dict[str, Any]] = {task["name"]: task for task in PLAY["tasks"]}


def test_both_ways_do_the_same_operations_in_the_same_order() -> None:
    assert list(TASKS) == list(MINE) and len(MINE) == len(PLAY["tasks"]) == against_ansible.OPERATIONS


COPIED = [name for name, task in TASKS.items() if "ansible.builtin.copy" in task]


@pytest.mark.parametrize("name", COPIED)
def test_both_ways_put_the_same_file_at_the_same_path(name: str) -> None:
    arguments = TASKS[name]["ansible.builtin.copy"]
    content = (operations.HERE / "files" / arguments["src"]).read_bytes()
    rights = f"{int(arguments['mode'], 8):o} {arguments['owner']}:{arguments['group']}"
    wanted = f"{hashlib.sha256(content).hexdigest()}\n{rights}"
    assert MINE[name].wanted == wanted and arguments["dest"] in MINE[name].look


def test_both_tools_have_the_same_tasks_apart_from_copied_files() -> None:
    """Each task's path, unit, line, user or package occurs in the project's check of that task."""
    others = {name: task for name, task in TASKS.items() if name not in COPIED}
    for name, task in others.items():
        (arguments,) = (value for key, value in task.items() if key.startswith("ansible.builtin."))
        shown = f"{MINE[name].look} {MINE[name].wanted}"
        for key in ("path", "dest", "line"):
            assert str(arguments.get(key, "")) in shown
        assert (
            "mode" not in arguments
            or f"{int(arguments['mode'], 8):o} {arguments['owner']}:{arguments['group']}" in shown
        )
        names = arguments.get("name", [])
        assert all(word in shown for word in ([names] if isinstance(names, str) else names))


@pytest.mark.parametrize("kind", ["file", "directory", "link", "line", "absent"])
def test_the_fix_of_each_task_makes_its_check_pass(kind: str, tmp_path: Path) -> None:
    """The shell is real; a second check finds nothing to do."""
    path, me = tmp_path / "made", pwd.getpwuid(os.getuid()).pw_name
    owner = f"{me}:{subprocess.run(['id', '-gn'], capture_output=True, text=True, check=True).stdout.strip()}"
    made = {
        "file": lambda: operations.file("f", str(path), "a\nb\n", "0640", owner),
        "directory": lambda: operations.directory("d", str(path), "0750", owner),
        "link": lambda: operations.link("l", str(path), "/somewhere else"),
        "line": lambda: operations.line("l", str(path), "it's a line"),
        "absent": lambda: operations.absent("a", str(path)),
    }[kind]()
    if kind in ("line", "absent"):
        path.write_text("first\n")
    assert seen(made.look) != made.wanted
    for command in made.decide(seen(made.look)):
        stdin = getattr(command, "connector_arguments", {}).get("_stdin")
        subprocess.run(["sh", "-c", str(command)], input=stdin, text=True, check=True)
    assert list(made.decide(seen(made.look))) == []


def seen(look: str) -> str:
    """Returns the output of a check's shell text on this machine."""
    return subprocess.run(["sh", "-c", look], capture_output=True, text=True, check=False).stdout.rstrip("\n")


def test_a_converged_host_runs_the_lock_and_one_operation() -> None:
    answers = {operation.look: operation.wanted for operation in MINE.values()}
    ran = run(lambda: runpy.run_path(against_ansible.OURS), answers=answers, detect_changes=False)
    assert (len(ran.operations), ran.commands, ran.failed_hosts) == (3, (), ())


def test_a_bare_host_gets_all_of_it() -> None:
    ran = run(lambda: runpy.run_path(against_ansible.OURS), answers={"[ -e /etc/side.conf ]": "there"})
    assert [name.removeprefix("Side | ") for name in ran.changed] == list(MINE)


RECAP = """
PLAY RECAP *********************************************************************
a1                         : ok=29   changed=0    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
a2                         : ok=29   changed={changed}    unreachable=0    failed=0    skipped=0    rescued=0
"""


@pytest.mark.parametrize(("changed", "names", "silent"), [(0, "a1 a2", True), (1, "a1 a2", False), (0, "a1", False)])
def test_an_ansible_run_is_silent_if_every_machine_ran_unchanged(changed: int, names: str, silent: bool) -> None:
    assert is_recap_silent(RECAP.format(changed=changed), names.split()) == silent


def test_the_ratio_is_that_to_the_faster_strategy() -> None:
    runs = {
        "ours": [Timed(2.0, 1.0, 0, ""), Timed(9.0, 9.0, 0, ""), Timed(2.0, 1.0, 0, "")],
        "linear": [Timed(40.0, 9.0, 0, "")],
        "free": [Timed(30.0, 12.0, 0, "")],
    }
    figures = summary(runs, 8, "ansible [core 2.19.14]")
    assert (figures["ratio"], figures["cpu_ratio"], figures["ours"]["seconds"]) == (15.0, 12.0, 2.0)


def test_the_time_of_a_command_includes_its_children() -> None:
    work = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.2: pass'"
    done = against_ansible.timed(["sh", "-c", f"{work}; echo done; exit 3"], {})
    assert (done.code, done.output) == (3, "done\n") and done.cpu_seconds >= 0.2
