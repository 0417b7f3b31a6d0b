"""A host with an unreadable answer fails alone: its message names question and place, and the run continues on
the other hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyinfra.api import FactBase

from deploy.rollout import replay
from roles import preflight
from roles._pyinfra import fact_batch, undo
from roles._pyinfra.lock import Holder, HolderNow, taken
from roles._pyinfra.steps import CachedFact, check, step
from roles._shipping import peers
from roles._shipping.programs import Version
from roles.engines import signing
from roles.engines.building import explained
from roles.engines.signing import Sign
from roles.rollout.facts import RolloutFacts
from roles.triton.run_history import Change
from tests.roles.engines.samples import an_engine
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice

DEEP = "[" * 100_000
FORMS = ["x", DEEP, "{", "null", "[1]", '{"server": 5}', "\x00"]


class Memory(FactBase[int]):
    """The host's memory."""

    default = int

    def command(self) -> str:
        return "free"

    def process(self, output: list[str]) -> int:
        return int(output[0])


class Words(FactBase[list[str]]):
    """The host's words."""

    default = list

    def command(self) -> str:
        return "words"


def act(_: object) -> Iterator[str]:
    """A command that must not run after an unreadable answer."""
    yield "systemctl stop triton@main"


def counts(words: list[str]) -> Iterator[str]:
    """A command made of the answer's number; raises ValueError for a word that is not a number."""
    yield f"sleep {int(words[0])}"


def played(story: Callable[[], object], answers: dict[object, object]) -> Ran:
    """A run with a host that gives these answers, and a host with good answers."""
    good = {"free": "5", "words": "5", "id -un": ["user=root", "uid=0"]}
    return run(story, hosts=("one", "two"), answers={"one": {**answers, "id -un": good["id -un"]}, "two": good})


@pytest.mark.parametrize("answer", FORMS)
@pytest.mark.parametrize(
    ("story", "command"),
    [
        (lambda: step(CachedFact(Memory), act, name="Act"), "systemctl stop triton@main"),
        (lambda: step(CachedFact(Words), counts, name="Count"), "sleep 5"),
        (lambda: check(CachedFact(Words), counts, name="Judge"), "sleep 5"),
    ],
)
def test_an_unreadable_answer_fails_its_host_alone(story: Callable[[], object], command: str, answer: str) -> None:
    """pyinfra ends the run of all hosts with a traceback at any other exception."""
    ran = played(story, {"free": answer, "words": answer})
    assert (ran.failed_hosts, ran.stopped) == (("one",), "")
    assert [heard.host for heard in ran.steps if command in heard.commands] == ["two"]
    text = "\n".join(line for line in ran.log if line.startswith("[@fake/one]"))
    assert "the host's answer has an unknown form" in text and "enginehouse doctor" in text


def test_facts_that_are_asked_together_are_unreadable_one_by_one() -> None:
    def story() -> None:
        facts = CachedFact(Memory), CachedFact(Words)
        step(facts[1], act, name="Act")
        step(facts[0], act, name="Act again")

    ran = played(story, {"free": "x", "words": "here"})
    assert (ran.failed_hosts, ran.stopped) == (("one",), "")
    assert "Memory" in "\n".join(ran.log)


@pytest.mark.parametrize("mark", ["999 0", "9" * 5000 + " 0", "0 " + "9" * 5000, "٣ 0", "-1 0"])
def test_a_mark_of_no_question_answers_none(mark: str) -> None:
    """The host itself prints the marks between its answers."""
    calls = [fact_batch.FactCall(Words, {}), fact_batch.FactCall(Memory, {})]
    lines = [f"{fact_batch.BEGAN} {'9' * 5000}.0", "a", f"{fact_batch.END} {mark}", "b", "", f"{fact_batch.END} 0 0"]
    cache = fact_batch.FactCache()
    answers = cache._ask(calls, lambda fact, batch: fact_batch.Together().process(lines))
    assert set(answers) <= {0}


@pytest.mark.parametrize(
    "changes",
    [
        {"memory-kib": "x"},
        {"memory-kib": "9" * 5000},
        {"clock": "inf"},
        {"clock": "nan"},
        {"pci": "a"},
        {"room": "a b c d e f"},
    ],
)
def test_a_machine_that_describes_itself_in_no_known_form_fails_alone(changes: dict[str, str]) -> None:
    mine = a_slice("debian-12")
    (name, answer), *_ = changes.items()
    ran = played(lambda: preflight.confirm(mine), {re.compile(rf"answer {name} "): f"value\t{name}\t{answer}"})
    assert "one" in ran.failed_hosts
    text = "\n".join(line for line in ran.log if line.startswith("[@fake/one]"))
    assert "has an unknown form" in text and "roles/preflight/judge.py:" in text


