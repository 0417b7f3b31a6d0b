"""Every input of one engine's commands; no path, no host name.

A draft model is a separate engine: a recipe like its target's, with its own checkpoint and no speculation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deploy.engine.scripts import family_of
from deploy.models.budget import pages_context
from deploy.models.files import speculative_weights_of, weights_of
from deploy.models.resolve import Layout, Served, kv_dtype_of, layout_of, precision_of
from deploy.slices.host import WeightsSlice
from deploy.spec import LLM, Calibration, Draft, LoRA, ReDrafter, Server, Speculative

TARGET, DRAFT = "target", "draft"
PLAIN = ("float16", "bfloat16")
ADAPTERS_ARE = "float16"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The inputs of one engine. `beside` holds the files of a draft model or of heads; `kv_dtype` is bfloat16 if the
    cache holds 16 bit."""

    model: str
    role: str
    architecture: str
    trtllm: str
    precision: str
    kv_dtype: str
    layout: Layout
    weights: WeightsSlice
    max_batch_size: int
    max_input_len: int
    max_seq_len: int
    max_num_tokens: int
    max_beam_width: int = 1
    is_finished: bool = False
    """The weights are a TensorRT-LLM checkpoint already."""
    has_experts: bool = False
    pages_context: bool = True
    context_logits: bool = False
    generation_logits: bool = False
    calibration: Calibration | None = None
    speculative: Speculative | None = None
    speculative_weights: WeightsSlice | None = None
    lora: LoRA | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return family_of(self.architecture)

    @property
    def is_plain(self) -> bool:
        return self.precision in PLAIN

    @property
    def has_small_cache(self) -> bool:
        return self.kv_dtype in ("fp8", "int8")

    @property
    def dtype(self) -> str:
        """The type of everything that is not quantised: `auto`, or a named type if heads or adapters need one.

        ReDrafter's heads are bfloat16. Adapters reach the engine as float16: the example that brings them into its form
        writes bfloat16 as numpy's V2, which numpyUtils.cpp does not read.
        """
        unsaid = "bfloat16" if isinstance(self.speculative, ReDrafter) else "auto"
        return self.precision if self.is_plain else ADAPTERS_ARE if self.lora else unsaid


def recipes_of(served: Served, server: Server, trtllm: str) -> tuple[Recipe, ...]:
    """The target's recipe, then the draft's if a draft model speculates."""
    model = served.model
    assert isinstance(model, LLM), "an encoder has no engine"
    target = _target(served, model, layout_of(server, model), trtllm)
    if not isinstance(model.speculative, Draft) or not served.draft or target.speculative_weights is None:
        return (target,)
    return target, _draft(target, served.draft.architecture, target.speculative_weights)


def _target(served: Served, model: LLM, layout: Layout, trtllm: str) -> Recipe:
    engine = model.engine
    return Recipe(
        model=model.name,
        role=TARGET,
        architecture=served.architecture.name,
        trtllm=trtllm,
        precision=precision_of(served),
        kv_dtype=kv_dtype_of(served),
        layout=layout,
        weights=weights_of(served),
        max_batch_size=model.max_batch_size,
        # an answer has at least one token
        max_input_len=engine.max_input_len or model.max_seq_len - 1,
        max_seq_len=model.max_seq_len,
        max_num_tokens=model.max_num_tokens,
        max_beam_width=engine.max_beam_width,
        is_finished=engine.checkpoint == "trtllm",
        has_experts=bool(served.shape.experts),
        pages_context=pages_context(served),
        context_logits=engine.context_logits,
        generation_logits=engine.generation_logits,
        calibration=model.calibration,
        speculative=model.speculative,
        speculative_weights=speculative_weights_of(served),
        lora=model.lora,
        options=engine.options,
    )


def _draft(target: Recipe, architecture: str, weights: WeightsSlice) -> Recipe:
    return replace(
        target,
        model=f"{target.model}-draft",
        role=DRAFT,
        architecture=architecture,
        weights=weights,
        layout=Layout(tensor=target.layout.tensor, pipeline=target.layout.pipeline),
        has_experts=False,
        max_beam_width=1,
        context_logits=False,
        speculative=None,
        speculative_weights=None,
        lora=None,
        options={},
    )
