"""The program that puts a server into service, with a stand-in of Triton."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from host import places, prove
from tests.roles.web import Answer, Request, Web, serving

MODELS = (
    {"name": "embed", "kind": "embedder", "decoupled": False, "dimensions": 2},
    {"name": "rank", "kind": "reranker", "decoupled": False, "dimensions": 0},
    {"name": "chat", "kind": "llm", "decoupled": True, "dimensions": 0},
)
RIGHT: dict[str, Answer] = {
    "/v2/models/embed/infer": (200, {}, b'{"outputs": [{"name": "embeddings", "data": [0.6, 0.8]}]}'),
    "/v2/models/rank/infer": (200, {}, b'{"outputs": [{"name": "scores", "data": [1.5, -3.0]}]}'),
    "/v2/models/chat/generate_stream": (200, {}, b'data: {"text_output": "turns"}\n\ndata: {"text_output": ""}\n\n'),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server's folder, with a key and a release."""
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(places, "RUNTIME", tmp_path / "run")
    monkeypatch.setattr(prove.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(prove, "ANSWERS", 0)  # the measurement after the first answers has tests of its own
    (tmp_path / "servers/main/current").mkdir(parents=True)
    (tmp_path / "run/triton-main").mkdir(parents=True)
    (tmp_path / "run/triton-main/key").write_text("k3y\n")
    return tmp_path / "servers/main"


def call(
    place: Path,
    answers: dict[str, Answer],
    changing: dict[str, Callable[[], Answer]] | None = None,
    at_end: Callable[[], object] = lambda: None,
    **changes: Any,
) -> tuple[int, str, Web]:
    """Exit status, the recorded reason, and the requests to Triton. By default loads and readiness succeed."""

    def answer(request: Request) -> Answer:
        changed = (changing or {}).get(request.path)
        return changed() if changed else answers.get(request.path, (200, {}, b""))

    with serving(answer) as triton:
        port = int(triton.address.rsplit(":", 1)[1])
        settings = {
            "address": "127.0.0.1",
            "http_port": port,
            "restricted_header": "enginehouse-key",
            "start_seconds": 5,
        }
        (place / "current/server.json").write_text(json.dumps({**settings, "models": MODELS, **changes}))
        status = prove.main(["main"])
        at_end()
    return status, json.loads((place / "proof.json").read_text())["reason"], triton


def test_a_server_serves_if_every_model_answers(place: Path) -> None:
    assert call(place, RIGHT)[:2] == (0, "")


def test_models_are_loaded_one_by_one_in_the_planned_order(place: Path) -> None:
    paths = [request.path.removeprefix("/v2/") for request in call(place, RIGHT)[2].requests][1:]
    assert paths == [
        "repository/models/embed/load", "models/embed/ready", "models/embed/infer",
        "repository/models/rank/load", "models/rank/ready", "models/rank/infer",
        "repository/models/chat/load", "models/chat/ready", "models/chat/generate_stream",
    ]  # fmt: skip


def test_only_loading_carries_the_key(place: Path) -> None:
    requests = call(place, RIGHT)[2].requests
    carried = [
        request.path
        for request in requests
        if {name.lower(): value for name, value in request.headers.items()}.get("enginehouse-key") == "k3y"
    ]
    assert carried == [f"/v2/repository/models/{name}/load" for name in ("embed", "rank", "chat")]


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        (
            "/v2/repository/models/embed/load",
            (400, {}, b'{"error": "load failed: no such file\\n\\nAt:\\n  model.py(3): initialize\\n"}'),
            "embed does not load: load failed: no such file",
        ),
        (
            "/v2/models/embed/infer",
            (200, {}, b'{"outputs": [{"name": "embeddings", "data": [1.0, 0.0, 0.0]}]}'),
            "embed gives 3 numbers for a text; the plan says 2",
        ),
        (
            "/v2/models/embed/infer",
            (200, {}, b'{"outputs": [{"name": "embeddings", "data": [0.5, 0.5]}]}'),
            "embed gives a vector of length 0.7071; it should be 1",
        ),
        (
            "/v2/models/rank/infer",
            (200, {}, b'{"outputs": [{"name": "scores", "data": [0.5]}]}'),
            "rank gives [0.5] for two passages; it should be two numbers",
        ),
        (
            "/v2/models/rank/infer",
            (500, {}, b'{"error": "CUDA out of memory"}'),
            "rank answers its first request with 500: CUDA out of memory",
        ),
        (
            "/v2/models/chat/generate_stream",
            (200, {}, b'data: {"error": "executor worker died"}\n\n'),
            "chat answers its first prompt with: executor worker died",
        ),
        (
            "/v2/models/chat/generate_stream",
            (200, {}, b'data: {"text_output": ""}\n\n'),
            "chat answers its first prompt with an empty text",
        ),
    ],
)
def test_a_wrong_answer_is_not_taken_into_service(place: Path, path: str, answer: Answer, reason: str) -> None:
    assert call(place, RIGHT | {path: answer})[:2] == (1, reason)


