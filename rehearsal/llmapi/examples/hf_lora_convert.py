"""Converts a LoRA adapter to the engine's form: the real files' names, without computation (rehearsal stand-in)."""

import argparse
import json
from pathlib import Path

import numpy as np


def main():
    """Writes both files to the output directory."""
    parser = argparse.ArgumentParser(description="rehearsal stand-in")
    parser.add_argument("--out-dir", "-o", type=Path, required=True)
    parser.add_argument("--in-file", "-i", type=Path, required=True)
    parser.add_argument("--storage-type", "-t", default="float32", choices=["float32", "float16", "bfloat16"])
    options = parser.parse_args()
    rank = json.loads((options.in_file / "adapter_config.json").read_text())["r"]
    options.out_dir.mkdir(parents=True, exist_ok=True)
    np.save(options.out_dir / "model.lora_config.npy", np.array([[[1, 0, rank]]], np.int32))
    np.save(options.out_dir / "model.lora_weights.npy", np.zeros((1, 1, rank), np.float16))


if __name__ == "__main__":
    main()
