"""The three networks against the plain numpy reference, and the reference with each known mistake against the gates."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from encoders import families, plain
from encoders.choices import Kernels
from encoders.packing import Packed, form, pack
from tests.encoders import checkpoints, reference, ties
from tests.encoders.closeness import distance
from tests.encoders.reference import Mistakes

FP32_GATE = 1e-6


@pytest.fixture(scope="module")
def sequences() -> list[list[int]]:
    """Returns token ids of 8 to 100 tokens, with special tokens around them."""
    rng = random.Random(3)
    return [[0, *rng.choices(range(4, 150), k=n - 2), 2] for n in (100, 8, 64, 16, 33, 9, 50, 21)]


def batch_of(family: families.Family, sequences: list[list[int]], multiple: int = 1) -> Packed:
    arrays = [np.array(s, np.int32) for s in sequences]
    room = form(arrays, multiple)
    row = torch.from_numpy(pack(arrays, room, family.padding_id, family.counted_from, family.uncounted))
    return Packed.of_row(row, room)


def layer_outputs(directory: Path, sequences: list[list[int]], multiple: int = 1) -> list[list[np.ndarray]]:
    """Returns the hidden states of each sequence after each layer, computed in one packed batch."""
    family = families.choose(directory, families.EMBEDDERS)
    trunk = families.load(family, directory, Kernels()).trunk
    batch, seen = batch_of(family, sequences, multiple), []

    def watched(layer: Any) -> Callable[..., plain.States]:
        return lambda *inputs: seen.append(layer(*inputs)) or seen[-1]

    trunk.layers = [watched(layer) for layer in trunk.layers]
    with torch.inference_mode():
        trunk(batch)
    ends = np.cumsum([len(s) for s in sequences])
    return [np.split(out.wide.numpy()[: ends[-1]], ends[:-1]) for out in seen]


def means(states: list[np.ndarray]) -> np.ndarray:
    return np.stack([reference.unit_mean(s) for s in states])


def nomic_reference(nomic: Path, sequences: list[list[int]], wrong: Mistakes) -> np.ndarray:
    weights = load_file(nomic / "model.safetensors")
    return means([reference.nomic_layers(weights, checkpoints.NOMIC, s, wrong)[-1] for s in sequences])


def test_every_nomic_layer_matches_the_reference(nomic: Path, sequences: list[list[int]]) -> None:
    weights = load_file(nomic / "model.safetensors")
    wanted = [reference.nomic_layers(weights, checkpoints.NOMIC, s)[1:] for s in sequences]
    got = layer_outputs(nomic, sequences)
    assert len(got) == 4
    for index, states in enumerate(got):
        for row, state in enumerate(states):
            assert distance(state, wanted[row][index]).within(FP32_GATE), (index, row)


def test_every_bert_layer_matches_the_reference(bert: Path, sequences: list[list[int]]) -> None:
    weights = load_file(bert / "model.safetensors")
    wanted = [reference.bert_layers(weights, checkpoints.BERT, s)[1:] for s in sequences]
    got = layer_outputs(bert, sequences)
    assert len(got) == 3
    for index, states in enumerate(got):
        for row, state in enumerate(states):
            assert distance(state, wanted[row][index]).within(FP32_GATE), (index, row)


def test_filling_up_a_pass_changes_no_result(nomic: Path, sequences: list[list[int]]) -> None:
    bare, filled = (np.concatenate(layer_outputs(nomic, sequences, multiple)[-1]) for multiple in (1, 512))
    np.testing.assert_allclose(filled, bare, atol=1e-5)


def test_nomic_means_match_the_reference_also_without_the_corpus_mean(nomic: Path, sequences: list[list[int]]) -> None:
    got = means(layer_outputs(nomic, sequences)[-1])
    assert distance(got, nomic_reference(nomic, sequences, reference.RIGHT)).within(FP32_GATE)


NOMIC_MISTAKES = {
    "mask-less mean": Mistakes(pad_to=100),
    "rope theta 1000": Mistakes(rotary_base=1000.0),
    "renormalised top-2": Mistakes(renormalised_routing=True),
    "expert bias scaled by routing weights": Mistakes(expert_bias_weighted=True),
    "interleaved rotary": Mistakes(interleaved_rotary=True),
}


@pytest.mark.parametrize("wrong", NOMIC_MISTAKES.values(), ids=NOMIC_MISTAKES.keys())
def test_a_nomic_mistake_fails_the_fp32_and_the_fp16_gate(
    nomic: Path, sequences: list[list[int]], wrong: Mistakes
) -> None:
    got = means(layer_outputs(nomic, sequences)[-1])
    seen = distance(got, nomic_reference(nomic, sequences, wrong))
    assert not seen.within(FP32_GATE)
    assert seen.cosine > 1e-4


def test_cls_in_place_of_the_mean_fails_the_gate(nomic: Path, sequences: list[list[int]]) -> None:
    first = np.stack([s[0] for s in layer_outputs(nomic, sequences)[-1]])
    assert distance(first, nomic_reference(nomic, sequences, reference.RIGHT)).cosine > 0.01


def logits(xlmr: Path, sequences: list[list[int]], dtype: torch.dtype = torch.float32) -> np.ndarray:
    family = families.choose(xlmr, families.RERANKERS)
    with torch.inference_mode():
        return families.load(family, xlmr, Kernels(dtype=dtype))(batch_of(family, sequences)).numpy()


def reference_logits(xlmr: Path, sequences: list[list[int]], wrong: Mistakes = reference.RIGHT) -> np.ndarray:
    weights = load_file(xlmr / "model.safetensors")
    return np.array([reference.logit(weights, checkpoints.XLMR, s, wrong) for s in sequences])


def test_reranker_logits_match_the_reference_in_a_mixed_length_batch(xlmr: Path, sequences: list[list[int]]) -> None:
    assert np.abs(logits(xlmr, sequences) - reference_logits(xlmr, sequences)).max() <= 1e-5


@pytest.mark.parametrize(
    "wrong",
    [Mistakes(positions_from_zero=True), Mistakes(pad_to=100, attend_to_padding=True)],
    ids=["positions from 0", "no mask"],
)
def test_a_reranker_mistake_is_off_by_the_spread_of_scores(
    xlmr: Path, sequences: list[list[int]], wrong: Mistakes
) -> None:
    wanted = reference_logits(xlmr, sequences)
    assert np.abs(reference_logits(xlmr, sequences, wrong) - logits(xlmr, sequences)).max() > 0.5 * np.ptp(wanted)


@pytest.mark.parametrize(("dtype", "gate"), [("fp16", 1e-4), ("bf16", 3e-4)])
def test_16_bit_vectors_stay_within_their_gate(
    tmp_path: Path, sequences: list[list[int]], dtype: str, gate: float
) -> None:
    """Weights are as narrow as trained ones (std 0.03), for which these gates were measured."""
    weights = checkpoints.weights_for(checkpoints.NOMIC, deviation=0.03)
    mild = checkpoints.write(tmp_path, checkpoints.NOMIC, weights)
    family = families.choose(mild, families.EMBEDDERS)
    with torch.inference_mode():
        states = families.load(family, mild, Kernels(dtype=families.DTYPES[dtype]))(batch_of(family, sequences))
    ends = np.cumsum([len(s) for s in sequences])
    got = means(np.split(states.float().numpy(), ends[:-1]))
    assert distance(got, nomic_reference(mild, sequences, reference.RIGHT)).cosine <= gate


def test_the_reference_follows_ties_and_nothing_else(nomic: Path, sequences: list[list[int]]) -> None:
    weights, kernels = load_file(nomic / "model.safetensors"), Kernels(dtype=torch.bfloat16)
    family = families.choose(nomic, families.EMBEDDERS)
    network, batch, lengths = families.load(family, nomic, kernels), batch_of(family, sequences), [*map(len, sequences)]
    with torch.inference_mode():
        states, sent = ties.watched(kernels, lambda: network(batch).numpy(), lengths, ties.LEAD["bf16"])

    def off(change: Callable[[reference.Sent], reference.Sent | None]) -> float:
        pairs = zip(sequences, map(change, sent), strict=True)
        wanted = [reference.nomic_layers(weights, checkpoints.NOMIC, ids, sent=sent)[-1] for ids, sent in pairs]
        return distance(means(np.split(states, np.cumsum(lengths)[:-1])), means(wanted)).cosine

    assert off(lambda sent: sent) <= 1e-4 < 3e-4 < off(lambda sent: None)
    with pytest.raises(AssertionError, match="no tie"):
        off(lambda sent: replace(sent, lead=0.0))
    with pytest.raises(AssertionError, match="no tie"):
        off(lambda sent: replace(sent, experts=(sent.experts + 1) % 8))
    with pytest.raises(AssertionError, match="twice"):
        off(lambda sent: replace(sent, experts=sent.experts * 0))


@pytest.mark.parametrize(("dtype", "kept"), [(torch.bfloat16, torch.float32), (torch.float16, torch.float16)])
def test_the_sum_keeps_bits_that_bf16_would_round_away(dtype: torch.dtype, kept: torch.dtype) -> None:
    norm = plain.Norm(torch.ones(64), torch.zeros(64), 1e-5)
    states, nothing = torch.linspace(-2, 2, 64).repeat(3, 1), torch.zeros(3, 64, dtype=dtype)
    added = plain.add_norm(nothing, nothing[0], states, norm)
    exact = torch.nn.functional.layer_norm(states, (64,))
    assert (added.narrow.dtype, added.wide.dtype) == (dtype, kept)
    assert torch.equal(added.wide, exact.to(kept)) and torch.equal(added.narrow, exact.to(dtype))


def test_router_and_head_stay_float32_in_16_bit(nomic: Path, xlmr: Path) -> None:
    half = Kernels(dtype=torch.float16)
    moe = families.load(families.choose(nomic, families.EMBEDDERS), nomic, half)
    ranker = families.load(families.choose(xlmr, families.RERANKERS), xlmr, half)
    assert {layer.mlp.router.dtype for layer in moe.trunk.layers[1::2]} == {torch.float32}
    assert {ranker.head.dense.weight.dtype, ranker.head.score.bias.dtype} == {torch.float32}
    assert {moe.trunk.word.dtype, ranker.trunk.layers[0].qkv.weight.dtype} == {torch.float16}


def counted(directory: Path, architectures: tuple[str, ...]) -> tuple[int, int]:
    shapes = families.choose(directory, architectures).shapes()
    return len(shapes), sum(math.prod(shape) for shape in shapes.values())


def config_only(directory: Path, config: dict[str, Any]) -> Path:
    checkpoints.write(directory, config, {})
    return directory


def test_nomic_embed_v2_moe_has_148_tensors_and_475292928_parameters(tmp_path: Path) -> None:
    real = checkpoints.NOMIC | {"n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "vocab_size": 250048}
    assert counted(config_only(tmp_path, real), families.EMBEDDERS) == (148, 475_292_928)


def test_bge_reranker_large_has_559891457_parameters(tmp_path: Path) -> None:
    real = checkpoints.XLMR | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    real |= {"intermediate_size": 4096, "max_position_embeddings": 514, "vocab_size": 250002}
    assert counted(config_only(tmp_path, real), families.RERANKERS)[1] == 559_891_457