FULL_ENCODER: Answer = (503, {}, b'{"error": "[request id: <id_unknown>] Exceeds maximum queue size"}')
FULL_LLM: Answer = (400, {}, b'data: {"error": "Exceeds maximum queue size: 2 requests run and 1 wait at most"}\n\n')
FULL_MIDST: Answer = (200, {}, b'data: {"error": "in ensemble \'chat\', Exceeds maximum queue size"}\n\n')


@pytest.mark.parametrize(
    ("path", "full"),
    [
        ("/v2/models/embed/infer", FULL_ENCODER),
        ("/v2/models/rank/infer", FULL_ENCODER),
        ("/v2/models/chat/generate_stream", FULL_LLM),
        ("/v2/models/chat/generate_stream", FULL_MIDST),
    ],
)
def test_the_proof_retries_while_a_models_queue_is_full(place: Path, path: str, full: Answer) -> None:
    answers = iter([full, full, RIGHT[path]])
    status, reason, triton = call(place, RIGHT, {path: lambda: next(answers)})
    assert (status, reason) == (0, "")
    assert [request.path for request in triton.requests].count(path) == 3


def test_a_queue_that_stays_full_ends_at_the_time_allowed(place: Path) -> None:
    status, reason, _ = call(place, RIGHT | {"/v2/models/chat/generate_stream": FULL_LLM}, start_seconds=0)
    assert status == 1
    assert reason == (
        "chat has no room for its first request, because clients keep its queue full"
        " within the time limit (start_seconds)"
    )


def test_an_unanswered_first_question_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "LATE_SECONDS", 5)  # earlier questions are answered within this time
    is_over = threading.Event()

    def hangs() -> Answer:
        is_over.wait(300)
        return RIGHT["/v2/models/embed/infer"]

    try:
        status, reason, _ = call(place, RIGHT, {"/v2/models/embed/infer": hangs}, is_over.set, start_seconds=0)
    finally:
        is_over.set()
    assert (status, reason) == (1, "embed does not answer its first request (timed out)")


def test_a_model_that_stays_unready_ends_at_the_time_allowed(place: Path) -> None:
    status, reason, _ = call(place, RIGHT | {"/v2/models/embed/ready": (400, {}, b"")}, start_seconds=0)
    assert (status, reason) == (1, "embed is loaded, but not ready within the time limit (start_seconds)")


def test_a_container_that_has_ended_is_not_waited_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINPID", "999999999")
    status, reason, _ = call(place, {"/v2/health/live": (400, {}, b"")}, start_seconds=3600)
    assert (status, reason) == (1, "Triton does not listen, and its container has ended; the unit's journal says why")


def test_a_model_that_is_not_decoupled_is_asked_with_generate(place: Path) -> None:
    models = [{"name": "chat", "kind": "llm", "decoupled": False, "dimensions": 0}]
    answers: dict[str, Answer] = {"/v2/models/chat/generate": (200, {}, b'{"text_output": "turns"}')}
    assert call(place, answers, models=models)[0] == 0


