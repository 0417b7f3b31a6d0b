"""The parts of a sentence-transformers checkpoint around the network: pooling, longest text, and the steps after.

Read from modules.json, 1_Pooling/config.json and sentence_bert_config.json where they exist; without them mean pooling
over 512 tokens, the usual case. A Dense step is computed in float32 on the pooled states. Any other step is refused:
without it, vectors would have the right shape and wrong values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .checkpoint import Kind, load_strictly, read_json
from .errors import CheckpointError
from .weights import pair

USUAL_TOKENS = 512
STEPS = ("Transformer", "Pooling", "Dense", "Normalize")
PREFIX = "pooling_mode_"
SWITCHES = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
POOLINGS = (["mean"], ["cls"], ["last"])
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"Identity": lambda x: x, "Tanh": torch.tanh}


@dataclass(frozen=True)
class Dense:
    """A projection of the pooled states; its directory holds its config.json and its weights."""

    directory: Path
    inputs: int
    outputs: int
    bias: bool
    activation: str

    def load(self, device: str) -> Callable[[Tensor], Tensor]:
        """A function for the step in float32: [sequences, inputs] to [sequences, outputs].

        Raises: CheckpointError if the weights are missing or have another shape.
        """
        wanted = pair("linear", self.outputs, self.inputs)
        if not self.bias:
            del wanted["linear.bias"]
        loaded = load_strictly(wanted, self.directory, Kind(torch.float32))
        tensors = {name: tensor.to(device) for name, tensor in loaded.items()}
        weight, bias, activation = tensors["linear.weight"], tensors.get("linear.bias"), ACTIVATIONS[self.activation]
        return lambda x: activation(F.linear(x.float(), weight, bias))


def dense_steps(directory: Path, hidden: int) -> list[Dense]:
    """The projections after pooling, in order; the first one has `hidden` inputs.

    Raises: CheckpointError for an unsupported step, order or size.
    """
    if not (directory / "modules.json").is_file():
        return []
    modules = read_json(directory, "modules.json")
    kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
    if strange := [kind for kind in kinds if kind not in STEPS]:
        raise CheckpointError(f"{directory}/modules.json: step {strange[0]} is not served; only {', '.join(STEPS)}")
    if sorted(kinds, key=STEPS.index) != kinds:
        raise CheckpointError(f"{directory}/modules.json: steps are {', '.join(kinds)}; only served in the usual order")
    steps = []
    for module, kind in zip(modules, kinds, strict=True):
        if kind == "Dense":
            step = _dense(directory, str(module.get("path", "")))
            if step.inputs != hidden:
                raise CheckpointError(f"{step.directory}: takes {step.inputs} values of {hidden}")
            steps.append(step)
            hidden = step.outputs
    return steps


def _dense(directory: Path, name: str) -> Dense:
    if not name or Path(name).name != name or name == "..":
        raise CheckpointError(f"{directory}/modules.json: `{name}` is no directory of this checkpoint")
    config: dict[str, Any] = read_json(directory, f"{name}/config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rsplit(".", 1)[-1]
    place = f"{directory / name}/config.json"
    if activation not in ACTIVATIONS:
        raise CheckpointError(f"{place}: activation is {activation}; only {' and '.join(ACTIVATIONS)} are served")
    for key in ("module_input_name", "module_output_name"):
        if (value := config.get(key)) not in (None, "sentence_embedding"):
            raise CheckpointError(f"{place}: {key} is {value!r}; only the sentence's own embedding is projected")
    try:
        sizes = int(config["in_features"]), int(config["out_features"])
    except KeyError as error:
        raise CheckpointError(f"{place}: {error} is missing") from None
    return Dense(directory / name, *sizes, bool(config.get("bias", True)), activation)


def pooling_mode(directory: Path, usual: str = "mean") -> str:
    """`mean`, `cls` or `last`, as the checkpoint declares; `usual` by default.

    Raises: CheckpointError for another pooling.
    """
    path = directory / "1_Pooling" / "config.json"
    if not path.is_file():
        return usual
    config = read_json(path.parent, path.name)
    on = [key.removeprefix(PREFIX) for key, value in config.items() if key.startswith(PREFIX) and value is True]
    modes = [SWITCHES.get(key, key) for key in on] or [config.get("pooling_mode", "none")]
    modes = [SWITCHES.get(str(mode), mode) for mode in modes]
    if modes not in POOLINGS:
        raise CheckpointError(f"{path}: pooling is {' + '.join(map(str, modes))}; only mean, cls or last is served")
    if config.get("include_prompt", True) is False:
        raise CheckpointError(f"{path}: include_prompt is false; only pooling with the prefix is served")
    return str(modes[0])


def token_limit(directory: Path, max_tokens: int, capacity: int) -> int:
    """Longest sequence in tokens: `asked`; if that is 0, the checkpoint's own or 512. At most `capacity`.

    Raises: CheckpointError if `asked` exceeds the checkpoint's positions.
    """
    if max_tokens > capacity:
        raise CheckpointError(f"config.pbtxt: max_tokens is {max_tokens}; {directory} has positions for {capacity}")
    if max_tokens:
        return max_tokens
    path = directory / "sentence_bert_config.json"
    own = read_json(directory, path.name).get("max_seq_length") if path.is_file() else None
    return min(own or USUAL_TOKENS, capacity)
