"""A swap that compares: the serving LLM gets the prompts before its stop, the new LLM before it is active."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from host import places, prove, prove_llm, recording, replies, server, swap
from tests.roles.triton.swapping import FakeHost
from tests.roles.web import Answer, Request, Web, serving

UNITS = ("triton@main.service", "llm@main.service")
REPLAY: dict[str, Any] = {
    "model": "llama", "prompts": ["hello", "bye"], "tasks": [{"prompt": "1+1=", "expected": "warm"}], "gpus": 1,
    "max_tokens": 4, "equal_percent": 90.0, "minimum_percent": 100.0, "streams": 2,
}  # fmt: skip
Texts = Callable[[dict[str, Any]], str]


def events(text: str, ids: list[int] | None = None) -> Answer:
    """A streamed completion."""
    choice = {"index": 0, "text": text} | ({"token_ids": ids} if ids else {})
    rows = [{"choices": [choice]}, {"choices": [], "usage": {"completion_tokens": 3}}]
    lines = [*(f"data: {json.dumps(row)}\n\n" for row in rows), "data: [DONE]\n\n"]
    return 200, {"Content-Type": "text/event-stream; charset=utf-8"}, "".join(lines).encode()


class Machine(FakeHost):
    """A host with LLMs beside Triton, all with the same engine, whose text depends on the serving release."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, engine: Web) -> None:
        super().__init__(root, monkeypatch)
        self.port = int(engine.address.rsplit(":", 1)[1])
        self.units[UNITS[1]] = "inactive"
        (root / "units").mkdir()
        (root / "units/llm@.service").touch()
        monkeypatch.setattr(places, "UNITS", root / "units")
        monkeypatch.setattr(server.systemd, "show", lambda unit, *names: self.show(unit, *names))
        monkeypatch.setattr(prove.time, "sleep", lambda seconds: None)
        monkeypatch.setattr(prove_llm, "ANSWERS", 0)

    def systemctl(self, *arguments: str) -> None:
        """The LLM's unit is active if its proof succeeds."""
        super().systemctl(*arguments)
        if arguments[0] == "start" and UNITS[1] in arguments:
            self.units[UNITS[1]] = "active" if prove_llm.main(["main"]) == 0 else "failed"

    def add(self, release: str, runtime: str = "vllm", flags: str = "") -> None:
        """Adds a release whose LLM runs in this program."""
        self.publish(release)
        folder = self.root / "releases" / release
        settings = json.loads((folder / "server.json").read_text())
        settings |= {"address": "127.0.0.1", "http_port": 1, "llm_port": self.port, "restricted_header": "key"}
        settings |= {"llm": {"name": "llama", "runtime": runtime}, "models": [], "start_seconds": 60}
        (folder / "server.json").write_text(json.dumps(settings))
        (folder / "llm").mkdir()
        (folder / "llm/run").write_text(f"{runtime} {flags} {release}\n")


@pytest.fixture
def texts() -> dict[str, str]:
    """The engine's text for each serving release."""
    return {"one": "it is warm", "two": "it is warm", "odd": "not at all"}


@pytest.fixture
def engine() -> Iterator[tuple[Web, list[Texts]]]:
    """The program's endpoint; its text is that of the last function in the list."""
    text_of: list[Texts] = [lambda body: "it is warm"]

    def answer(request: Request) -> Answer:
        if request.path == "/health":
            return 200, {}, b""
        body = json.loads(request.body)
        if not body.get("stream"):
            return 200, {}, b'{"usage": {"completion_tokens": 1}}'
        return events(text_of[-1](body), [1, 2, 3] if body.get("return_token_ids") else None)

    with serving(answer) as web:
        yield web, text_of


@pytest.fixture
def machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: tuple[Web, list[Texts]], texts: dict[str, str]
) -> Machine:
    """Release one runs vLLM; releases two and odd run trtllm-serve, and odd answers differently."""
    web, text_of = engine
    made = Machine(tmp_path, monkeypatch, web)
    text_of.append(lambda body: texts[made.link("current")])
    for release in texts:
        made.add(release, "vllm" if release == "one" else "trtllm-serve")
    assert made.ask("one") == 0
    web.requests.clear()
    return made


