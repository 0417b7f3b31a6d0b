"""The physical limit: operations per document, by hand for the two published models."""

import pytest

from benchmarks import limit
from benchmarks.cases import TABLE, Workload
from benchmarks.checkpoints import BGE, NOMIC, bge_shapes, nomic_shapes


def workload(tokens: int) -> Workload:
    return Workload(TABLE[0], None, tokens, tokens * tokens)  # type: ignore[arg-type]


@pytest.mark.parametrize(("tokens", "gflop"), [(128, 78.92), (512, 335.0)])
def test_a_reranked_document_costs_what_was_counted_by_hand(tokens: int, gflop: float) -> None:
    assert limit.flop_per_document(workload(tokens), BGE) / 1e9 == pytest.approx(gflop, rel=1e-3)


@pytest.mark.parametrize(("tokens", "gflop"), [(128, 29.60), (512, 125.67)])
def test_an_embedded_document_costs_what_was_counted_by_hand(tokens: int, gflop: float) -> None:
    assert limit.flop_per_document(workload(tokens), NOMIC) / 1e9 == pytest.approx(gflop, rel=1e-3)


def test_the_checkpoints_have_as_many_parameters_as_the_published_ones() -> None:
    def parameters(shapes: list[tuple[str, tuple[int, ...]]]) -> int:
        return sum(shape[0] * (shape[1] if len(shape) > 1 else 1) for _, shape in shapes)

    assert parameters(list(bge_shapes(BGE))) == 559_891_457
    assert parameters(list(nomic_shapes(NOMIC))) == 475_292_928
    assert len(list(nomic_shapes(NOMIC))) == 148
