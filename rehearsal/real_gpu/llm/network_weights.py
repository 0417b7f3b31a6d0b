"""A network of transformers with the weights of a checkpoint, read from its shards (rehearsal stand-in)."""

import json
import os

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.generation.continuous_batching import cache as paged_cache
from transformers.initialization import no_init_weights


def network(folder, device):
    """The checkpoint's network on the device, every weight read from its shards; bfloat16 on a card, else float32."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    if device.type == "cpu":  # transformers asks psutil, which is no package of the image
        paged_cache.get_device_and_memory_breakdown = _cpu_memory
    with torch.device(device), no_init_weights():
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(folder), dtype=dtype, attn_implementation="sdpa"
        )
    parameters = dict(model.named_parameters(remove_duplicate=False))
    missing = {id(parameter): name for name, parameter in parameters.items()}
    for shard in _shards(folder):
        with safe_open(shard, framework="pt", device=str(device)) as tensors:
            for name in tensors.keys():  # noqa: SIM118 - it is no dictionary
                if name not in parameters:
                    raise ValueError(f"{shard.name} has {name}, which {type(model).__name__} has not")
                parameters[name].data.copy_(tensors.get_tensor(name))
                missing.pop(id(parameters[name]), None)
    if missing:
        raise ValueError(f"the shards in {folder} lack {', '.join(sorted(missing.values()))}")
    return model.requires_grad_(False)


def _shards(folder):
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return sorted(folder.glob("*.safetensors"))
    return sorted({folder / name for name in json.loads(index.read_text())["weight_map"].values()})


def _cpu_memory():
    """(device, total, reserved, allocated) bytes."""
    return torch.device("cpu"), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), 0, 0
