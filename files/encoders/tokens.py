"""Text to token ids by the checkpoint's tokenizer.json, truncated as in the reference implementations.

Texts are encoded without special tokens, which this module adds, so that a query is encoded once for all its passages.
The tokenizer itself defines the special tokens. Layouts:

    RoBERTa    <s> text </s>         <s> query </s> </s> passage </s>    query cut to 3/4 of the limit, then passage
    BERT       [CLS] text [SEP]      [CLS] query [SEP] passage [SEP]     the longer text is cut first
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tokenizers

from .errors import CheckpointError
from .family import Template
from .packing import Ids, packed
from .words import WordCache, splits_at_spaces

# The fast variant (tokenizers 0.20 and later) leaves out the position of each token in the text.
BATCH = ("encode_batch_fast", "encode_batch")
# Size of the library's cache of words. The library never removes a word, and a full cache learns none. Its default of
# 10,000 is full after a few hundred texts. A text of cached words takes a third of the time (0.16 ms instead of 0.49
# ms, 126 tokens, 40,000 different words in all, tokenizers 0.23.3, 2-core VM, 2026-11-21). At 300 to 600 bytes a word
# the cache has at most 80 MB.
REMEMBERED_WORDS = 131_072
# The library's threads share this cache, and every lookup is a write that all cores see. A text of 126 tokens took 0.50
# ms of CPU with 16 threads and 0.32 with 8, at 26,000 and 22,500 texts a second. Through Triton, 128-token embeddings
# rose from 14,070 to 14,730 a second (16 cores, H100 host, tokenizers 0.23.2, 2026-11-22).
MOST_THREADS = 8
# Largest number of letters that are looked up word by word (words.py). More go to the library, which releases the GIL:
# with the table for all texts the threads waited for each other, and 7,100 texts of 191 tokens a second became 4,750
# (H100 host).
FEW_LETTERS = 4096
# Characters that a thread passes to the library at once: an encoding takes some 150 bytes a character until its ids are
# read.
CHARACTERS_AT_ONCE = 2**20


class Tokenizer:
    """The tokenizer of a checkpoint, checked against the number of rows of its embedding table.

    Raises: CheckpointError if tokenizer.json is missing, unreadable, or belongs to another network.
    """

    def __init__(self, directory: Path, rows: int) -> None:
        # The library encodes texts in parallel. An image may say "false" for programs that fork; this program does not
        # fork.
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        wanted = os.environ.get("RAYON_NUM_THREADS", "").strip()
        is_number = wanted.isascii() and wanted.isdigit() and int(wanted) > 0  # any other value would use every core
        threads = int(wanted) if is_number else min(MOST_THREADS, len(os.sched_getaffinity(0)))
        os.environ["RAYON_NUM_THREADS"] = str(threads)
        path = directory / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(f"{directory}: tokenizer.json is missing")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise CheckpointError(f"{path} cannot be read by tokenizers {tokenizers.__version__}: {error}") from None
        highest = max(self._tokenizer.get_vocab(with_added_tokens=True).values())
        if highest >= rows:
            raise CheckpointError(f"{path}: highest token id is {highest}, but the embedding table has {rows} rows")
        self._tokenizer.no_truncation()  # files often contain a length limit and padding
        self._tokenizer.no_padding()
        # Absent for WordPiece, and before tokenizers 0.21.
        if resize := getattr(self._tokenizer.model, "_resize_cache", None):
            resize(REMEMBERED_WORDS)
        self._before, self._after = (packed(ids) for ids in self._around("a"))
        self._pair: tuple[Ids, ...] = ()
        self._longest_first = self._second = False
        self._encode = next(getattr(self._tokenizer, name) for name in BATCH if hasattr(self._tokenizer, name))
        self._words = WordCache(self._ids) if splits_at_spaces(self._tokenizer) else None

    def _around(self, text: str, pair: str | None = None) -> list[list[int]]:
        """Ids of the special tokens before, between and after a text or a pair."""
        encoding, texts = self._tokenizer.encode(text, pair), 1 if pair is None else 2
        runs: list[list[int]] = [[]]
        for token, place in zip(encoding.ids, encoding.sequence_ids, strict=True):
            if place is None:
                runs[-1].append(token)
            elif place == len(runs) - 1:
                runs.append([])
        if len(runs) != texts + 1:
            raise CheckpointError(f"tokenizer.json: gives no token for {text!r}")
        return runs

    def contents(self, texts: Sequence[str]) -> list[Ids]:
        """Ids [tokens] of each text without special tokens, not truncated; the library releases the GIL."""
        return [_array(ids) for ids in self._of(texts)]

    def singles(self, texts: Sequence[str]) -> list[Ids]:
        """Ids [tokens] of each text as the network reads it, but not truncated; the library releases the GIL."""
        before, after = self._before, self._after
        return [_array(b"".join((before, ids, after))) for ids in self._of(texts)]

    def shortened(self, single: Ids, limit: int) -> Ids:
        """Ids of a text as the network reads it, at most `limit`; the special tokens after it stay."""
        if len(single) <= limit:
            return single
        after = _array(self._after)
        return np.concatenate((single[: limit - len(after)], after))

    def _of(self, texts: Sequence[str]) -> Sequence[bytes]:
        few = self._words and sum(map(len, texts)) <= FEW_LETTERS
        return self._words.ids(texts) if self._words and few else list(self._ids(texts))

    def _ids(self, texts: Sequence[str]) -> Iterator[bytes]:
        for part in parts(texts, CHARACTERS_AT_ONCE):
            for encoding in self._encode(part, add_special_tokens=False):
                yield packed(encoding.ids)

    def pair(self, query: Ids, passage: Ids, limit: int) -> Ids:
        """Ids of query and passage as the network reads them, at most `limit`; ~id in the second segment."""
        first, between, last = self._pair
        room = limit - self._marks
        if self._longest_first:
            kept, rest = longest_first(len(query), len(passage), room)
        else:
            kept = min(len(query), query_limit(limit))
            rest = room - kept
        query, passage = query[:kept], passage[:rest]
        if self._second:
            passage = ~passage
        return np.concatenate((first, query, between, passage, last))

    @property
    def _marks(self) -> int:
        return sum(map(len, self._pair))

    def pair_length(self, query: Ids, passage: Ids) -> int:
        """Number of ids of the pair before truncation."""
        return len(query) + len(passage) + self._marks

    def most_of_query(self, limit: int) -> int:
        """Largest number of query tokens that are not truncated in a pair of `limit` tokens with a short passage."""
        return limit - self._marks if self._longest_first else query_limit(limit)

    def require_pairs(self, second: bool = False, longest_first: bool = False) -> None:
        """Prepares the encoding of pairs; marks the second text for networks with segments.

        Raises: CheckpointError unless the tokenizer adds three or four special tokens to a pair.
        """
        runs = self._around("a", "a")
        count = sum(map(len, runs))
        if count not in (3, 4):
            raise CheckpointError(f"tokenizer.json: puts {count} special tokens around a pair; wanted 3 or 4")
        first, between, last = (_array(packed(ids)) for ids in runs)
        self._pair = (first, between, ~last if second else last)
        self._second, self._longest_first = second, longest_first


class Templated:
    """Pairs of a reranker that reads query and passage as one text."""

    def __init__(self, tokenizer: Tokenizer, template: Template) -> None:
        self._tokenizer, self._template = tokenizer, template
        self._before, self._after = tokenizer.contents([template.before, template.after])

    @property
    def marks(self) -> int:
        """Number of special ids of every pair."""
        return len(self._before) + len(self._after)

    def texts(self, pairs: Sequence[tuple[str, str]]) -> list[Ids]:
        """Ids of the text of each pair, not truncated, without the prompt around it."""
        written = self._template.text
        return self._tokenizer.contents([written.format(query=query, passage=passage) for query, passage in pairs])

    def whole(self, text: Ids, limit: int) -> Ids:
        """Ids of a pair as the network reads it, at most `limit`."""
        return np.concatenate((self._before, text[: limit - self.marks], self._after))


def parts(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    """`texts` in order, in batches of up to `most` characters and at least one text."""
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


def query_limit(limit: int) -> int:
    """Largest number of query tokens in a pair of `limit` tokens, by the reference's rule (FlagEmbedding,
    encoder_only)."""
    return limit * 3 // 4


def longest_first(query: int, passage: int, room: int) -> tuple[int, int]:
    """Numbers of tokens that query and passage keep in `room`: the longer one is cut to the shorter's length, then both
    equally.

    The rule of the `tokenizers` library, which sentence-transformers uses.
    """
    if query + passage <= room:
        return query, passage
    short, long = sorted((query, passage))
    long = max(short, room - short)
    if short + long > room:
        short, long = room // 2, room - room // 2
    return (short, long) if query <= passage else (long, short)


def _array(ids: bytes) -> Ids:
    return np.frombuffer(ids, np.int32)
