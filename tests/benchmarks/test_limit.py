"""The physical limit: operations per document, by hand for the two published models."""

import pytest

from benchmarks import limit
from benchmarks.cases import TABLE, Case, Workload
from benchmarks.checkpoints import BGE, NOMIC, bge_shapes, nomic_shapes

RERANK, EMBED = TABLE[0], TABLE[3]


def workload(case: Case, tokens: int) -> Workload:
    return Workload(case, None, tokens, tokens * tokens)


@pytest.mark.parametrize(("tokens", "gflop"), [(128, 76.19), (512, 323.22)])
def test_the_cost_of_a_reranked_document_matches_a_manual_count(tokens: int, gflop: float) -> None:
    """24 layers of 4 x 1024² and 2 x 1024 x 4096 weights, less the part that the last layer skips."""
    assert limit.flop_per_document(workload(RERANK, tokens), BGE) / 1e9 == pytest.approx(gflop, rel=1e-3)


@pytest.mark.parametrize(("tokens", "gflop"), [(128, 29.60), (512, 125.67)])
def test_the_cost_of_an_embedded_document_matches_a_manual_count(tokens: int, gflop: float) -> None:
    assert limit.flop_per_document(workload(EMBED, tokens), NOMIC) / 1e9 == pytest.approx(gflop, rel=1e-3)


def test_the_checkpoints_have_as_many_parameters_as_the_published_ones() -> None:
    def parameters(shapes: list[tuple[str, tuple[int, ...]]]) -> int:
        return sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for _, shape in shapes)

    assert parameters(list(bge_shapes(BGE))) == 559_891_457
    assert parameters(list(nomic_shapes(NOMIC))) == 475_292_928
    assert len(list(nomic_shapes(NOMIC))) == 148
