"""The pure part of a measurement on a real card: comparison with the plan, filling a cache, verdicts."""

from __future__ import annotations

import json
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from deploy.models.memory import TOKENS_PER_BLOCK
from deploy.slices.host import MemorySlice, ModelSlice, ServerSlice
from rehearsal.real_gpu import card
from rehearsal.real_gpu.filled import verdict
from rehearsal.real_gpu.generating import Generation, Prompts, Running, filling, goal_tokens
from rehearsal.real_gpu.measure import kernel_problems
from rehearsal.real_gpu.memory import compared, summed
from rehearsal.real_gpu.served import kernels, plain
from rehearsal.real_gpu.speed import lost_percent, needed_mib, release
from rehearsal.real_gpu.workspaces import planned
from tests.unit.samples import EMBEDDER, LLAMA, RERANKER, main, plan

SERVER: ServerSlice = plan(**main(RERANKER, EMBEDDER, LLAMA)).slices[0].servers[0]
ENCODER = SERVER.models[0]
LLM: ModelSlice = SERVER.models[-1]


def an_llm(cache: int, batch: int, length: int, step: int) -> ModelSlice:
    """An LLM with these limits."""
    limits = {"max_batch_size": batch, "max_seq_len": length, "max_num_tokens": step}
    return replace(LLM, kv_cache_tokens=cache, settings=LLM.settings | limits)


class Card:
    """A machine whose nvidia-smi reports these numbers in turn, the last one for ever."""

    def __init__(self, *used: int) -> None:
        self.used = list(used)

    def run(self, command: str, *, check: bool = True, timeout: float | None = 300) -> subprocess.CompletedProcess[str]:
        used = self.used.pop(0) if len(self.used) > 1 else self.used[0]
        return subprocess.CompletedProcess(command, 0, f"{used}\n", "")


def test_an_encoder_is_held_against_the_most_it_took() -> None:
    model = replace(ENCODER, memory=MemorySlice(weights_mib=500, context_mib=100, workspace_mib=400, kv_cache_mib=0))
    row = compared(model, 700, 950)
    assert (row["planned_mib"], row["measured_mib"], row["off_percent"], row["within"]) == (1000, 950, -5.0, True)
    assert not compared(model, 700, 1101)["within"]


def test_an_llms_memory_is_compared_separately_from_its_workspace() -> None:
    memory = MemorySlice(weights_mib=500, context_mib=100, workspace_mib=400, kv_cache_mib=400)
    row = compared(replace(LLM, memory=memory), 900, 1500)
    assert (row["planned_mib"], row["measured_mib"], row["off_percent"], row["within"]) == (1000, 900, -10.0, True)
    assert row["workspace"] == {"allowance_mib": 400, "taken_by_the_stand_in_mib": 600}


def test_the_sum_has_to_fit_the_card_and_tritonserver_itself_is_not_judged() -> None:
    rows = [compared(model, model.memory.total_mib, model.memory.total_mib) for model in SERVER.models[:2]]
    assert summed(SERVER, 5, rows, 80_000, 81_079)["passed"]
    assert not summed(SERVER, 5, rows, 81_080, 81_079)["passed"]
    assert summed(SERVER, 5, rows, 80_000, 81_079)["tritonserver"]["is_allowance"]


def test_memory_is_read_until_it_stands_still() -> None:
    pauses: list[float] = []
    assert card.settled_mib(Card(1, 9, 9, 7, 7, 7, 7, 3), pauses.append) == 7
    assert len(pauses) == 6


def test_memory_that_never_stands_still_is_the_last_reading() -> None:
    assert card.settled_mib(Card(*range(500)), lambda _: None) == card.MOST_READINGS - 1


def test_samples_are_taken_until_the_end_of_the_block() -> None:
    card_ = Card(5, 8, 6)
    with card.watched(lambda: {"used_mib": card.used_mib(card_)}, 0.001) as samples:
        while len(samples) < 3:
            pass
    assert [sample["used_mib"] for sample in samples[:3]] == [5, 8, 6]


def test_a_reading_that_raises_ends_the_block_with_its_error() -> None:
    looks, raised = iter([{"used_mib": 1.0}]), threading.Event()

    def look() -> card.Sample:
        for sample in looks:
            return sample
        raised.set()
        raise OSError("no card")

    with pytest.raises(OSError, match="no card"), card.watched(look, 0.001):
        assert raised.wait(300)


