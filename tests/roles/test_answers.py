"""A question that a host never answers: the messages, and the actions that are skipped for lack of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyinfra.api import FactBase
from pyinfra.connectors.util import run_local_process

from roles import foundation, preflight
from roles._pyinfra import steps
from roles._pyinfra.steps import CachedFact, check, step
from tests.roles.fake import Ran, Then, run
from tests.roles.slices import a_slice

ROLES = Path(__file__).parents[2] / "roles"


class Board(FactBase[list[str]]):
    """The GPU's own description.

    More about it.
    """

    default = list

    def command(self) -> str:
        return "nvidia-smi"


def hangs(_: str) -> str:
    """pyinfra's own answer after the time limit, returned at once."""
    raise TimeoutError


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ANSWER_SECONDS", 0)


def act(_: list[str]) -> Iterator[str]:
    """A command that must not run: it would act on the default with which pyinfra continues."""
    yield "systemctl stop triton@main"


def story() -> None:
    step(CachedFact(Board), act, name="Act")
    step(CachedFact(Board), act, name="Act again")


def played(answer: object, story: Callable[[], object] = story) -> Ran:
    """A run with a host that gives `answer`, beside a host that always answers."""
    return run(story, hosts=("one", "two"), answers={"one": {"nvidia-smi": answer}, "two": {"nvidia-smi": "here"}})


def test_a_host_that_answers_late_fails_alone_and_nothing_is_done_on_it() -> None:
    for answer in (hangs, Then("here", {"success": False})):
        ran = played(answer)
        assert (ran.failed_hosts, ran.stopped) == (("one",), "")
        assert [step.commands for step in ran.steps if step.host == "two"] == [("systemctl stop triton@main",)] * 2
        assert "systemctl stop triton@main" not in [heard.command for heard in ran.shell["one"]]


def test_a_host_that_hangs_at_the_second_question_is_not_changed() -> None:
    class Once:
        questions = 0

        def __call__(self, command: str) -> str:
            self.questions += 1
            return "here" if self.questions == 1 else hangs(command)

    ran = played(Once(), lambda: step(CachedFact(Board), act, name="Act"))
    assert (ran.failed_hosts, "systemctl stop triton@main" in [heard.command for heard in ran.shell["one"]]) == (
        ("one",),
        False,
    )
    assert "steps that ended are done; without this answer nothing more was changed" in "\n".join(ran.log)


def test_a_missing_answer_is_never_verified() -> None:
    judged: list[object] = []
    played(hangs, lambda: check(CachedFact(Board), lambda seen: judged.append(seen) or (), name="Check"))
    assert [] not in judged


def test_the_message_names_the_host_the_question_and_the_next_command() -> None:
    lines = [line for line in played(hangs).log if line.startswith("[@fake/one]")]
    text = "\n".join(lines)
    assert "[@fake/one] the host did not answer a question within 0 s" in text
    assert "Board: The GPU's own description." in text and "More about it" not in text
    assert "nothing was changed on this host" in text and "ps -eo pid,stat,args" in text


def test_a_silent_host_is_reported_if_it_is_the_only_one() -> None:
    """pyinfra ends a run whose only host is silent with an exception."""
    ran = run(story, answers={"nvidia-smi": hangs})
    assert (ran.stopped, "did not answer a question" in "\n".join(ran.log)) == ("No hosts remaining!", True)


def test_every_question_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ANSWER_SECONDS", 300)
    ran = run(lambda: step(CachedFact(Board), lambda _: [], name="Look"))
    assert [heard.seconds for heard in ran.shell["host"]] == [300, 300]


def test_a_host_that_hangs_is_asked_once_because_all_others_wait() -> None:
    ran = played(hangs)
    assert len([heard for heard in ran.shell["one"] if "nvidia-smi" in heard.command]) == 1


def test_an_immediate_failure_is_not_reported_as_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ANSWER_SECONDS", 300)
    ran = played({"success": False})
    assert (ran.failed_hosts, "did not answer a question" in "\n".join(ran.log)) == (("one",), False)


def test_no_role_asks_without_a_limit() -> None:
    asking = [path for path in ROLES.rglob("*.py") if re.search(r"\bget_facts?\(", path.read_text())]
    assert asking == [ROLES / "_pyinfra/steps.py"]


def test_a_missing_answer_is_no_finding_of_preflight() -> None:
    """A hanging login does not count as a login with a password prompt, which would end the run for every host."""
    mine = a_slice()
    answers = {"one": {"id -un": hangs}, "two": {"id -un": ["user=root", "uid=0"]}}
    ran = run(lambda: preflight.confirm(mine), hosts=("one", "two"), answers=answers, dry=True)
    assert ran.failed_hosts == ("one",)
    assert "cannot become root" not in "\n".join(ran.log)


def test_a_host_that_does_not_say_whether_it_serves_is_given_up() -> None:
    answers = {"one": {"list-units": hangs}, "two": {}}
    ran = run(lambda: steps.ask(steps.host, foundation.Serving), hosts=("one", "two"), answers=answers, dry=True)
    assert ran.failed_hosts == ("one",)


def test_pyinfra_ends_a_command_that_outlives_its_time() -> None:
    """The connectors to this machine and over SSH read their commands with the same function."""
    with pytest.raises(TimeoutError):
        run_local_process("sleep 3", timeout=1)
