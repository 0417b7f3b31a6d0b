"""The computing LLM, a tiny Llama on a CPU: batching, streaming, stop words, cancelling and refusals.

More than 300 lines: all tests share one loaded model.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rehearsal.real_gpu import weights
from rehearsal.real_gpu.llm import lay
from rehearsal.triton_image import STAND_INS

CLASS = "class PartReasoningText: ...\n"
PROMPTS = ["hello", "The quick brown fox jumps over the lazy dog. " * 3, "x" * 200, "Where is the library?"]
BLOCK = 32
TOKENS = 2048

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own deprecations at import are not ours to fix
    transformers = pytest.importorskip("transformers", reason="pip install transformers, in the test group of the lock")


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("tensorrt_llm", "openai")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "llama"
    weights.llama(folder, "tiny", "cpu")
    return folder


@pytest.fixture(scope="module")
def trt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Yields the packages of the image of a machine with a GPU, with `openai` repaired."""
    packages = tmp_path_factory.mktemp("packages") / "packages"
    shutil.copytree(STAND_INS / "packages", packages, ignore=shutil.ignore_patterns("__pycache__"))
    lay(packages)
    (packages / "openai/types/responses/response_content_part_added_event.py").write_text(CLASS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(packages)
        forget()
        import tensorrt_llm

        yield tensorrt_llm
        forget()


@pytest.fixture(scope="module")
def start(trt: ModuleType, checkpoint: Path) -> Iterator[Callable[..., Any]]:
    started = []

    def start(**arguments: Any) -> Any:
        cache = {"max_tokens": TOKENS, "enable_block_reuse": False}
        wanted = {"model": str(checkpoint), "max_seq_len": 512, "max_batch_size": 8, "max_num_tokens": 64}
        started.append(trt.LLM(**wanted | {"kv_cache_config": cache} | arguments))
        return started[-1]

    yield start
    for llm in started:
        if llm.model:
            llm.shutdown()


@pytest.fixture(scope="module")
def llm(start: Callable[..., Any]) -> Any:
    return start()


@pytest.fixture(scope="module")
def greedy(checkpoint: Path) -> Callable[[list[int], int], list[int]]:
    """Returns the answer of transformers' own `generate` to a prompt."""
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)

    def greedy(ids: list[int], tokens: int) -> list[int]:
        answer = model.generate(
            torch.tensor([ids]), max_new_tokens=tokens, do_sample=False, temperature=None, top_p=None
        )
        return answer[0, len(ids) :].tolist()

    return greedy


def stream(llm: Any, prompt: str, stopped: Callable[[], bool] = lambda: False, **sampling: Any) -> tuple[str, Any]:
    """Returns (the parts of the answer joined, the last output)."""
    parts = []
    for output in llm.stream(prompt, stopped, **sampling):
        parts.append(output.new_text)
    return "".join(parts), output


def together(count: int, act: Callable[[int], Any]) -> list[Any]:
    """Returns results of `act` for each number, in parallel threads."""
    answers: list[Any] = [None] * count

    def run(number: int) -> None:
        try:
            answers[number] = act(number)
        except Exception as trouble:
            answers[number] = trouble

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def cache(llm: Any) -> Any:
    return llm.loop._manager.batch_processor.cache


def requests_in_cache(llm: Any) -> set[str]:
    """Returns requests that hold blocks; transformers 5.17 and later keep them in another structure."""
    blocks = cache(llm)
    allocators = (
        blocks.group_cache_managers if hasattr(blocks, "group_cache_managers") else blocks.cache_allocators.values()
    )
    return {request for allocator in allocators for request in allocator.block_table}


def slow_until(llm: Any, event: threading.Event) -> None:
    """Gives the threads of a test time for each token until the event: a busy computer runs them late."""
    forward = llm.model.forward

    def slow(*arguments: Any, **named: Any) -> Any:
        event.wait(0.1)
        return forward(*arguments, **named)

    llm.model.forward = slow


def idle(llm: Any) -> None:
    """Waits until the loop has taken a request, and so has finished all earlier work."""
    stream(llm, "done?", max_tokens=1)


def test_prompts_together_get_the_tokens_each_gets_alone(llm: Any, greedy: Callable[..., list[int]]) -> None:
    answers = together(4, lambda number: stream(llm, PROMPTS[number], max_tokens=24)[1])
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        assert answer.token_ids == greedy(llm.tokenizer.encode(prompt).ids, 24)
        assert answer.finish_reason == "length"


def test_the_parts_of_a_stream_are_the_whole_answer(llm: Any, trt: ModuleType) -> None:
    for prompt in PROMPTS:
        parts, output = stream(llm, prompt, max_tokens=24)
        whole = llm.generate(prompt, trt.SamplingParams(max_tokens=24)).outputs[0]
        assert parts == output.text == whole.text == llm.tokenizer.decode(whole.token_ids)


def test_an_answer_ends_before_any_part_of_its_stop_word(llm: Any) -> None:
    _, free = stream(llm, PROMPTS[0], max_tokens=24)
    middle = len(free.text) // 2
    stop = free.text[middle : middle + 12]
    parts, output = stream(llm, PROMPTS[0], max_tokens=24, stop=["never said", stop])
    assert parts == output.text == free.text[: free.text.find(stop)]
    assert (output.finish_reason, output.stop_reason) == ("stop", stop)
    idle(llm)
    assert requests_in_cache(llm) == set()


