"""Small tokenizers of the real kinds: XLM-RoBERTa's Unigram with its pair template, and a byte-level BPE for the LLM.

Words and their order come from a published vocabulary (MiniLM's), so that ordinary English splits into ordinary pieces.
"""

from __future__ import annotations

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = 6000
HARMONY = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"]


def xlm_roberta(vocabulary: list[str]) -> Tokenizer:
    """Returns a tokenizer: bos 0, pad 1, eos 2; a pair reads `<s> A </s> </s> B </s>`; `<mask>` is the last entry."""
    pieces = [(word, 0.0) for word in SPECIALS]
    pieces += [(word, -3.0 - 0.001 * rank) for rank, word in enumerate(_pieces(vocabulary))]
    tokenizer = Tokenizer(models.Unigram([*pieces, ("<mask>", 0.0)], unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")
    ])  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    ])  # fmt: skip
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in SPECIALS])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    return tokenizer


def _pieces(vocabulary: list[str]) -> list[str]:
    """Returns pieces in Unigram's spelling, likeliest first: whole words, their continuations, single characters."""
    known = [word for word in vocabulary if not word.startswith("[") and len(word) > 1]
    whole = [f"▁{word}" for word in known if word.isalnum() and not word.startswith("##")][:WORDS]
    inner = [word[2:] for word in known if word.startswith("##")][: WORDS // 3]
    characters = [chr(code) for code in range(33, 127)] + list("éüöäßçñ¡¿“”’–—猫語日本中文привет")
    return list(dict.fromkeys([*whole, *inner, "▁", *characters]))


def harmony(vocabulary: list[str]) -> Tokenizer:
    """Returns a byte-level BPE without merges and with gpt-oss's control tokens: one token per byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|startoftext|>", "<|endoftext|>", *HARMONY])
    return tokenizer
