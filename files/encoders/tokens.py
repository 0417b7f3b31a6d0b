"""Text to token ids by the checkpoint's tokenizer.json, and the reference's way of cutting what is too long.

Contents are encoded without special tokens and the special tokens put around them here, so a query is encoded once
for all its passages. What to put is asked of the tokenizer itself. Layouts:

    text    <s> text </s>                         (BERT: [CLS] text [SEP])
    pair    <s> query </s> </s> passage </s>      the query cut to 3/4 of the limit first, then only the passage
"""

import os
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import tokenizers

from .errors import CheckpointError
from .packing import Ids

# The fast one leaves out where in the text each token was; tokenizers 0.20 and later have it.
BATCH = ("encode_batch_fast", "encode_batch")
# Words whose pieces the library remembers; it forgets none and, once full, learns none. Its own 10,000 are full after a
# few hundred texts. A text of known words takes a third of the time (0.16 ms for 0.49 ms, 126 tokens, 40,000 different
# words in all, tokenizers 0.23.3, 2-core VM, 2026-11-21); at 300 to 600 bytes a word these are at most 80 MB.
REMEMBERED_WORDS = 131_072
# The library's threads share the memory of known words, and each look into it is a write that all cores see. A text of
# 126 tokens took 0.50 ms of CPU with 16 threads and 0.32 with 8, at 26,000 and 22,500 texts a second; through Triton
# 128-token embeddings went from 14,070 to 14,730 a second (16 cores, H100 host, tokenizers 0.23.2, 2026-11-22).
MOST_THREADS = 8
# What a thread hands to the library at once: an encoding takes some 150 bytes for each character until its ids are out.
CHARACTERS_AT_ONCE = 2**20


class Tokenizer:
    """The tokenizer of one checkpoint, held against the rows of its embedding table.

    Raises: CheckpointError where tokenizer.json is missing, unreadable, or of another network.
    """

    def __init__(self, directory: Path, rows: int) -> None:
        # Texts are shared among cores. An image may say "false", for programs that fork; this one does not.
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        wanted = os.environ.get("RAYON_NUM_THREADS", "").strip()
        is_number = wanted.isascii() and wanted.isdigit() and int(wanted) > 0  # else it would take every core
        threads = int(wanted) if is_number else min(MOST_THREADS, len(os.sched_getaffinity(0)))
        os.environ["RAYON_NUM_THREADS"] = str(threads)
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(f"{directory}: tokenizer.json is missing")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path} cannot be read by tokenizers {tokenizers.__version__}: {error}") from None
        highest = max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        if highest >= rows:
            raise CheckpointError(f"{path}: highest token id is {highest}, but the embedding table has {rows} rows")
        self._tokenizer.no_truncation()  # files often carry a limit and fixed padding of their own
        self._tokenizer.no_padding()
        if resize := getattr(self._tokenizer.model, "_resize_cache", None):  # not WordPiece; since tokenizers 0.21
            resize(REMEMBERED_WORDS)
        self._single = self._tokenizer.encode("").ids
        self._pair = _array(self._tokenizer.encode("", "").ids)
        self._encode = next(getattr(self._tokenizer, name) for name in BATCH if hasattr(self._tokenizer, name))
        if len(self._single) != 2:
            raise CheckpointError(f"{path}: puts {len(self._single)} special tokens around a text; wanted 2")

    def contents(self, texts: Sequence[str]) -> list[Ids]:
        """Ids [tokens] of each text without special tokens, uncut; the library lets go of the GIL meanwhile."""
        return [_array(ids) for ids in self._ids(texts)]

    def singles(self, texts: Sequence[str]) -> list[Ids]:
        """Ids [tokens] of each text as the network reads it, but uncut; the library lets go of the GIL meanwhile."""
        first, last = self._single
        return [_array([first, *ids, last]) for ids in self._ids(texts)]

    def _ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        for part in parts(texts, CHARACTERS_AT_ONCE):
            for encoding in self._encode(part, add_special_tokens=False):
                yield encoding.ids

    def pair(self, query: Ids, passage: Ids, limit: int) -> Ids:
        """Ids of query and passage as the network reads them, at most `limit`."""
        first, between, last = self._pair[:1], self._pair[1:3], self._pair[3:]
        query = query[: query_limit(limit)]
        return np.concatenate((first, query, between, passage[: limit - 4 - len(query)], last))

    def pair_length(self, query: Ids, passage: Ids) -> int:
        """Number of ids of the pair if nothing were cut."""
        return len(query) + len(passage) + 4

    def require_pairs(self) -> None:
        """The tokenizer puts the four special tokens of an XLM-RoBERTa pair.

        Raises: CheckpointError where it does not.
        """
        if len(self._pair) != 4:
            raise CheckpointError(f"tokenizer.json: puts {len(self._pair)} special tokens around a pair; wanted 4")


def parts(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    """All of `texts` in order, up to `most` characters at a time, one text at the least."""
    part: list[str] = []
    length = 0
    for text in texts:
        if part and length + len(text) > most:
            yield part
            part, length = [], 0
        part.append(text)
        length += len(text)
    if part:
        yield part


def shortened(single: Ids, limit: int) -> Ids:
    """Ids of one text as the network reads it, at most `limit`; the special token after it stays."""
    return single if len(single) <= limit else np.concatenate((single[: limit - 1], single[-1:]))


def query_limit(limit: int) -> int:
    """Tokens a query may keep in a pair of `limit` tokens, as the reference cuts it (FlagEmbedding, encoder_only)."""
    return limit * 3 // 4


def _array(ids: list[int]) -> Ids:
    return np.frombuffer(_layout(len(ids)).pack(*ids), np.int32)  # 4 µs for 128 ids; np.array 7, np.fromiter 9


@lru_cache(maxsize=4096)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"{count}i")
