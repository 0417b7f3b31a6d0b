"""Kinds of repositories that cannot be loaded here, recognised by the names of their files. Pure."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from typing import Any

from deploy.catalog.architectures import ENCODER_FILES
from deploy.models.config_json import architecture_of
from deploy.models.names import files_of
from deploy.refusals import Refusal, refuse

EXTRA = ("hf_quant_config.json", "quant_cfg.json", "model.safetensors")
"""Files of ModelOpt, which the PyTorch backend reads, and weights in one file, as a fine-tuned gpt-oss may have."""
HINTS = ("*.gguf", "adapter_config.json", "*.bin", "*.pt", "modules.json", "*_*/config.json", "*.safetensors", "*.py")
"""Files beside the fetched ones that describe a repository."""
MOST_HINTS = 20
REWRITTEN = "pytorch_model.bin"
_PICKLES = ("pickles, and loading a pickle runs the code in it", "a revision with safetensors: OWNER/NAME@refs/pr/N")
_SOURCE = "the repository that these were converted from; it has safetensors"
FOREIGN = (
    ("model_index.json", "a pipeline of diffusers for images, video or sound", "another project for this model"),
    ("*.gguf", "GGUF, llama.cpp's format", _SOURCE),
    ("pytorch_model*.bin", *_PICKLES),
    ("*.onnx", "ONNX, a compiled graph", _SOURCE),
    ("*openvino*", "OpenVINO, a compiled graph", _SOURCE),
    ("*vocabulary.*", "weights of CTranslate2", _SOURCE),
    ("ggml*.bin", "ggml, whisper.cpp's format", _SOURCE),
    *((f"*.{ending}", *_PICKLES) for ending in ("bin", "pt", "pth", "ckpt", "pkl", "nemo")),
    *((f"*.{ending}", "weights of TensorFlow or Flax", _PICKLES[1]) for ending in ("h5", "msgpack")),
    *((f"*.{ending}", "LiteRT, a graph for phones", _SOURCE) for ending in ("tflite", "task", "litertlm")),
    ("*.mlmodel", "Core ML, a graph for Apple's devices", _SOURCE),
    ("*.engine", "a TensorRT engine, compiled for one card", _SOURCE),
    ("*.safetensors", "safetensors under names that no loader looks for", "a repository with model.safetensors"),
)
"""Names of files that this project does not load as weights: their format, and the files to name instead."""


def fetched(names: Collection[str], architecture: str) -> tuple[str, ...]:
    """The files of a repository that a host fetches for this architecture, sorted."""
    around = ENCODER_FILES if "modules.json" in names else ()  # an embedding decoder has its pooling in further files
    patterns = (*files_of(architecture), *around, *EXTRA)
    matching = {name for name in names if any(_matches(name, pattern) for pattern in patterns)}
    safe = {_folder(name) for name in matching if name.endswith(".safetensors")}
    return tuple(sorted(name for name in matching if not (name.endswith(REWRITTEN) and _folder(name) in safe)))


def hint_files(names: Collection[str]) -> tuple[str, ...]:
    """Files that describe a repository, sorted; only the first few of many."""
    matching = sorted(name for name in names if any(fnmatch(name, pattern) for pattern in HINTS))
    return tuple(matching[:MOST_HINTS])


def weights_files(names: Collection[str], architecture: str) -> tuple[str, ...]:
    return tuple(name for name in fetched(names, architecture) if name.endswith(".safetensors"))


def rewritten_files(names: Collection[str], architecture: str) -> tuple[str, ...]:
    return tuple(name for name in fetched(names, architecture) if name == REWRITTEN)


def kind_problem(
    where: str, names: Collection[str], config: Mapping[str, Any], *, is_hub: bool = False
) -> Refusal | None:
    """The refusal of a repository or directory without safetensors of a whole model; else None.

    For an encoder from a hub, pytorch_model.bin is accepted as well.
    """
    architecture = architecture_of(config)
    is_whole = bool(architecture) and bool(weights_files(names, architecture))  # merged weights beside their adapter
    if ("adapter_config.json" in names and not is_whole) or config.get("peft_type"):
        return _refused(
            where,
            "adapters alone",
            "adapter_config.json" if "adapter_config.json" in names else f"peft_type {config['peft_type']}",
            "the base model as a model, and these as LoRA(adapters=(Adapter(…),)) of it",
        )
    if weights_files(names, architecture) or (is_hub and rewritten_files(names, architecture)):
        if architecture or not (config or is_hub):
            return None
        seen = f"config.json without `architectures`, with {', '.join(sorted(config)[:3])}"
        seen = seen if config else f"no config.json, and {', '.join(sorted(names)[:3])}"
        return _refused(where, "a model of another library than transformers", seen, "another project for this model")
    for pattern, title, attempt in FOREIGN:
        if matching := [name for name in sorted(names) if fnmatch(name, pattern)]:
            return _refused(where, title, f"{matching[0]}" + _more(matching), attempt)
    seen = f"{len(names)} files, among them {', '.join(sorted(names)[:3])}" if names else "no files"
    return _refused(where, "no weights", seen, "a repository with config.json and model.safetensors")


def _matches(name: str, pattern: str) -> bool:
    return fnmatch(name, pattern) and ("/" in pattern or "/" not in name)


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _refused(where: str, title: str, seen: str, attempt: str) -> Refusal:
    return refuse(
        "no-checkpoint",
        f"{where} holds {title}, and no model for transformers in safetensors",
        where=where,
        seen=seen,
        wanted="config.json, and safetensors files whose headers say how large the model is",
        attempt=attempt,
    )