@given(
    cache=st.integers(2_048, 400_000).map(lambda n: n // 32 * 32),
    batch=st.integers(1, 64),
    length=st.sampled_from([512, 2048, 8192]),
    step=st.sampled_from([512, 2048, 8192]),
)
def test_sequences_that_fill_a_cache_fit_it_with_a_block_of_each_to_spare(
    cache: int, batch: int, length: int, step: int
) -> None:
    model = an_llm(cache, batch, length, step)
    shape = filling(model)
    assert len(shape.prompts) <= batch and min(shape.prompts) > 0 < shape.answer
    assert max(shape.prompts) + shape.answer <= length and max(shape.prompts) <= step
    blocks = [-(-(prompt + shape.answer) // TOKENS_PER_BLOCK) + 1 for prompt in shape.prompts]
    assert sum(blocks) * TOKENS_PER_BLOCK <= cache * 99 // 100
    if step == length:
        assert shape.tokens >= goal_tokens(model) * 99 // 100 - (len(blocks) + 1) * TOKENS_PER_BLOCK


def test_a_cache_of_16_gib_is_filled_by_sixteen_sequences() -> None:
    shape = filling(an_llm(131_072, 16, 8192, 8192))
    assert (len(shape.prompts), set(shape.prompts), shape.answer) == (16, {7680, 7712}, 384)
    assert shape.tokens == 129_248


def test_a_prompt_has_the_tokens_that_were_asked_for(tmp_path: Path) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.save(str(tmp_path / "tokenizer.json"))
    prompts = Prompts(tmp_path / "tokenizer.json")
    (first, count), (second, _) = prompts.text(77), prompts.text(77)
    assert count == len(made.encode(first).ids) and 76 <= count <= 77
    assert first[:8] != second[:8]


def test_only_sequences_between_their_first_token_and_their_last_hold_the_cache() -> None:
    running = [Running(100, 0, True), Running(100, 7, True), Running(100, 9, False)]
    assert Generation(running).held_tokens == 107


@pytest.mark.parametrize(
    ("held", "fits", "complaints", "passed"),
    [(960, True, [], True), (940, True, [], False), (960, False, [], False), (960, True, ["out of memory"], False)],
)
def test_a_filled_cache_passes_where_nothing_ran_out(
    held: float, fits: bool, complaints: list[str], passed: bool
) -> None:
    samples = [{"held_tokens": 0.0, "held_by_clients": 0.0}, {"held_tokens": held, "held_by_clients": 900.0}]
    load = {"goal_tokens": 1000, "llm": {"errors": []}, "complaints": complaints, "restarted": False}
    judged = verdict(samples, fits, 950, load)
    assert judged["passed"] is passed
    assert (judged["held_tokens"]["most"], judged["held_by_clients"]["most"]) == (held, 900)


def test_a_loss_is_fewer_documents_or_more_milliseconds() -> None:
    before = {"documents_per_second": 1000, "p50_ms": 4.0}
    assert lost_percent(False, before, {"documents_per_second": 960}) == 4.0
    assert lost_percent(True, before, {"p50_ms": 4.1}) == 2.5
    assert lost_percent(False, before, {"documents_per_second": 1010}) == -1.0


def test_the_server_without_a_container_has_the_releases_settings_and_other_places() -> None:
    there = {model.name: f"/w/{model.name}" for model in SERVER.models[:2]}
    written = release(SERVER, there, "cuda:0")
    assert {path.split("/")[0] for path in written["files"]} == set(there)
    config = written["files"][f"{ENCODER.name}/config.pbtxt"]
    assert f'"model_path" value: {{ string_value: "/w/{ENCODER.name}" }}' in config
    assert f'"memory_mib" value: {{ string_value: "{ENCODER.settings["memory_mib"]}" }}' in config
    assert "--model-control-mode=explicit" in written["flags"] and f"--load-model={ENCODER.name}" in written["flags"]
    assert json.dumps(written)


LOG = (
    'I1123 10:00:00.1 7 model.py:1] "bge: Reranker on cuda:0 in fp16, up to 512 tokens each and 16384 a pass, '
    'streams 2, 9 MiB held; steps plain (passed over: fused: AssertionError), attention own, products own"\n'
    "another line\n"
    'I1123 10:01:00.1 7 model.py:1] "bge: Reranker on cuda:0 in fp16, up to 512 tokens each and 16384 a pass, '
    'streams 2, 9 MiB held; steps fused, attention own, products own, gelu in the product"\n'
    'I1123 10:01:00.1 9 model.py:1] "nomic: Embedder on cpu in fp32, up to 512 tokens each and 4096 a pass, '
    'streams 1, 9 MiB held; plain steps"\n'
)
"""Log lines of encoders at their start, as Triton writes them."""


def test_the_kernels_of_an_encoder_are_those_of_its_last_start() -> None:
    chosen_by_model = kernels(LOG)
    assert chosen_by_model == {
        "bge": ["steps fused", "attention own", "products own", "gelu in the product"],
        "nomic": ["plain steps"],
    }
    assert [plain(chosen) for chosen in chosen_by_model.values()] == [[], ["plain steps"]]


def test_plain_steps_are_reported_and_fail_the_encoders() -> None:
    """Steps inside and outside the container count, and so does an encoder without a report."""
    own, slow = ["steps fused", "attention own"], ["steps plain (passed over: fused: AssertionError)", "attention own"]
    assert kernel_problems({"container": {"bge": own}, "bare": {"bge": own}}, ["bge"]) == []
    assert kernel_problems({"container": {"bge": slow}, "bare": {"bge": slow}}, ["bge"]) == [
        f"container, bge: {slow[0]}",
        f"bare, bge: {slow[0]}",
    ]
    others = "the encoders run other kernels in the container than without one"
    silent = kernel_problems({"container": {}, "bare": {"bge": own}}, ["bge"])
    assert silent == ["container, bge: its log names no kernels", others]
    assert kernel_problems({"container": {"bge": own[:1]}, "bare": {"bge": own}}, ["bge"]) == [others]


def test_other_encoders_need_their_planned_memory() -> None:
    totals = [model.memory.total_mib for model in SERVER.models if model.kind != "llm"]
    assert needed_mib(SERVER) == sum(totals) + SERVER.overhead_mib


def test_a_measured_workspace_stands_beside_the_plans_for_the_streams_of_its_kind() -> None:
    assert planned("reranker", 16_384) == {"weights_mib": 1068, "context_mib": 793, "workspace_mib": 1019}
    assert (planned("embedder", 16_384)["workspace_mib"], planned("embedder", 65_536)["workspace_mib"]) == (721, 2328)