def test_the_load_times_are_written_down(place: Path) -> None:
    call(place, RIGHT)
    assert sorted(json.loads((place / "proof.json").read_text())["seconds"]) == ["chat", "embed", "rank"]


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("fd00::7", "http://[fd00::7]:8000"),
        ("::", "http://[::1]:8000"),
    ],
)
def test_a_server_is_asked_where_it_is_published(address: str, base: str) -> None:
    settings = {"address": address, "http_port": 8000, "restricted_header": "k", "start_seconds": 5}
    assert prove.Triton(settings, "main").base == base


def test_a_proxy_of_the_environment_is_not_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert call(place, RIGHT)[0] == 0


ENGINE = (
    {"name": "llama", "kind": "llm", "path": "engine", "decoupled": True, "dimensions": 0,
     "loads": ["llama_tensorrt_llm", "llama", "llama_tensorrt_llm_bls"]},
)  # fmt: skip
SAYS: Answer = (200, {}, b'data: {"text_output": "turns"}\n\n')
ENGINE_RIGHT: dict[str, Answer] = {
    "/v2/models/llama/generate_stream": SAYS,
    "/v2/models/llama_tensorrt_llm_bls/generate_stream": SAYS,
}


def test_an_engines_models_load_in_order_and_text_models_are_asked(place: Path) -> None:
    requests = call(place, ENGINE_RIGHT, models=ENGINE)[2].requests
    names = [request.path.removeprefix("/v2/") for request in requests if not request.path.endswith("ready")][1:]
    assert names == [
        "repository/models/llama_tensorrt_llm/load", "repository/models/llama/load",
        "repository/models/llama_tensorrt_llm_bls/load",
        "models/llama/generate_stream", "models/llama_tensorrt_llm_bls/generate_stream",
    ]  # fmt: skip


def test_an_engine_is_asked_in_its_own_words(place: Path) -> None:
    requests = call(place, ENGINE_RIGHT, models=ENGINE)[2].requests
    (question,) = (
        json.loads(request.body) for request in requests if request.path == "/v2/models/llama/generate_stream"
    )
    assert question == {"text_input": prove.PROMPT, "max_tokens": 8, "stream": True}


def test_the_contracts_model_is_asked_with_the_contracts_fields(place: Path) -> None:
    models = tuple(model | {"loads": [*model["loads"], "llama_completion"]} for model in ENGINE)
    answers = ENGINE_RIGHT | {"/v2/models/llama_completion/generate_stream": SAYS}
    requests = call(place, answers, models=models)[2].requests
    (question,) = (
        json.loads(request.body) for request in requests if request.path.endswith("llama_completion/generate_stream")
    )
    assert (question["sampling_param_max_tokens"], question["streaming"]) == (8, True)


def test_a_bls_model_that_says_nothing_is_not_served(place: Path) -> None:
    silent = ENGINE_RIGHT | {"/v2/models/llama_tensorrt_llm_bls/generate_stream": (200, {}, b"")}
    reason = call(place, silent, models=ENGINE)[1]
    assert reason == "llama_tensorrt_llm_bls answers its first prompt with an empty text"


def test_a_server_that_answered_serves_although_the_disk_is_full(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "proof.json").mkdir()  # a directory, so the file cannot be written
    with pytest.raises(IsADirectoryError):
        call(place, RIGHT)
    assert "proof.json was not written" in capsys.readouterr().err


def test_the_fastest_answer_of_each_model_is_written_down(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap compares this time with that of the earlier release."""
    monkeypatch.setattr(prove, "ANSWERS", 3)
    paths = [request.path for request in call(place, RIGHT)[2].requests]
    proof = json.loads((place / "proof.json").read_text())
    assert (sorted(proof["answers"]), paths.count("/v2/models/rank/infer")) == (["chat", "embed", "rank"], 4)


def test_a_proven_model_serves_even_if_its_timing_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may have come, and filled the model's queue."""
    monkeypatch.setattr(prove, "ANSWERS", 3)
    answers = iter([RIGHT["/v2/models/embed/infer"], *[(503, {}, b'{"error": "Exceeds maximum queue size"}')] * 9])
    status, _, _ = call(place, RIGHT, {"/v2/models/embed/infer": lambda: next(answers)})
    assert (status, sorted(json.loads((place / "proof.json").read_text())["answers"])) == (0, ["chat", "rank"])
