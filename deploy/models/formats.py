"""The format of published weights, from config.json's `quantization_config` and the names of the files. Pure."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from deploy.catalog.formats import FP8_BLOCK, NAMED

BITS = r"([-_.](int)?[48](bit)?)?"
MODELOPT_FILE = "hf_quant_config.json"
OF_MODELOPT = {"FP8": "fp8-modelopt", "NVFP4": "nvfp4", "FP8_PB_WO": "fp8-blocks", "FP8_BLOCK_SCALES": "fp8-blocks"}
METHODS = {"mxfp4": "mxfp4", "awq": "awq", "gptq": "gptq", "bitsandbytes": "bitsandbytes", "auto-round": "auto-round"}
METHODS |= {"exl2": "exl", "exl3": "exl", "fbgemm_fp8": "fbgemm"}


def format_of(quantization: Mapping[str, Any], names: Collection[str] = ()) -> str:
    """The row of catalog.FORMATS; empty for plain numbers. `names` are the files, if known."""
    method = str(quantization.get("quant_method") or "").lower()
    if not method and not quantization:
        return ""
    if method == "modelopt" or (not method and "quant_algo" in quantization):
        return _of_modelopt(quantization, names)
    if method == "fp8":
        block = quantization.get("weight_block_size")
        return ("fp8-blocks" if block == [FP8_BLOCK, FP8_BLOCK] else "fp8-other-blocks") if block else "fp8-tensor"
    if method == "compressed-tensors":
        return _of_compressed(quantization)
    if method == "quark":
        groups = quantization.get("global_quant_config")
        weights = groups.get("weight") if isinstance(groups, Mapping) else None
        return "quark-fp8" if isinstance(weights, Mapping) and weights.get("dtype") == "fp8_e4m3" else "unknown"
    if not method and {"bits", "group_size"} <= quantization.keys():
        return "mlx"
    return METHODS.get(method, "unknown")


def stored_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of config.json about the format; older repositories of MLX have it as `quantization`."""
    parts = (config.get(name) for name in ("quantization_config", "quantization"))
    return next((part for part in parts if isinstance(part, Mapping) and part), {})


def with_modelopt(config: Mapping[str, Any], content: Mapping[str, Any]) -> Mapping[str, Any]:
    """config.json with the format that ModelOpt's own file names: older repositories name the format in that file
    only."""
    stored = content.get("quantization")
    algorithm = stored.get("quant_algo") if isinstance(stored, Mapping) else None
    if config.get("quantization_config") or not algorithm:
        return config
    return {**config, "quantization_config": {"quant_method": "modelopt", "quant_algo": str(algorithm)}}


def format_by_name(repository: str) -> str:
    """The row of catalog.FORMATS named at the end of a repository's name; empty without one."""
    name = repository.rpartition("/")[2].lower()
    return next((row for word, row in NAMED if re.search(rf"[-_.]{re.escape(word)}{BITS}$", name)), "")


def _of_modelopt(quantization: Mapping[str, Any], names: Collection[str]) -> str:
    """ModelOpt's format; a repository whose files are listed must have ModelOpt's own file beside config.json."""
    if names and MODELOPT_FILE not in names:
        return "modelopt-inline"
    return OF_MODELOPT.get(str(quantization.get("quant_algo") or "").upper(), "modelopt-other")


def _of_compressed(quantization: Mapping[str, Any]) -> str:
    """The format of compressed tensors; without groups, `format` at least identifies 8-bit floating-point numbers."""
    groups = quantization.get("config_groups")
    rows = [group for group in (groups.values() if isinstance(groups, Mapping) else ()) if isinstance(group, Mapping)]
    formats = {_format_of_weights(row["weights"]) for row in rows if isinstance(row.get("weights"), Mapping)}
    if not formats:
        return "compressed-channels" if quantization.get("format") == "float-quantized" else "compressed-other"
    return formats.pop() if len(formats) == 1 else "compressed-other"  # experts in NVFP4, attention in FP8, for example


def _format_of_weights(weights: Mapping[str, Any]) -> str:
    if weights.get("type") != "float" or weights.get("num_bits") != 8:
        return "compressed-other"
    return {"channel": "compressed-channels", "block": "compressed-blocks"}.get(
        str(weights.get("strategy")), "compressed-tensor"
    )
