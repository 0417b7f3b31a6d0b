"""quantize.py: needs texts to calibrate with, and a hub for the default ones."""

import time
from pathlib import Path

from . import checkpoint, gpu
from .convert import AS
from .flags import quantize_parser

ALGORITHMS = {
    "fp8": "FP8", "fp8_pc_pt": "FP8_PER_CHANNEL_PER_TOKEN", "int8_sq": "W8A8_SQ_PER_CHANNEL", "int4_awq": "W4A16_AWQ",
    "w4a8_awq": "W4A8_AWQ", "int8_wo": "W8A16", "int4_wo": "W4A16", "nvfp4": "NVFP4", "full_prec": None,
}  # fmt: skip
NOT_CALIBRATED = {"int8_wo", "int4_wo", "full_prec"}


def main():
    """Writes the checkpoint; returns 0."""
    options = quantize_parser().parse_args()
    print("rehearsal stand-in: nothing is calibrated", flush=True)
    source = checkpoint.published(options.model_dir)
    gpu.require_torch_memory(checkpoint.weights_mib(options.model_dir) // options.tp_size)
    if options.qformat not in NOT_CALIBRATED:
        _calibrate(Path(options.calib_dataset), options.calib_size)
    architecture = (source.get("architectures") or ["none"])[0]
    cache = {"fp8": "FP8", "int8": "INT8"}.get(options.kv_cache_dtype)
    checkpoint.write(
        options.model_dir, options.output_dir, AS.get(architecture, architecture), options.dtype,
        ALGORITHMS[options.qformat], cache, options.tp_size, options.pp_size,
    )  # fmt: skip
    print(f"Quantized model exported to {options.output_dir}", flush=True)
    return 0


def _calibrate(texts, samples):
    print(f"Loading calibration dataset from {texts}", flush=True)
    if not texts.is_dir():
        raise ConnectionError(f"Couldn't reach '{texts}' on the Hub (OfflineModeIsEnabled)")
    if not any(path.is_file() for path in texts.rglob("*")):
        raise FileNotFoundError(f"Couldn't find any data file at {texts}: the dataset directory is empty")
    for done in range(0, samples, max(1, samples // 4)):
        print(f"Calibrating batch {done} of {samples}", flush=True)
        time.sleep(0.01)