@pytest.mark.parametrize("text", [*FORMS, '{"run": [1]}', '{"who": {}}', '{"strange": 1}'])
def test_a_run_that_holds_a_host_is_unknown_if_its_record_is(text: str) -> None:
    """An unreadable holder could not be compared with the holders of other hosts."""
    assert Holder.of(text) == Holder() == HolderNow().process(["held", text])
    assert "(unknown)" in str(taken({"one": Holder.of(text)}, 2))


@pytest.mark.parametrize(
    "record",
    [
        *FORMS[1:3],
        '{"server": 5}',
        '{"server": "main", "swap": [1]}',
        '{"server": "main", "swap": {"seconds": "5"}}',
        '{"server": "main", "swap": {"answers": {"bge": "fast"}}}',
        '{"server": "main", "swap": {"answers_before": {"bge": -1e999}}}',
        '{"server": "main", "release": [1]}',
    ],
)
def test_a_servers_state_is_read_whole_or_refused(record: str) -> None:
    with pytest.raises((ValueError, LookupError, TypeError, RecursionError)):
        RolloutFacts().process(["not JSON", f"{{{record}" if record == DEEP else record])


def test_a_servers_state_of_today_is_read() -> None:
    swap = '{"seconds": 12.5, "release": "a", "from": "b", "answers": {"bge": 0.1}, "answers_before": {"bge": 0.1}}'
    line = f'{{"server": "main", "release": "a", "active": "active", "invocation": "1", "swap": {swap}, "problem": ""}}'
    assert RolloutFacts().process([line])["main"].swap["seconds"] == 12.5


@pytest.mark.parametrize("name", ["run", "server", "from", "release", "wave", "who", "plan"])
def test_a_line_of_history_with_other_types_is_no_change(name: str) -> None:
    """A server's name is looked up among the servers of the plan."""
    record = {"run": '"r"', "server": '"main"', "from": '"a"', "release": '"b"', "result": '"serves"'}
    lines = [", ".join(f'"{key}": {value}' for key, value in (record | more).items()) for more in ({}, {name: "[1]"})]
    assert [len(list(Change.of(f"{{{line}}}"))) for line in lines] == [1, 0]
    assert not list(Change.of(f'{{"result": {DEEP}'))


def test_small_records_of_a_host_are_read_or_left_out() -> None:
    assert Version().process(["\t\t"]) == ""
    assert [peers._read(text) for text in (*FORMS[1:4], "[1]", "5")] == [None] * 5
    assert "was not built, and its build left no message" in explained(an_engine(), {})


@pytest.mark.parametrize("content", [b"x", DEEP.encode(), b"[1]", b"\xff", b"null"])
def test_an_engine_with_an_unreadable_record_is_not_signed(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature is made on this machine: another exception would end the run of all hosts."""
    lines: list[str] = []
    monkeypatch.setattr(signing, "read", lambda *_: content)
    monkeypatch.setattr(signing, "sign", lambda *_: pytest.fail("it was signed"))

    class Silent:
        """A host that keeps its lines here."""

        def log_styled(self, line: str, **_: object) -> None:
            lines.append(line)

    nobody: Any = None
    silent: Any = Silent()
    assert not Sign(an_engine(), nobody).execute(nobody, silent, {})
    assert "has an unknown form" in lines[0] or "another engine" in lines[0]


@pytest.mark.parametrize("record", [DEEP, "[1]", '{"said": 5, "paths": [5]}', "x"])
def test_a_revert_in_other_words_is_reported(record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "over_a_new_connection", lambda *_: (True, [record]))
    watched = undo.WatchedChange(
        name="docker", what="Docker's settings", paths=(), after=(), seconds=1, made_within=1, attempt="mend"
    )
    confirm = undo.Confirm(watched)
    nobody: Any = None
    taken_back = confirm._taken_back(nobody, nobody, {})
    assert "shut this program out" in str(confirm._refusal(taken_back))


def test_unreadable_answers_of_a_replay_are_refused() -> None:
    with pytest.raises((ValueError, LookupError, TypeError, RecursionError)):
        replay.answers(DEEP)