def test_an_answer_ends_with_the_token_that_ends_answers(
    llm: Any, start: Callable[..., Any], checkpoint: Path, tmp_path: Path
) -> None:
    _, free = stream(llm, PROMPTS[0], max_tokens=24)
    end = free.token_ids[9]
    shutil.copytree(checkpoint, tmp_path / "llama")
    (tmp_path / "llama/generation_config.json").write_text(json.dumps({"eos_token_id": [end]}))
    _, output = stream(start(model=str(tmp_path / "llama")), PROMPTS[0], max_tokens=24)
    assert output.finish_reason == "stop"
    assert output.token_ids == free.token_ids[: free.token_ids.index(end) + 1]


def test_cancelling_frees_the_cache_and_the_others_go_on(llm: Any, greedy: Callable[..., list[int]]) -> None:
    seen, ended = threading.Event(), threading.Event()

    def act(number: int) -> Any:
        if number:
            seen.wait(30)
            return stream(llm, PROMPTS[number], max_tokens=100)[1]
        polled = iter(range(1000))
        answers = llm.stream(PROMPTS[0], lambda: next(polled) > 10, max_tokens=400)
        first = next(answers)
        seen.set()
        *_, last = [first, *answers]
        ended.set()
        return last

    forward = llm.model.forward
    slow_until(llm, ended)
    cancelled, finished = together(2, act)
    llm.model.forward = forward
    assert cancelled.finish_reason == "cancelled"
    assert 0 < len(cancelled.token_ids) < 400
    assert finished.token_ids == greedy(llm.tokenizer.encode(PROMPTS[1]).ids, 100)
    idle(llm)
    assert requests_in_cache(llm) == set()


def test_a_consumer_that_goes_away_frees_the_cache(llm: Any) -> None:
    answers = llm.stream(PROMPTS[0], max_tokens=400)
    next(answers)
    answers.close()
    idle(llm)
    assert requests_in_cache(llm) == set()


def test_more_requests_than_the_cache_holds_are_all_answered(
    start: Callable[..., Any], greedy: Callable[..., list[int]]
) -> None:
    llm = start(max_seq_len=256, kv_cache_config={"max_tokens": 288, "enable_block_reuse": False})
    answers = together(4, lambda number: stream(llm, PROMPTS[number], max_tokens=50)[1])
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        assert answer.token_ids == greedy(llm.tokenizer.encode(prompt).ids, 50)


def test_the_cache_has_the_planned_size(llm: Any) -> None:
    assert cache(llm).num_blocks * BLOCK == TOKENS
    assert f"KV cache {TOKENS} tokens in {TOKENS // BLOCK} blocks" in llm.describe()


def test_it_says_that_it_is_not_tensorrt_llm(llm: Any) -> None:
    assert llm.describe().startswith("rehearsal stand-in, not TensorRT-LLM: transformers ")


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ({"max_tokens": 507}, r"prompt length \(6\) plus max_tokens \(507\) should not exceed max_seq_len \(512\)"),
        ({"max_tokens": 0}, "require max_tokens >= 1, got max_tokens=0"),
        ({"temperature": -1.0}, "require temperature >= 0"),
        ({"top_p": 0.0}, "require 0 < top_p <= 1"),
    ],
)
def test_a_request_is_refused_as_the_stand_in_refuses_it(llm: Any, sampling: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        next(llm.stream("hello", **sampling))


def test_a_cache_below_one_sequence_is_refused(start: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match=r"the key/value cache holds 500 tokens .* needs up to 512"):
        start(kv_cache_config={"max_tokens": 500})


def test_a_checkpoint_that_lacks_a_tensor_is_refused(trt: ModuleType, checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "llama")
    index = json.loads((checkpoint / "model.safetensors.index.json").read_text())
    shard = tmp_path / "llama" / index["weight_map"]["model.norm.weight"]
    save_file({name: tensor for name, tensor in load_file(shard).items() if name != "model.norm.weight"}, shard)
    with pytest.raises(ValueError, match=r"lack model\.norm\.weight"):
        trt.LLM(model=str(tmp_path / "llama"), max_seq_len=64, kv_cache_config={"max_tokens": 512})


def test_an_error_in_the_loop_reaches_every_current_and_later_request(start: Callable[..., Any]) -> None:
    llm = start()

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    all_stream, begun = threading.Barrier(3, timeout=60), threading.Event()
    slow_until(llm, begun)

    def act(number: int) -> Any:
        answers = llm.stream(PROMPTS[number], max_tokens=200)
        next(answers)
        all_stream.wait()  # a request that comes after the error is the case below
        llm.model.forward = broken
        begun.set()
        return list(answers)

    for trouble in together(3, act):
        assert isinstance(trouble, RuntimeError)
        assert "illegal memory access" in str(trouble)
    with pytest.raises(RuntimeError, match="the generation loop has ended: CUDA error: an illegal memory access"):
        next(llm.stream("hello", max_tokens=4))


def test_two_ranks_have_half_of_every_layer_each_and_give_the_same_tokens(
    start: Callable[..., Any], greedy: Callable[..., list[int]]
) -> None:
    llm = start(tensor_parallel_size=2)
    answers = together(2, lambda number: stream(llm, PROMPTS[number], max_tokens=24)[1])
    for prompt, answer in zip(PROMPTS, answers, strict=False):
        assert answer.token_ids == greedy(llm.tokenizer.encode(prompt).ids, 24)
    layer = llm.model.model.layers[0]
    assert tuple(layer.self_attn.k_proj.weight.shape) == (16, 64)
    assert tuple(layer.mlp.down_proj.weight.shape) == (64, 64)
    (rank,) = llm.ranks._others
    llm.shutdown()
    assert rank.returncode == 0
