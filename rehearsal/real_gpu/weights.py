"""Checkpoints of the published sizes, with random weights: Llama-3.1-8B, bge-reranker-large, nomic-embed-text-v2-moe.

The serving machine makes them, because 20 GB take long to send. They need only torch, safetensors and tokenizers. Equal
arguments on equal devices give equal bytes.

    python -m rehearsal.real_gpu.weights FOLDER [--small] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from benchmarks import checkpoints, sized_texts

LLAMA = "llama-3.1-8b-instruct"
RERANKER = "bge-reranker-large"
EMBEDDER = "nomic-embed-text-v2-moe"
SHARDS = 4
SPECIALS = 256

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 128_000, "eos_token_id": [128_001, 128_008, 128_009], "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 14_336, "max_position_embeddings": 131_072, "mlp_bias": False,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500_000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
    "vocab_size": 128_256,
}  # fmt: skip
"""config.json of meta-llama/Llama-3.1-8B-Instruct; the shape is the catalog's (deploy/catalog/checkpoints.py)."""

TEMPLATE = (
    "{{ bos_token }}{% if tools %}<|start_header_id|>system<|end_header_id|>\n\n"
    "These functions can be called, by a JSON object of name and parameters:\n"
    "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|eot_id|>{% endif %}"
    "{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{{ message.content }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
"""A chat in the family's marks; the words are our own."""
TINY_ENTRIES = 2_048
LLAMA_TINY = LLAMA_8B | {
    "bos_token_id": TINY_ENTRIES, "eos_token_id": [TINY_ENTRIES + 1, TINY_ENTRIES + 8, TINY_ENTRIES + 9],
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "vocab_size": TINY_ENTRIES + SPECIALS,
}  # fmt: skip
LLAMAS = {"8b": LLAMA_8B, "tiny": LLAMA_TINY}
DEVIATIONS = {"8b": checkpoints.DEVIATION, "tiny": checkpoints.SMALL_DEVIATION}


def llama(folder: Path, size: str, device: str) -> None:
    """Writes a Llama of `size` ("8b" or "tiny") in bfloat16 to `folder`: four shards, index, and its other files.

    Memory: the largest tensor of each shard at a time (1.05 GB of the 8B).
    """
    config = llama_files(folder, size)
    _write_shards(folder, dict(llama_shapes(config)), lambda number: _random(DEVIATIONS[size], device, 2026 + number))


def llama_files(folder: Path, size: str) -> dict[str, Any]:
    """Writes tokenizer and configuration of a Llama to `folder`; returns the content of config.json."""
    config = LLAMAS[size]
    folder.mkdir(parents=True)
    tokenizer = llama_tokenizer(config["vocab_size"])
    tokenizer.save(str(folder / "tokenizer.json"))
    specials = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
    names = specials | {"model_max_length": config["max_position_embeddings"], "chat_template": TEMPLATE}
    _json(folder / "config.json", config)
    _json(folder / "special_tokens_map.json", specials)
    _json(folder / "tokenizer_config.json", names | {"tokenizer_class": "PreTrainedTokenizerFast"})
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id")}
    _json(folder / "generation_config.json", ends | {"do_sample": True, "temperature": 0.6, "top_p": 0.9})
    return config


def llama_shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields names and shapes of a Llama with a separate head, 291 tensors in the published size of the 8B."""
    h, inner = config["hidden_size"], config["intermediate_size"]
    kv = h // config["num_attention_heads"] * config["num_key_value_heads"]
    yield "model.embed_tokens.weight", (config["vocab_size"], h)
    for number in range(config["num_hidden_layers"]):
        at = f"model.layers.{number}"
        for name, rows in (("q", h), ("k", kv), ("v", kv), ("o", h)):
            yield f"{at}.self_attn.{name}_proj.weight", (rows, h)
        for name, shape in (("gate", (inner, h)), ("up", (inner, h)), ("down", (h, inner))):
            yield f"{at}.mlp.{name}_proj.weight", shape
        yield f"{at}.input_layernorm.weight", (h,)
        yield f"{at}.post_attention_layernorm.weight", (h,)
    yield "model.norm.weight", (h,)
    yield "lm_head.weight", (config["vocab_size"], h)


def llama_tokenizer(vocabulary: int) -> Tokenizer:
    """Returns a byte-level BPE of exactly `vocabulary` entries, the last 256 special, each of which decodes.

    A known word is one token, any other text one token a byte: entries are invented words, without merges.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    entries = [*alphabet, *_words(vocabulary - SPECIALS - len(alphabet))]
    made = Tokenizer(models.BPE({entry: number for number, entry in enumerate(entries)}, [], ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    named = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 8: "<|eom_id|>", 9: "<|eot_id|>", 10: "<|python_tag|>"}
    named |= {6: "<|start_header_id|>", 7: "<|end_header_id|>"}
    reserved = (named.get(number, f"<|reserved_special_token_{number}|>") for number in range(SPECIALS))
    made.add_special_tokens([AddedToken(word, normalized=False) for word in reserved])
    begin = "<|begin_of_text|>"
    made.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A {begin} $B", special_tokens=[(begin, vocabulary - SPECIALS)]
    )
    return made


def _words(count: int) -> list[str]:
    """Returns `count` different words of syllables, most of them with a leading space."""
    rng = random.Random(2026)
    made: dict[str, None] = {}
    while len(made) < count:
        word = "".join(rng.choices(sized_texts.SYLLABLES, k=rng.choice((1, 2, 2, 3, 3))))
        made[f"Ġ{word}" if rng.random() < 0.8 else word] = None
    return list(made)


def encoders(folder: Path, device: str, small: bool) -> None:
    """Writes both encoders under their published names, with the files of their hub repositories."""
    made = checkpoints.make(folder, device, small)
    reranker, embedder = made["reranker"].rename(folder / RERANKER), made["embedder"].rename(folder / EMBEDDER)
    specials = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    specials |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    for directory in (reranker, embedder):
        _json(directory / "special_tokens_map.json", specials)
        names = specials | {"model_max_length": 512, "tokenizer_class": "XLMRobertaTokenizer"}
        _json(directory / "tokenizer_config.json", names)
    _json(embedder / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    width = json.loads((embedder / "config.json").read_text())["n_embd"]
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    _json(embedder / "1_Pooling/config.json", pooling)


Shapes = dict[str, tuple[int, ...]]
Make = Callable[[str, tuple[int, ...]], torch.Tensor]
"""The tensor of a name and a shape."""


def _random(deviation: float, device: str, seed: int) -> Make:
    generator = torch.Generator(device).manual_seed(seed)

    def tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        values = torch.randn(shape, generator=generator, device=device, dtype=torch.bfloat16) * deviation
        return values + 1 if name.endswith("norm.weight") else values

    return tensor


def _write_shards(folder: Path, shapes: Shapes, maker: Callable[[int], Make]) -> None:
    """Writes shards of about equal size concurrently, and their index."""
    total = sum(map(_bytes, shapes.values()))
    shards: list[Shapes] = [{} for _ in range(SHARDS)]
    before = 0
    for name, shape in shapes.items():
        shards[(before + _bytes(shape) // 2) * SHARDS // total][name] = shape
        before += _bytes(shape)
    paths = [folder / f"model-{number:05d}-of-{SHARDS:05d}.safetensors" for number in range(1, SHARDS + 1)]
    with ThreadPoolExecutor(SHARDS) as pool:
        list(pool.map(_write_shard, paths, shards, map(maker, range(SHARDS))))
    placed = {name: path.name for path, shard in zip(paths, shards, strict=True) for name in shard}
    _json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": placed})


def _write_shard(path: Path, shapes: Shapes, make: Make) -> None:
    """Writes the shard without safetensors, which would hold it in memory whole, twice on its way from a card."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + _bytes(shape)]}
        end += _bytes(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            file.write(memoryview(make(name, shape).cpu().view(torch.uint8).numpy()).cast("B"))


def _bytes(shape: tuple[int, ...]) -> int:
    product = 2
    for size in shape:
        product *= size
    return product


def _json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def main() -> None:
    """Writes all three below FOLDER; prints seconds and bytes of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="a few megabytes instead of 20 GB")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args()
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        of_llama = pool.submit(llama, chosen.folder / LLAMA, "tiny" if chosen.small else "8b", chosen.device)
        encoders(chosen.folder, chosen.device, chosen.small)
        _tell(chosen.folder, (RERANKER, EMBEDDER), time.monotonic() - began)
        of_llama.result()
        _tell(chosen.folder, (LLAMA,), time.monotonic() - began)


def _tell(folder: Path, names: tuple[str, ...], seconds: float) -> None:
    for name in names:
        size = sum(path.stat().st_size for path in (folder / name).rglob("*") if path.is_file())
        print(f"{name}: {size:,} bytes", flush=True)
    print(f"  in {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
