"""Published weights and TensorRT-LLM checkpoints, as far as the stand-ins read and write them.

A checkpoint here has the real file names and configuration keys; its tensors are a few bytes. It keeps the digest of
its source, so that an engine of other weights can answer differently.
"""

import hashlib
import json
import struct
from pathlib import Path

# Settings of a rehearsal's config.json, which checkpoint and engine keep.
CARRIED = ("rehearsal_build_seconds", "rehearsal_build_mib", "rehearsal_engine_drift")
BITS = {"FP8": 8, "W8A8_SQ_PER_CHANNEL": 8, "W8A16": 8, "NVFP4": 4}


def published(folder):
    """Returns config.json of published weights. Raises the scripts' error if there are none."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise OSError(f"{folder} does not appear to have a file named config.json.")
    if not list(folder.glob("*.safetensors")):
        raise FileNotFoundError(f"No safetensors weight files found in {folder}")
    return json.loads((folder / "config.json").read_text())


def digest(folder):
    """Returns a digest that distinguishes sets of weights."""
    total = hashlib.sha256()
    for file in [Path(folder) / "config.json", *sorted(Path(folder).glob("*.safetensors"))]:
        total.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


def weights_mib(folder):
    """Returns MiB of the published weights, or the rehearsal's setting."""
    wanted_mib = published(folder).get("rehearsal_build_mib")
    return (
        int(wanted_mib) if wanted_mib else sum(file.stat().st_size for file in Path(folder).glob("*.safetensors")) >> 20
    )


def write(folder, output, architecture, dtype, algorithm, cache, tensor, pipeline):
    """Writes a checkpoint of `tensor` times `pipeline` ranks to `output`."""
    source, output = published(folder), Path(output)
    output.mkdir(parents=True, exist_ok=True)
    heads = source.get("num_attention_heads", 1)
    configuration = {
        "producer": {"name": "rehearsal stand-in", "version": "1.2.1"},
        "architecture": architecture,
        "dtype": _dtype(dtype, source),
        "logits_dtype": "float32",
        "num_hidden_layers": source.get("num_hidden_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.get("num_key_value_heads", heads),
        "hidden_size": source.get("hidden_size"),
        "intermediate_size": source.get("intermediate_size"),
        "vocab_size": source.get("vocab_size"),
        "max_position_embeddings": source.get("max_position_embeddings"),
        "mapping": {"world_size": tensor * pipeline, "tp_size": tensor, "pp_size": pipeline, "cp_size": 1},
        "quantization": {"quant_algo": algorithm, "kv_cache_quant_algo": cache},
        "checkpoint": digest(folder),
        "weights_mib": weights_mib(folder) * BITS.get(algorithm, 16) // 16 // (tensor * pipeline),
        **{key: source[key] for key in CARRIED if key in source},
    }
    for rank in range(tensor * pipeline):
        _write_rank(output / f"rank{rank}.safetensors", configuration["checkpoint"], rank)
    (output / "config.json").write_text(json.dumps(configuration, indent=4))


def _dtype(wanted, source):
    if wanted != "auto":
        return wanted
    dtype = source.get("torch_dtype", source.get("dtype", "float16"))
    return "bfloat16" if dtype == "float32" else dtype


def _write_rank(path, checkpoint, rank):
    body = hashlib.shake_256(f"{checkpoint} {rank}".encode()).digest(4096)
    header = {"__metadata__": {"rehearsal stand-in": "true", "checkpoint": checkpoint}}
    header["transformer.vocab_embedding.weight"] = {"dtype": "U8", "shape": [len(body)], "data_offsets": [0, len(body)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
