"""Hosts without changes: their remaining operations, their facts, and changes by others in between."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyinfra import host
from pyinfra.api import FactBase, StringCommand
from pyinfra.operations import server

from deploy.refusals.errors import Refusal
from roles._pyinfra import fact_batch, quiet
from roles._pyinfra.steps import CachedFact, Refuse, ask, check, step
from tests.roles.fake import Ran, Then, run


class Lines(FactBase[list[str]]):
    """A fact with the fake host's answer."""

    default = list

    def command(self, about: str = "there") -> str:
        return f"what is {about}"

    def process(self, output: list[str]) -> list[str]:
        return output


class Early(Lines):
    """A fact that is asked before any step has a name."""


def story() -> None:
    """A minimal deploy.py: steps before and after a gate, each with its own fact."""
    server.shell("gate", name="Gate 1")
    here, above = CachedFact(Lines, {"about": "here"}), CachedFact(Lines, {"about": "above"})
    first = step(here, lambda seen: [] if "a" in seen else ["make a"], name="First")
    check(here, lambda seen: [Refuse(refusal())] if "bad" in seen else [], after=[first], name="Check")
    quiet.recheck()
    server.shell("gate", name="Gate 2")
    second = step(above, lambda seen: [] if "b" in seen else ["make b"], name="Second")
    step(above, lambda _: ["restart"], only_after=[first, second], name="Restart")
    quiet.recheck()
    quiet.leave_out_unchanged()


def refusal() -> Refusal:
    return Refusal("this is bad", attempt="do better", state="nothing was touched")


def played(here: Any, above: Any, **how: Any) -> Ran:
    """Runs as with `-y`."""
    return run(story, answers={"is here": here, "is above": above}, detect_changes=False, **how)


LOOK = "Host | Confirm that no step has changes"
STEPS = ("Gate 1", "First", "Check", "Gate 2", "Second", "Restart")


def test_a_host_that_wants_nothing_keeps_its_gates() -> None:
    ran = played("a", "b")
    assert (ran.operations, ran.changed) == (("Gate 1", LOOK, "Gate 2", LOOK), ("Gate 1", "Gate 2"))


@pytest.mark.parametrize(
    ("here", "above", "commands"),
    [
        ("", "b", ("gate", "make a", "gate", "restart")),
        ("a", "", ("gate", "gate", "make b", "restart")),
    ],
)
def test_a_host_with_one_change_keeps_the_order_of_steps(here: str, above: str, commands: tuple[str, ...]) -> None:
    ran = played(here, above)
    assert (ran.operations, ran.commands) == (STEPS, commands)


def test_a_refusal_keeps_the_steps_and_is_printed_once() -> None:
    ran = played("a\nbad", "b")
    assert (ran.failed_hosts, "\n".join(ran.log).count("this is bad")) == (("host",), 1)


def test_dry_lists_each_hosts_changes() -> None:
    answers = {"done": {"is here": "a", "is above": "b"}, "new": {"is here": "", "is above": "b"}}
    ran = run(story, hosts=("done", "new"), answers=answers, dry=True)
    assert [
        (step_of_host.host, step_of_host.name)
        for step_of_host in ran.steps
        if step_of_host.would_change and "Gate" not in step_of_host.name
    ] == [
        ("new", "First"),
        ("new", "Restart"),
    ]


def test_a_finished_host_beside_a_new_one_is_left_alone() -> None:
    answers = {"done": {"is here": "a", "is above": "b"}, "new": {"is here": "", "is above": "b"}}
    ran = run(story, hosts=("done", "new"), answers=answers, detect_changes=False)
    assert [step.host for step in ran.steps if step.name in ("First", "Restart") and step.commands] == ["new", "new"]
    assert ran.on("done").operations == ("Gate 1", LOOK, "Gate 2", LOOK)


def test_a_change_undone_meanwhile_is_redone_before_the_next_gate() -> None:
    """The host had no change at prepare; once this run holds it, another run has changed it."""
    ran = played(Then("a", ""), "b")
    heard = [
        heard_command.command
        for heard_command in ran.shell["host"]
        if heard_command.executing and heard_command.command in ("gate", "make a")
    ]
    assert heard == ["gate", "make a", "gate"]
    assert "nested operation: First" in "\n".join(ran.log)


def test_a_step_that_fails_there_fails_its_host() -> None:
    answers = {"is here": Then("a", ""), "is above": "b", "make a": {"success": False}}
    ran = run(story, answers=answers, detect_changes=False)
    assert (ran.failed_hosts, [heard.command for heard in ran.shell["host"]].count("gate")) == (("host",), 1)