def test_an_llm_that_answers_alike_takes_the_place_and_both_are_measured(machine: Machine) -> None:
    assert (machine.ask("two", replay=REPLAY), machine.links) == (0, ("two", "one"))
    compared = machine.history[-1]["compared"]
    assert (compared["equal_percent"], compared["unit"], compared["met"], compared["met_before"]) == (
        100.0,
        "words",
        1,
        1,
    )
    assert all(compared[side]["tokens_per_second"] > 0 for side in ("before", "now"))
    assert compared["now"]["requests"] == 4


def test_an_llm_with_different_answers_never_serves_and_the_earlier_one_does(machine: Machine) -> None:
    assert (machine.ask("odd", replay=REPLAY), machine.links) == (1, ("one", ""))
    assert [machine.units[unit] for unit in UNITS] == ["active", "active"]
    assert machine.verdict["sentence"] == "odd does not serve; one is put back and serves"
    reason = "llama: 0.0 % of 6 words equal (90.0 % wanted), 0 of 1 tasks met, 1 before (100.0 % wanted)"
    assert machine.verdict["reason"].splitlines()[:2] == ["its answers differ from its predecessor's", reason]
    assert machine.verdict["compared"]["is_good"] is False


def test_no_server_stops_before_the_answers_are_recorded(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: Any) -> dict[str, Any]:
        assert machine.link("current") == "one" and "stop" not in machine.calls[seen:]
        raise replies.Unanswered("500: no")

    seen = len(machine.calls)
    monkeypatch.setattr(replies, "measure", measure)
    assert machine.ask("two", replay=REPLAY) == 1
    assert machine.verdict["sentence"] == "two was not tried; the serving release stays in service"
    assert machine.verdict["reason"] == "llama, which serves, does not answer the replay (500: no)"
    assert machine.units[UNITS[1]] == "active" and "stop" not in machine.calls[seen:]


def test_answers_that_no_disk_takes_stop_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "write", write)
    assert (machine.ask("two", replay=REPLAY), machine.link("current")) == (1, "one")
    assert "could not be recorded ([Errno 28] No space left on device)" in machine.verdict["reason"]
    assert machine.units[UNITS[1]] == "active"


def test_a_release_that_is_not_there_is_refused_as_ever(machine: Machine) -> None:
    assert machine.ask("none", replay=REPLAY) == 1
    assert machine.verdict["reason"] == "release none is not on this host"


def test_prompts_are_greedy_and_tasks_are_sampled_with_one_seed(
    machine: Machine, engine: tuple[Web, list[Texts]]
) -> None:
    machine.ask("two", replay=REPLAY)
    bodies = [json.loads(request.body) for request in engine[0].requests if request.path != "/health"]
    streamed = [body for body in bodies if body.get("stream")]
    assert {(body["prompt"], body["temperature"], body["seed"]) for body in streamed} == {
        ("hello", 0.0, 0),
        ("bye", 0.0, 0),
        ("1+1=", 1.0, 0),
    }
    # trtllm-serve refuses fields that it does not know.
    assert [body.get("return_token_ids", False) for body in streamed] == [True] * 9 + [False] * 9


def test_a_reverted_or_restarted_release_is_not_compared(machine: Machine, engine: tuple[Web, list[Texts]]) -> None:
    machine.ask("odd", replay=REPLAY)
    engine[0].requests.clear()
    assert prove_llm.main(["main"]) == 0
    assert not [request for request in engine[0].requests if b'"stream"' in request.body]
    assert not (machine.root / "servers/main/replay.json").exists()


def test_recorded_answers_are_readable_by_root_only_and_end_with_the_swap(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes, bring = list[int](), swap.bring

    def brought(*arguments: Any) -> None:
        modes.append((machine.root / "servers/main/replay.json").stat().st_mode & 0o777)
        bring(*arguments)

    monkeypatch.setattr(swap, "bring", brought)
    machine.ask("two", replay=REPLAY)
    assert modes == [0o600] and not (machine.root / "servers/main/replay.json").exists()


def test_a_cut_swap_leaves_no_record(machine: Machine) -> None:
    (machine.root / "servers/main/replay.json").touch()
    machine.cut("one", "two")
    assert machine.call("undo") == 0 and not (machine.root / "servers/main/replay.json").exists()


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda host: host.units.update({UNITS[1]: "failed"}), "llm@main.service was not running"),
        (lambda host: (host.root / "releases/two/llm/run").write_text("vllm  one\n"), "llama is unchanged"),
        (
            lambda host: (host.root / "releases/one/server.json").write_text(
                (host.root / "releases/one/server.json").read_text().replace('"llama"', '"other"')
            ),
            "one did not serve llama",
        ),
    ],
)
def test_a_swap_without_a_predecessor_continues_with_a_note(
    machine: Machine, prepare: Callable[[Machine], Any], reason: str
) -> None:
    prepare(machine)
    assert machine.ask("two", replay=REPLAY) == 0
    assert machine.history[-1]["not_compared"] == reason and "compared" not in machine.history[-1]


