"""A network of transformers with the weights of a checkpoint, read from its shards (rehearsal stand-in)."""

import json
import os

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.generation.continuous_batching import cache as paged_cache
from transformers.initialization import no_init_weights

ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
COLUMNS = ("o_proj", "down_proj")
"""Layers split by columns among the ranks; those of the tuple before are split by rows, and all others are whole on
every rank."""


def network(folder, device, rank=0, ranks=1):
    """Returns the checkpoint's network on the device, read from its shards; bfloat16 on a card, else float32.

    With several ranks it returns this rank's part: its share of the heads and of the inner dimension.
    """
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    if device.type == "cpu":  # transformers uses psutil, which the image lacks
        paged_cache.get_device_and_memory_breakdown = _cpu_memory
    config = _part(AutoConfig.from_pretrained(folder), ranks)
    with torch.device(device), no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    missing = {id(parameter): name for name, parameter in parameters.items()}
    for shard in _shards(folder):
        with safe_open(shard, framework="pt", device=str(device)) as tensors:
            for name in tensors.keys():  # noqa: SIM118 - it is no dictionary
                if name not in parameters:
                    raise ValueError(f"{shard.name} has {name}, which {type(model).__name__} has not")
                values = _mine(tensors.get_slice(name), name, rank, ranks)
                if values.shape != parameters[name].shape:
                    raise ValueError(f"{name} is {tuple(values.shape)} and not {tuple(parameters[name].shape)}")
                parameters[name].data.copy_(values)
                missing.pop(id(parameters[name]), None)
    if missing:
        raise ValueError(f"the shards in {folder} lack {', '.join(sorted(missing.values()))}")
    return model.requires_grad_(False)


def _part(config, ranks):
    config.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        whole = getattr(config, name)
        if whole % ranks:
            raise ValueError(f"{name} {whole} cannot be shared out among {ranks} GPUs")
        setattr(config, name, whole // ranks)
    if ranks > 1 and (config.attention_bias or config.mlp_bias):
        raise ValueError("biases are not shared out among GPUs in this stand-in")
    return config


def _mine(stored, name, rank, ranks):
    layer = name.split(".")[-2]
    if ranks == 1 or layer not in (*ROWS, *COLUMNS):
        return stored[:]
    size = stored.get_shape()[layer in COLUMNS] // ranks
    mine = slice(rank * size, (rank + 1) * size)
    return stored[:, mine] if layer in COLUMNS else stored[mine]


def _shards(folder):
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return sorted(folder.glob("*.safetensors"))
    return sorted({folder / name for name in json.loads(index.read_text())["weight_map"].values()})


def _cpu_memory():
    """Returns (device, total, reserved, allocated) bytes."""
    return torch.device("cpu"), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), 0, 0