def commands(ran: Ran) -> list[str]:
    return [heard.command for heard in ran.shell["host"] if heard.command.startswith("what is")]


def test_an_unchanged_host_answers_each_fact_once_in_each_phase() -> None:
    assert commands(played("a", "b")) == ["what is here", "what is above"] * 2


def test_answers_that_are_old_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_batch, "FRESH_SECONDS", -1)
    assert len(commands(played("a", "b"))) > 4


def shelled(questions: list[fact_batch.FactCall]) -> dict[int, list[str]]:
    """Answers of a real shell, by the number of the question."""
    shell = [str(fact_batch.Together.shell_executable), "-c", str(fact_batch.Script(questions))]
    ran = subprocess.run(shell, capture_output=True, text=True, check=True, timeout=300)
    answers = fact_batch.Together().process(ran.stdout.split("\n")[:-1])
    return {number: lines for number, lines in answers.items() if number != fact_batch.UPTIME}


class Shell(Lines):
    """A piece of shell as a fact."""

    def command(self, shell: str = "") -> str:
        return shell


class Bash(Shell):
    """A piece of bash as a fact."""

    shell_executable = "bash"


def test_questions_in_one_command_are_answered_as_if_alone() -> None:
    scripts = ["printf 'no line end'", "echo 'a  b'; echo; echo \"it's\"", "true", "exit 3", "cat", "echo a; echo"]
    answers = shelled([fact_batch.FactCall(Shell, {"shell": script}) for script in scripts])
    assert answers == {0: ["no line end"], 1: ["a  b", "", "it's"], 2: [], 4: [], 5: ["a", ""]}


def test_questions_in_one_command_are_asked_side_by_side_and_answered_in_order(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    scripts = [f"cat {pipe}", f"echo from the second >{pipe}; seq 20000"]  # the first ends only beside the second
    first, second = shelled([fact_batch.FactCall(Shell, {"shell": script}) for script in scripts]).values()
    assert (first, second[-1], len(second)) == (["from the second"], "20000", 20000)


def test_each_question_has_the_shell_it_wants() -> None:
    questions = [fact_batch.FactCall(fact, {"shell": 'echo "${BASH_VERSION:+bash}"'}) for fact in (Bash, Shell)]
    assert shelled(questions)[0] == ["bash"]


def test_a_question_that_ends_badly_is_asked_alone() -> None:
    def asking() -> None:
        looks = [CachedFact(Lines, {"about": about}) for about in ("broken", "here")]
        host.log(str([look.now() for look in looks]))

    ran = run(asking, answers={"broken": Then({"success": False}, "mended"), "is here": "a"})
    assert commands(ran) == ["what is broken", "what is here", "what is broken"]


def test_more_than_one_command_can_hold_is_asked_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_batch, "LONGEST_SCRIPT", 60)
    sent = list[int]()
    monkeypatch.setattr(fact_batch.Script, "__init__", counting(sent))

    def asking() -> None:
        looks = [CachedFact(Lines, {"about": about}) for about in "abcde"]
        host.log(str([look.now() for look in looks]))

    ran = run(asking)
    assert (commands(ran), sent) == ([f"what is {about}" for about in "abcde"], [3, 2])


def counting(sent: list[int]) -> Any:
    real = fact_batch.Script.__init__

    def made(script: fact_batch.Script, questions: Any, prefix: str) -> None:
        sent.append(len(questions))
        real(script, questions, prefix)

    return made


def test_a_question_with_its_own_arguments_gets_its_own_command() -> None:
    def asking() -> None:
        fact_batch.note(Lines, about="me", _sudo=False)
        CachedFact(Lines, {"about": "here"})
        host.log(str(ask(host, Lines, about="me", _sudo=False)))

    assert commands(run(asking)) == ["what is me"]


def test_a_change_by_another_reading_is_seen() -> None:
    """The answers that came together are dropped as soon as a step has changed the host."""

    def changing() -> None:
        step(CachedFact(Lines, {"about": "here"}), lambda seen: [] if "a" in seen else ["make a"], name="First")
        step(CachedFact(Lines, {"about": "above"}), lambda seen: [StringCommand(*seen)], name="Second")

    ran = run(changing, answers={"is here": "", "is above": Then("old", "new")})
    assert "new" in ran.commands
