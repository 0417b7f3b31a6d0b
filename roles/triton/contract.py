"""Inputs and outputs of an engine's models: the contract between the image's code and our config.pbtxt.

The models request each other's tensors by name, and Triton refuses a name that a configuration lacks, so the inner
models declare all tensors of their TensorRT-LLM (tensor_tables.py); tensors that clients cannot use (logits of an
engine built without them) are left out of the two public models.
"""

from dataclasses import dataclass, replace

from deploy.catalog.versions import at_least
from roles.triton import tensor_tables as tables


@dataclass(frozen=True)
class Tensor:
    """An input or output; a `scalar` reaches the model without its dimension of 1, a `bls_scalar` the BLS model."""

    name: str
    type: str
    dims: str
    optional: bool = False
    ragged: bool = False
    scalar: bool = False
    bls_scalar: bool = False


@dataclass(frozen=True)
class Logits:
    """The logits that the engine was built to return."""

    context: bool = False
    generation: bool = False

    def offered(self, tensors: list[Tensor]) -> list[Tensor]:
        return [
            tensor
            for tensor in tensors
            if (self.context or "context_logits" not in tensor.name)
            and (self.generation or "generation_logits" not in tensor.name)
        ]


@dataclass(frozen=True)
class Tensors:
    """Inputs and outputs of one model."""

    inputs: list[Tensor]
    outputs: list[Tensor]


@dataclass(frozen=True)
class Step:
    """A step of the ensemble: its model's role, and (the step's name, the ensemble's name) of its tensors."""

    role: str
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]


@dataclass(frozen=True)
class Contract:
    """Tensors of every model of an engine by role, the ensemble's included, and the ensemble's steps."""

    ensemble: Tensors
    by_role: dict[str, Tensors]
    steps: list[Step]


def contract(trtllm: str, logits: Logits, is_drafted: bool) -> Contract:
    """The contract of this TensorRT-LLM: text to ids, ids to ids, ids to text; every table is read once."""
    preprocessing = Tensors(*_read(trtllm, tables.PREPROCESSING_INPUTS, tables.PREPROCESSING_OUTPUTS))
    engine = Tensors(*_read(trtllm, tables.ENGINE_INPUTS, tables.ENGINE_OUTPUTS))
    postprocessing = Tensors(*_read(trtllm, tables.POSTPROCESSING_INPUTS, tables.POSTPROCESSING_OUTPUTS))
    public_inputs, public_outputs, drafted_inputs = _read(
        trtllm, tables.PUBLIC_INPUTS, tables.PUBLIC_OUTPUTS, tables.DRAFTED_INPUTS
    )
    ensemble = Tensors(logits.offered(public_inputs), logits.offered(public_outputs))
    bls_inputs = logits.offered(public_inputs + drafted_inputs if is_drafted else public_inputs)
    bls = Tensors(
        [replace(tensor, scalar=tensor.scalar or tensor.bls_scalar) for tensor in bls_inputs], ensemble.outputs
    )
    by_role = {"preprocessing": preprocessing, "postprocessing": postprocessing, "tensorrt_llm_bls": bls}
    by_role |= {"tensorrt_llm": engine, "tensorrt_llm_draft": engine}
    return Contract(ensemble, by_role, _steps(ensemble, preprocessing, engine, postprocessing))


def _read(trtllm: str, *texts: str) -> list[list[Tensor]]:
    return [[_tensor(row) for row in text.strip().splitlines() if row.strip() and _has(trtllm, row)] for text in texts]


def _has(trtllm: str, row: str) -> bool:
    bounds = dict(word.split("=") for word in row.split() if "=" in word)
    return at_least(trtllm, bounds.get("since", "0")) and not at_least(trtllm, bounds.get("before", "999"))


def _tensor(row: str) -> Tensor:
    name, kind, dims, *words = row.split()
    return Tensor(
        name,
        kind,
        dims.replace(",", ", "),
        optional="optional" in words,
        ragged="ragged" in words,
        scalar="scalar" in words,
        bls_scalar="bls-scalar" in words,
    )


def _steps(ensemble: Tensors, before: Tensors, engine: Tensors, after: Tensors) -> list[Step]:
    """Text to ids, ids to ids, ids to text; each tensor under its own name and under the ensemble's."""
    inputs, outputs = {tensor.name for tensor in ensemble.inputs}, {tensor.name for tensor in ensemble.outputs}
    taken_in = [
        (tensor.name, tables.PREPROCESSING_NAMES.get(tensor.name, tensor.name.lower())) for tensor in before.inputs
    ]
    passed = [
        (tensor.name, f"_{tables.PASSED_ON[tensor.name]}")
        for tensor in before.outputs
        if tensor.name in tables.PASSED_ON
    ]
    inner = set(tables.PASSED_ON.values())
    taken = [
        (tensor.name, f"_{tensor.name}" if tensor.name in inner else tables.ENGINE_NAMES.get(tensor.name, tensor.name))
        for tensor in engine.inputs
    ]
    further_outputs = [(tensor.name, tensor.name) for tensor in engine.outputs if tensor.name in outputs]
    tokens = [("output_ids", "_output_ids"), ("sequence_length", "_sequence_length")]
    return [
        Step("preprocessing", taken_in, passed),
        Step(
            "tensorrt_llm",
            [(own, ours) for own, ours in taken if ours[0] == "_" or ours in inputs],
            tokens + further_outputs,
        ),
        Step(
            "postprocessing",
            list(zip([tensor.name for tensor in after.inputs], [ours for _, ours in tokens], strict=True)),
            [("OUTPUT", "text_output")],
        ),
    ]