def test_a_first_release_is_compared_with_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: tuple[Web, list[Texts]]
) -> None:
    made = Machine(tmp_path, monkeypatch, engine[0])
    made.add("one")
    assert made.ask("one", replay=REPLAY) == 0
    assert made.history[-1]["not_compared"] == "no other release served llama before"


def test_the_first_batch_of_a_load_compiles_kernels_and_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_prompts: list[str] = []

    def ask(engine: Any, dialect: Any, prompt: str, *_: Any) -> replies.Reply:
        asked_prompts.append(prompt)
        return replies.Reply(made=1, first_seconds=3.0 if len(asked_prompts) <= REPLAY["streams"] else 0.05)

    monkeypatch.setattr(replies, "ask", ask)
    no_engine: Any = None
    figures = replies.load(no_engine, replies.Completions("llama", "vllm"), REPLAY, 0.0)
    assert (figures["requests"], len(asked_prompts)) == (4, 4 + REPLAY["streams"])
    assert figures["first_token_p95_ms"] == 50.0


def test_an_llm_in_triton_is_asked_in_the_slot_s_own_words() -> None:
    """The LLM is being promoted to another program, or back."""
    asked_bodies = []

    def answer(request: Request) -> Answer:
        asked_bodies.append((request.path, json.loads(request.body)))
        body = b'data: {"text_output": "it is"}\n\ndata: {"text_output": " warm"}\n\n'
        return 200, {"Content-Type": "text/event-stream"}, body

    with serving(answer) as web:
        settings = {"address": "127.0.0.1", "http_port": int(web.address.rsplit(":", 1)[1]), "start_seconds": 9}
        triton = prove.Triton(settings | {"restricted_header": "key"}, "main")
        dialect = replies.Generate({"name": "llama", "path": "engine", "decoupled": True})
        reply = replies.ask(triton, dialect, "hello", 4, False, triton.deadline)
    assert (reply.text, reply.tokens) == ("it is warm", 2)
    assert asked_bodies[0][0] == "/v2/models/llama_completion/generate_stream"
    assert asked_bodies[0][1]["sampling_param_temperature"] == 0.0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {}, b'{"message": "no"}'), '400: {"message": "no"}'),
        ((200, {"Content-Type": "text/event-stream"}, b'data: {"error": "no"}\n\n'), "no"),
        ((200, {}, b"<html>"), "Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_a_question_without_an_answer_ends_the_replay_with_its_reason(answer: Answer, reason: str) -> None:
    with serving(lambda request: answer) as web:
        settings = {"address": "127.0.0.1", "http_port": int(web.address.rsplit(":", 1)[1]), "start_seconds": 9}
        triton = prove.Triton(settings | {"restricted_header": "key"}, "main")
        dialect = replies.Generate({"name": "llama", "decoupled": True})
        with pytest.raises(replies.Unanswered) as unanswered:
            replies.ask(triton, dialect, "hello", 4, False, triton.deadline)
    assert str(unanswered.value) == reason


def test_a_full_queue_is_waited_for_until_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of the serving LLM may fill the queue."""
    monkeypatch.setattr(prove.time, "sleep", lambda seconds: None)
    answers = iter([(503, {}, b""), (400, {}, b"Exceeds maximum queue size"), events("warm")])
    with serving(lambda request: next(answers)) as web:
        settings = {"address": "", "http_port": 1, "llm_port": int(web.address.rsplit(":", 1)[1]), "start_seconds": 9}
        settings |= {"restricted_header": "key", "llm": {"name": "llama", "runtime": "vllm"}}
        engine = prove_llm.Engine(settings, "main")
        reply = replies.ask(engine, replies.Completions("llama", "vllm"), "hello", 4, False, engine.deadline)
        assert reply.text == "warm"
        with pytest.raises(replies.Unanswered, match="did not finish within the time limit"):
            replies.ask(engine, replies.Completions("llama", "vllm"), "hello", 4, False, 0.0)
