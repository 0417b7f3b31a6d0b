"""Compares the encoders with transformers in float32, in published shapes: the largest difference of any value.

    PYTHONPATH=files python -m benchmarks.encoder_agreement                 every family, on the CPU; 8 GiB, minutes
    PYTHONPATH=files python -m benchmarks.encoder_agreement modernbert      one of them

Random weights, written by transformers itself; texts of 4 to 200 words. Vectors have length 1; scores are logits. Last
line: one JSON object. Needs transformers, which the test group of the locks has.
"""

import argparse
import json
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from encoders.embedding import Embedder
from encoders.reranking import Reranker
from encoders.settings import Settings

YES, NO = 5, 6
QUERY = "w1 w2 w3"
Array = npt.NDArray[Any]
LENGTHS = (4, 60, 9, 200, 33, 120)
XLMR = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
XLMR |= {"vocab_size": 250_002, "max_position_embeddings": 8194, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
XLMR |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
MODERN = {"global_attn_every_n_layers": 3, "local_attention": 128}
QWEN = {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8}
QWEN |= {"head_dim": 128, "intermediate_size": 3072, "vocab_size": 151_669, "tie_word_embeddings": True}
QWEN |= {"rope_parameters": {"rope_theta": 1_000_000.0, "rope_type": "default"}}
DEBERTA = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
DEBERTA |= {"vocab_size": 128_100, "max_position_embeddings": 512, "position_buckets": 256, "type_vocab_size": 0}
DEBERTA |= {"relative_attention": True, "position_biased_input": False, "share_att_key": True, "num_labels": 1}
DEBERTA |= {"norm_rel_ebd": "layer_norm", "pos_att_type": ["p2c", "c2p"], "pad_token_id": 1}
NOMIC = {"activation_function": "swiglu", "rotary_emb_base": 1000, "max_trained_positions": 2048, "n_positions": 8192}
NOMIC |= dict.fromkeys(("causal", "prenorm", "parallel_block", "rotary_emb_interleaved"), False)
NOMIC |= dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "scale_attn_by_inverse_layer_idx"), False)
NOMIC |= dict.fromkeys(("rotary_emb_scale_base", "rotary_scaling_factor", "use_rms_norm"))
NOMIC |= {"rotary_emb_fraction": 1.0, "scale_attn_weights": True}
"""Published settings of nomic-embed-text-v1.5 that transformers' class does not write."""
SIZES = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads"}
SIZES |= {"n_inner": "intermediate_size", "layer_norm_epsilon": "layer_norm_eps"}
GEMMA = {"hidden_size": 768, "num_hidden_layers": 24, "num_attention_heads": 3, "num_key_value_heads": 1}
GEMMA |= {"head_dim": 256, "intermediate_size": 1152, "vocab_size": 262_144, "max_position_embeddings": 2048}
GEMMA |= {"sliding_window": 512, "query_pre_attn_scalar": 256, "use_bidirectional_attention": True}


@dataclass(frozen=True)
class Case:
    """A published shape: transformers' class, its config, and the step from its state to the answer."""

    kind: str
    config: dict[str, Any] = field(default_factory=dict)
    last: bool = False

    @property
    def scores(self) -> bool:
        """Returns True for a reranker."""
        return self.kind.endswith(("ForSequenceClassification", "ForCausalLM"))


CASES = {
    "bge-m3": Case("XLMRobertaModel", XLMR),
    "ms-marco-minilm-l6": Case("BertForSequenceClassification", MINILM | {"num_labels": 1}),
    "modernbert": Case("ModernBertModel", MODERN),
    "modernbert-reranker": Case("ModernBertForSequenceClassification", MODERN | {"num_labels": 1}),
    "qwen3-embedding-0.6b": Case("Qwen3Model", QWEN, last=True),
    "qwen3-reranker-0.6b": Case("Qwen3ForCausalLM", QWEN),
    "embeddinggemma-300m": Case("Gemma3TextModel", GEMMA),
    "mxbai-rerank-base-v1": Case("DebertaV2ForSequenceClassification", DEBERTA),
    "nomic-embed-text-v1.5": Case("NomicBertModel", {"pad_token_id": 1}),
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
    """Returns the largest difference of any value between the two."""
    theirs = write(case, folder)
    generator = random.Random(1)
    texts = [" ".join(f"w{generator.randrange(900)}" for _ in range(length)) for length in LENGTHS]
    ours = encoder(case, Settings(model_path=str(folder), device="cpu", dtype="fp32"))
    job = job_of(case, ours, texts)
    ours.work([job])
    return float(np.abs(values(case, ours, job) - reference(case, theirs, job)).max())


def write(case: Case, folder: Path) -> Any:
    """Returns transformers' network with random weights in float32, and writes its checkpoint to `folder`."""
    torch.manual_seed(1)
    made = getattr(transformers, case.kind)
    theirs = made(made.config_class(**case.config)).eval()
    theirs.save_pretrained(folder)
    if case.kind == "NomicBertModel":
        config = json.loads((folder / "config.json").read_text())
        config |= NOMIC | {published: config[name] for published, name in SIZES.items()}
        (folder / "config.json").write_text(json.dumps(config))
    tokenizer(case).save(str(folder / "tokenizer.json"))
    if case.last:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')
    return theirs


def encoder(case: Case, settings: Settings) -> Any:
    """Returns our model of the checkpoint that `write` made."""
    return Reranker(settings) if case.scores else Embedder(settings)


def job_of(case: Case, ours: Any, texts: list[str]) -> Any:
    """Returns a request for `texts`."""
    return ours.read([[[QUERY]], [texts]] if case.scores else [[texts]], (1, len(texts)), None)


def values(case: Case, ours: Any, job: Any) -> Array:
    """Returns our answer to a finished job: scores [texts], or vectors of length 1 [texts, dimensions]."""
    return np.asarray(ours.answer(job)["scores" if case.scores else "embeddings"][0])


def reference(case: Case, theirs: Any, job: Any) -> Array:
    """Returns transformers' answer to the job's token sequences, one at a time, in the shape of `values`."""
    with torch.inference_mode():
        rows = [_reference(case, theirs, ids) for ids in job.sequences]
    stacked = torch.stack(rows).float().cpu()
    return (stacked if case.scores else torch.nn.functional.normalize(stacked, dim=1)).numpy()


def _reference(case: Case, theirs: Any, ids: Array) -> torch.Tensor:
    tokens = torch.from_numpy(np.where(ids < 0, ~ids, ids)).long()[None].to(theirs.device)
    if not case.scores:
        states = theirs(input_ids=tokens).last_hidden_state[0]
        return states[-1] if case.last else states.mean(0)
    second = torch.from_numpy((ids < 0).astype(np.int64))[None].to(theirs.device)
    more: dict[str, Any] = {"token_type_ids": second} if case.kind.startswith("Bert") else {}
    more |= {"logits_to_keep": 1} if case.kind == "Qwen3ForCausalLM" else {}
    logits = theirs(input_ids=tokens, **more).logits[0]
    return logits[-1, YES] - logits[-1, NO] if case.kind == "Qwen3ForCausalLM" else logits[0]


def tokenizer(case: Case) -> Tokenizer:
    """Returns a tokenizer of a small vocabulary, with the special tokens of the family."""
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
