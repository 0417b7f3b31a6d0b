"""Engines that load behind the real Triton, and refused ones, by release: `pytest -m rehearsal`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.slices.host import ModelSlice
from deploy.spec import Lookahead
from tests.engine.engines import a_model, a_server, an_engine, write_engine, write_tokenizer
from tests.engine.server import Running, running

pytestmark = pytest.mark.rehearsal


@pytest.mark.parametrize("trtllm", ["0.18.2", "1.0.0", "1.1.0"])
def test_the_models_of_every_release_load_and_answer(tmp_path: Path, trtllm: str) -> None:
    write_tokenizer(tmp_path / "weights")
    engine = an_engine(write_engine(tmp_path / "engine", trtllm))
    with running(tmp_path, trtllm) as triton:
        assert triton.serve(a_server(a_model(engine, tmp_path / "weights", trtllm), trtllm=trtllm)) == ""
        events = triton.stream("llama", text_input="boiler", max_tokens=3)
        whole = triton.stream("llama_tensorrt_llm_bls", text_input="boiler", max_tokens=3)
    assert ([event["text_output"] for event in events], whole[-1]["text_output"]) == (["b", "o", "i"], "boi")


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yields a server of 1.2.1 that has loaded no model."""
    work = tmp_path_factory.mktemp("refusals")
    write_tokenizer(work / "weights")
    with running(work, "1.2.1") as server:
        yield server


Load = Callable[..., str]


@pytest.fixture
def load(triton: Running, tmp_path: Path, request: pytest.FixtureRequest) -> Load:
    """Loads an engine's model in Triton; returns Triton's error, or "". Keyword arguments change the engine."""
    number = str(abs(hash(request.node.nodeid)))

    def outcome(change: Callable[[dict[str, str]], Any] = lambda parameters: None, **engine: Any) -> str:
        parts = {key: engine.pop(key) for key in ("llm", "flags") if key in engine}
        folder = write_engine(tmp_path / "engine", **engine)
        model = named(number, an_engine(folder, **parts.get("flags", {})), tmp_path, **parts.get("llm", {}))
        change(model.settings["tensorrt_llm"])
        message = triton.serve(a_server(model))
        triton.ask(f"/v2/repository/models/m{number}_tensorrt_llm/unload", {})
        return message

    def named(number: str, engine: Any, work: Path, **changes: Any) -> ModelSlice:
        return a_model(engine, triton.repository.parent / "weights", name=f"m{number}", **changes)

    return outcome


def test_unknown_parameters_are_ignored(load: Load) -> None:
    assert load(lambda parameters: parameters.update(max_num_sequences="64")) == ""


def test_without_a_model_type_it_does_not_load(load: Load) -> None:
    assert "gpt_model_type is not specified" in load(lambda parameters: parameters.pop("gpt_model_type"))


@pytest.mark.parametrize("key", ["tokenizer_dir", "xgrammar_tokenizer_info_path", "guided_decoding_backend"])
def test_without_a_key_of_guided_decoding_it_does_not_load(load: Load, key: str) -> None:
    assert f"failed to find parameter {key}" in load(lambda parameters: parameters.pop(key))


def test_an_engine_that_is_not_there_does_not_load(load: Load) -> None:
    assert "model path at /nowhere does not exist" in load(
        lambda parameters: parameters.update(gpt_model_path="/nowhere")
    )


def test_an_engine_of_another_gpu_does_not_load(load: Load) -> None:
    assert "was built for SM 89, not supported on SM 90" in load(sm="89")


def test_an_engine_of_another_release_does_not_load(load: Load) -> None:
    assert "was built with TensorRT-LLM 1.1.0 and this is 1.2.1" in load(trtllm="1.1.0")


def test_an_engine_of_more_ranks_than_run_does_not_load(load: Load) -> None:
    assert "the engine has 2 ranks and MPI has 1" in load(world_size=2)


def test_a_cache_below_one_sequence_does_not_load(load: Load) -> None:
    assert "must be large enough for one sequence of 128" in load(
        lambda parameters: parameters.update(max_tokens_in_paged_kv_cache="64")
    )


def test_chunked_context_needs_an_engine_built_for_it(load: Load) -> None:
    message = load(
        lambda parameters: parameters.update(enable_chunked_context="true"), use_paged_context_fmha="disable"
    )
    assert "enable_chunked_context needs an engine built with use_paged_context_fmha" in message


def test_speculation_needs_an_engine_built_for_it(load: Load) -> None:
    assert "decoding_mode lookahead needs an engine built with lookahead_decoding" in load(
        llm={"speculative": Lookahead()}
    )


def test_speculation_in_agreement_with_the_engine_loads(load: Load) -> None:
    assert load(llm={"speculative": Lookahead()}, speculative_decoding_mode="lookahead_decoding") == ""


def test_two_ranks_serve_one_engine_and_end_together(tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "weights")
    engine = an_engine(write_engine(tmp_path / "engine", world_size=2))
    server = a_server(a_model(engine, tmp_path / "weights"), gpus=(0, 1), mpi_ranks=2)
    with running(tmp_path, "1.2.1", ranks=server) as triton:
        assert triton.serve(server) == ""
        assert [event["text_output"] for event in triton.stream("llama", text_input="boiler", max_tokens=2)] == [
            "b",
            "o",
        ]
        (second,) = [pid for pid in children(triton.process.pid) if "--allow-http=false" in words(pid)]
        os.kill(second, signal.SIGKILL)
        assert triton.process.wait(300) != 0
    assert "mpirun noticed that process rank 1" in triton.log.read_text()


def children(parent: int) -> list[int]:
    """Returns the process's children."""
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def words(pid: int) -> list[str]:
    """Returns the process's command line."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
