"""The encoders beside transformers in float32, in published shapes: the largest difference of any value.

    PYTHONPATH=files python -m benchmarks.encoder_agreement                 every family, on the CPU; 8 GiB, minutes
    PYTHONPATH=files python -m benchmarks.encoder_agreement modernbert      one of them

Random weights, written by transformers itself; texts of 4 to 200 words. Vectors have length 1; scores are logits. Last
line: one JSON object. Needs transformers, which the test group of the locks has.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from encoders.embedding import Embedder
from encoders.reranking import Reranker
from encoders.settings import Settings

LENGTHS = (4, 60, 9, 200, 33, 120)
XLMR = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
XLMR |= {"vocab_size": 250_002, "max_position_embeddings": 8194, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
XLMR |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
MODERN = {"global_attn_every_n_layers": 3, "local_attention": 128}
QWEN = {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8}
QWEN |= {"head_dim": 128, "intermediate_size": 3072, "vocab_size": 151_669, "tie_word_embeddings": True}
QWEN |= {"rope_parameters": {"rope_theta": 1_000_000.0, "rope_type": "default"}}
GEMMA = {"hidden_size": 768, "num_hidden_layers": 24, "num_attention_heads": 3, "num_key_value_heads": 1}
GEMMA |= {"head_dim": 256, "intermediate_size": 1152, "vocab_size": 262_144, "max_position_embeddings": 2048}
GEMMA |= {"sliding_window": 512, "query_pre_attn_scalar": 256, "use_bidirectional_attention": True}


@dataclass(frozen=True)
class Case:
    """A published shape: transformers' class, its config, and how a state of it becomes the answer."""

    kind: str
    config: dict[str, Any] = field(default_factory=dict)
    last: bool = False


CASES = {
    "bge-m3": Case("XLMRobertaModel", XLMR),
    "ms-marco-minilm-l6": Case("BertForSequenceClassification", MINILM | {"num_labels": 1}),
    "modernbert": Case("ModernBertModel", MODERN),
    "modernbert-reranker": Case("ModernBertForSequenceClassification", MODERN | {"num_labels": 1}),
    "qwen3-embedding-0.6b": Case("Qwen3Model", QWEN, last=True),
    "qwen3-reranker-0.6b": Case("Qwen3ForCausalLM", QWEN),
    "embeddinggemma-300m": Case("Gemma3TextModel", GEMMA),
}


def main() -> None:
    """Prints a line for each shape, then the JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoder_agreement", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(CASES))
    differences = {}
    for name in parser.parse_args().names:
        with tempfile.TemporaryDirectory() as folder:
            differences[name] = float(f"{difference(CASES[name], Path(folder)):.2e}")
        print(f"{name}: {differences[name]:.1e}", flush=True)
    print(json.dumps({"transformers": transformers.__version__, "torch": torch.__version__, "largest": differences}))


def difference(case: Case, folder: Path) -> float:
    """The largest difference of any value between the two."""
    torch.manual_seed(1)
    made = getattr(transformers, case.kind)
    theirs = made(made.config_class(**case.config)).eval()
    theirs.save_pretrained(folder)
    tokenizer(case).save(str(folder / "tokenizer.json"))
    if case.last:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    generator = random.Random(1)
    texts = [" ".join(f"w{generator.randrange(900)}" for _ in range(length)) for length in LENGTHS]
    settings = Settings(model_path=str(folder), device="cpu", dtype="fp32")
    scores = case.kind.endswith(("ForSequenceClassification", "ForCausalLM"))
    return (_of_scores if scores else _of_vectors)(case, theirs, settings, texts)


def _of_vectors(case: Case, theirs: Callable[..., Any], settings: Settings, texts: list[str]) -> float:
    ours = Embedder(settings)
    job = ours.read([[texts]], (1, len(texts)), None)
    ours.work([job])
    with torch.inference_mode():
        states = [theirs(input_ids=torch.tensor(s)[None].long()).last_hidden_state[0] for s in job.sequences]
    pooled = torch.stack([s[-1] if case.last else s.mean(0) for s in states])
    wanted = torch.nn.functional.normalize(pooled, dim=1).numpy()
    return float(np.abs(ours.answer(job)["embeddings"][0] - wanted).max())


def _of_scores(case: Case, theirs: Callable[..., Any], settings: Settings, texts: list[str]) -> float:
    ours = Reranker(settings)
    job = ours.read([[["w1 w2 w3"]], [texts]], (1, len(texts)), None)
    ours.work([job])
    wanted = []
    for ids in job.sequences:
        second = torch.from_numpy((ids < 0).astype(np.int64))[None]
        inputs = {"input_ids": torch.from_numpy(np.where(ids < 0, ~ids, ids)).long()[None]}
        inputs |= {"token_type_ids": second} if case.kind.startswith("Bert") else {}
        with torch.inference_mode():
            logits = theirs(**inputs).logits[0]
        wanted.append(float(logits[-1, YES] - logits[-1, NO] if case.kind == "Qwen3ForCausalLM" else logits[0]))
    return float(np.abs(ours.answer(job)["scores"][0] - wanted).max())


YES, NO = 5, 6


def tokenizer(case: Case) -> Tokenizer:
    """Words of a small vocabulary, with the special tokens of the family around them."""
    words = ["<s>", "<pad>", "</s>", "<unk>", "[SEP]", "yes", "no", *(f"w{number}" for number in range(900))]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    single, pair = "<s> $A </s>", "<s> $A </s> $B:1 </s>:1"
    if case.kind.startswith("Qwen"):
        single, pair = "$A </s>" if case.last else "$A", "$A $B"
    made.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return made


if __name__ == "__main__":
    main()
