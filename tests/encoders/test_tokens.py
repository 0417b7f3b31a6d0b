"""Text to ids: on several cores, with a bounded amount of text at a time, and the room a pair leaves to the passage."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.validation.models import LEAST_PAIR_TOKENS
from encoders import tokens
from encoders.errors import CheckpointError
from encoders.reranking import LEAST_TOKENS, Reranker
from encoders.tokens import Tokenizer, parts
from tests.encoders.checkpoints import on_cpu, unigram

# Runs as a process of its own, since the library starts its threads once per process. Prints how many threads encoding
# added where the process may use a given number of cores.
THREADS = """
import os, sys
from pathlib import Path
os.sched_getaffinity = lambda _: range(int(sys.argv[2]))
from encoders.tokens import Tokenizer
tokenizer, before = Tokenizer(Path(sys.argv[1]), 1000), len(os.listdir("/proc/self/task"))
tokenizer.singles(["the cat sat"] * 64)
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with the tokenizer.json of a small XLM-RoBERTa."""
    path = tmp_path_factory.mktemp("tokenizer")
    unigram().save(str(path / "tokenizer.json"))
    return path


@pytest.mark.parametrize(("cores", "declared", "threads"), [(3, None, 3), (208, None, 8), (208, " 5", 5), (208, "", 8)])
def test_texts_are_shared_among_cores_even_if_the_container_disables_it(
    directory: Path, cores: int, declared: str | None, threads: int
) -> None:
    paths = [str(Path(tokens.__file__).parents[1])]
    environment = {name: value for name, value in os.environ.items() if name != "RAYON_NUM_THREADS"}
    environment |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": os.pathsep.join(paths)}
    environment |= {} if declared is None else {"RAYON_NUM_THREADS": declared}
    command = [sys.executable, "-c", THREADS, str(directory), str(cores)]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert int(output) == threads


@given(st.lists(st.text(max_size=12), max_size=20), st.integers(1, 30))
def test_every_text_is_in_one_part_and_long_ones_have_their_own(texts: list[str], most: int) -> None:
    all_parts = list(parts(texts, most))
    assert [text for part in all_parts for text in part] == texts
    assert all(len(part) == 1 or sum(map(len, part)) <= most for part in all_parts)


def test_the_parts_texts_are_encoded_in_do_not_show(
    directory: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = Tokenizer(directory, 1000)
    whole = [tokenizer.singles(corpus), tokenizer.contents(corpus)]
    monkeypatch.setattr(tokens, "CHARACTERS_AT_ONCE", 100)
    for encoded, wanted in zip([tokenizer.singles(corpus), tokenizer.contents(corpus)], whole, strict=True):
        for left, right in zip(encoded, wanted, strict=True):
            np.testing.assert_array_equal(left, right)


def test_the_shortest_limit_of_a_reranker_leaves_the_passage_a_token(xlmr: Path) -> None:
    assert LEAST_PAIR_TOKENS == LEAST_TOKENS, "refused before anything is touched"
    with pytest.raises(CheckpointError, match=f"max_tokens is {LEAST_TOKENS - 1}; pairs need at least {LEAST_TOKENS}"):
        Reranker(on_cpu(xlmr, max_tokens=LEAST_TOKENS - 1))
    least = Reranker(on_cpu(xlmr, max_tokens=LEAST_TOKENS))
    query, passages = np.full(99, 7), [np.full(9, 8), np.full(9, 9)]
    pairs = [least.tokenizer.pair(query, passage, LEAST_TOKENS) for passage in passages]
    assert [len(pair) for pair in pairs] == [LEAST_TOKENS] * 2 and (pairs[0] != pairs[1]).any()
