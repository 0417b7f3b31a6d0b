"""The table of words gives the library's own ids, or leaves the text to the library."""

from collections.abc import Iterator, Sequence

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from encoders import words
from encoders.packing import packed
from encoders.words import WordCache, splits_at_spaces, stands_alone
from tests.encoders.checkpoints import unigram

# Accents and joiners that could join a space, spaces of other kinds, letters that a normaliser takes apart or folds.
STRANGE = "\u0301\u200d\u0e33\uff9e\u00a0\u3000\t\n\r\x1c\x00¨ßΣςİéÅ猫カ🙂\u0600ﬁ'-.,<>_▁"
PIECES = ["the", "cat", "sat", "Paris", "<s>", "</s>", "<mask>", "[SEP]", "dogs.", "été", "ΣΑΣ", " ", "  "]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(f"abct {STRANGE}", max_size=6)), max_size=12).map("".join)


def xlm_roberta() -> Tokenizer:
    """XLM-RoBERTa's published tokenizer, with NFKC for its own normaliser, whose table no package has."""
    made = unigram()
    made.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " "), normalizers.Strip()]
    )
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    return made


def bert() -> Tokenizer:
    """BERT's tokenizer, for lower-case words without accents."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", "dog", "ete", ".", "##t", "a", "b", "c"]
    made = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens([AddedToken("[SEP]", normalized=False)])
    return made


class Library:
    """A tokeniser that counts the texts it is asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.texts = tokenizer, 0
        tokenizer.no_padding()
        tokenizer.no_truncation()

    def __call__(self, texts: Sequence[str]) -> Iterator[bytes]:
        self.texts += len(texts)
        for encoding in self.tokenizer.encode_batch(list(texts), add_special_tokens=False):
            yield packed(encoding.ids)


LIBRARIES = {"xlm-roberta": Library(xlm_roberta()), "bert": Library(bert())}
TABLES = {name: WordCache(library) for name, library in LIBRARIES.items()}


@pytest.mark.parametrize("kind", LIBRARIES)
@given(st.lists(TEXTS, max_size=4))
def test_every_text_has_the_ids_of_the_librarys_whole_encoding(kind: str, texts: list[str]) -> None:
    assert splits_at_spaces(LIBRARIES[kind].tokenizer)
    assert TABLES[kind].ids(texts) == list(LIBRARIES[kind](texts))


def test_texts_of_known_words_do_not_go_to_the_library() -> None:
    library = Library(xlm_roberta())
    table = WordCache(library)
    table.ids(["the cat", "cat sat  the"])
    before = library.texts
    assert table.ids(["sat the cat"]) == list(library(["sat the cat"])) and library.texts == before + 1


def test_a_full_table_begins_anew_and_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MOST_WORDS", 3)
    library = Library(xlm_roberta())
    table = WordCache(library)
    texts = ["the cat sat", "a b c d e", "the cat", "a sat", "paris"]
    for text in [*texts, *texts]:
        assert table.ids([text]) == list(library([text]))
        assert len(table._known) <= 3


@pytest.mark.parametrize("word", ["\u0301a", "a\u200d", "\u0e33", "猫", "a" * 41])
def test_long_words_and_those_that_join_spaces_are_not_cached(word: str) -> None:
    assert not stands_alone(word) and stands_alone("Été,") and stands_alone("")


def test_tokenisers_that_look_beyond_a_space_have_no_table() -> None:
    first, added, bytes_of_space = unigram(), unigram(), unigram()
    first.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]
    )
    added.add_tokens([AddedToken("new york")])
    bytes_of_space.pre_tokenizer = pre_tokenizers.ByteLevel()
    others = unigram()
    others.normalizer = normalizers.Replace("a b", "c")
    assert not any(map(splits_at_spaces, (first, added, bytes_of_space, others)))
