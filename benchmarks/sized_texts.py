"""A tokenizer of XLM-RoBERTa's size and kind, and texts with a known length in tokens.

Random weights ignore a text's meaning, but the time to tokenise it depends on the size of the vocabulary and on how
words split. So the vocabulary has the published 250,002 entries, made from syllables by a fixed seed, and about a fifth
of the words of a text split into two or more pieces, as ordinary English does.
"""

import functools
import math
import random
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

ENTRIES = 250_002
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
PREFIX_PIECES = ("▁search", "_", "document", "query", "▁clustering", "▁classification", ":")
SYLLABLES = [a + b + c for a in "bcdfghjklmnprstvwz" for b in "aeiou" for c in ("", "n", "r", "s", "l")]
ENDINGS = ["s", "ed", "ing", "er", "ly", "tion", "al", "ness"]


def tokenizer(entries: int = ENTRIES) -> Tokenizer:
    """Returns a Unigram tokenizer with bos 0, pad 1, eos 2 and the pair template `<s> A </s> </s> B </s>`."""
    pieces = _pieces(entries - len(SPECIALS) - 1)
    scored = [(piece, -1.0 - math.log(rank + 2)) for rank, piece in enumerate(pieces)]
    vocabulary = [*((word, 0.0) for word in SPECIALS), *scored, ("<mask>", 0.0)]
    made = Tokenizer(models.Unigram(vocabulary, unk_id=3, byte_fallback=False))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made.decoder = decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    made.add_special_tokens([AddedToken(word, normalized=False) for word in (*SPECIALS, "<mask>")])
    return made


def _pieces(count: int) -> list[str]:
    """Returns `count` different pieces, likeliest first: prefixes, endings, syllables, words of syllables, letters."""
    rng = random.Random(2026)
    common = dict.fromkeys([*PREFIX_PIECES, *ENDINGS, *(f"▁{syllable}" for syllable in SYLLABLES)])
    letters = [letter for letter in ["▁", *map(chr, range(33, 127)), *"éüöäñ猫語"] if letter not in common]
    while len(common) < count - len(letters):
        word = "".join(rng.choices(SYLLABLES, k=rng.choice((2, 2, 3, 3, 4))))
        common[f"▁{word}" if rng.random() < 0.7 else word] = None
    return [*common, *letters]


class Writer:
    """Writes texts of an exact number of tokens (specials not counted), equal for equal seeds."""

    def __init__(self, tokenizer_json: Path, seed: int) -> None:
        self._rng = random.Random(seed)
        self._words = _words_by_tokens(str(tokenizer_json))

    def text(self, tokens: int) -> str:
        """Returns words with `tokens` tokens in total; one word in five splits into several pieces if there is room."""
        words = []
        while tokens > 0:
            size = min(tokens, self._rng.choice((1, 1, 1, 1, 2, 2, 3)) if self._rng.random() < 0.5 else 1)
            words.append(self._rng.choice(self._words[size]))
            tokens -= size
        return " ".join(words)


@functools.cache
def _words_by_tokens(tokenizer_json: str) -> dict[int, list[str]]:
    """Returns words of 1, 2 and 3 tokens; a word's pieces do not depend on its neighbours."""
    loaded = Tokenizer.from_file(tokenizer_json)
    known = [entry.removeprefix("▁") for entry in loaded.get_vocab(with_added_tokens=False) if entry.startswith("▁")]
    rng = random.Random(7)
    whole = rng.sample(sorted(word for word in known if len(word) > 3), k=min(20_000, len(known) // 4))
    joined = [rng.choice(whole) + rng.choice(ENDINGS) + rng.choice(("", "", "ly")) for _ in range(len(whole))]
    counted: dict[int, list[str]] = {1: [], 2: [], 3: []}
    candidates = [*whole, *joined]
    for word, encoding in zip(candidates, loaded.encode_batch(candidates, add_special_tokens=False), strict=True):
        if len(encoding.ids) in counted:
            counted[len(encoding.ids)].append(word)
    return counted


def token_counts(tokenizer_json: Path, texts: Iterable[str]) -> list[int]:
    """Returns the tokens of each text, specials not counted."""
    loaded = Tokenizer.from_file(str(tokenizer_json))
    return [len(encoding.ids) for encoding in loaded.encode_batch(list(texts), add_special_tokens=False)]
