"""convert_checkpoint.py of EAGLE, Medusa and ReDrafter: a model with heads becomes one checkpoint.

The catalog lacks their flags, so this module lists those that all examined revisions have.
"""

import argparse
import json
from pathlib import Path

from . import checkpoint

SHARED = {"--output_dir": str, "--dtype": str, "--tp_size": int, "--workers": int}
WEIGHTS = {"--pp_size": int, "--weight_only_precision": str}
FLAGS = {
    "eagle": {"--model_dir": str, "--eagle_model_dir": str, "--max_draft_len": int, "--num_eagle_layers": int}
    | WEIGHTS,
    "medusa": {"--model_dir": str, "--medusa_model_dir": str, "--num_medusa_heads": int, "--max_medusa_token_len": int}
    | WEIGHTS,
    "redrafter": {"--base_model_checkpoint_dir": str, "--drafter_model_dir": str, "--redrafter_num_beams": int,
                  "--redrafter_draft_len_per_beam": int},
}  # fmt: skip
ARCHITECTURES = {"eagle": "EagleForCausalLM", "medusa": "MedusaForCausalLM", "redrafter": "ReDrafterForLLaMALM"}


def main(kind):
    """Writes the checkpoint; returns 0."""
    parser = argparse.ArgumentParser(prog="convert_checkpoint.py")
    for name, of in (SHARED | FLAGS[kind]).items():
        parser.add_argument(name, type=of, help="(rehearsal stand-in)")
    if kind != "redrafter":
        parser.add_argument("--use_weight_only", action="store_true", help="(rehearsal stand-in)")
    options = vars(parser.parse_args())
    print("rehearsal stand-in: nothing is converted", flush=True)
    heads = Path(options["drafter_model_dir" if kind == "redrafter" else f"{kind}_model_dir"] or "")
    if not heads.is_dir():
        raise FileNotFoundError(f"[Errno 2] No such file or directory: '{heads}'")
    if kind == "redrafter":
        return _attach(Path(options["base_model_checkpoint_dir"] or ""), Path(options["output_dir"]))
    only = options["weight_only_precision"] if options["use_weight_only"] else ""
    algorithm = {"int8": "W8A16", "int4": "W4A16"}.get(only)
    checkpoint.write(
        options["model_dir"], options["output_dir"], ARCHITECTURES[kind], options["dtype"] or "float16", algorithm,
        None, options["tp_size"] or 1, options["pp_size"] or 1,
    )  # fmt: skip
    return 0


def _attach(base, output):
    """Adds heads to a converted model, the input of ReDrafter's script."""
    model = json.loads((base / "config.json").read_text()) | {"architecture": ARCHITECTURES["redrafter"]}
    output.mkdir(parents=True, exist_ok=True)
    for shard in base.glob("rank*.safetensors"):
        (output / shard.name).write_bytes(shard.read_bytes())
    (output / "config.json").write_text(json.dumps(model, indent=4))
    return 0
