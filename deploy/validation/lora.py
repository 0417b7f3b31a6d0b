"""LoRA adapters: names that a request can use, modules that an engine can have, sizes above zero."""

import re
from collections.abc import Iterator, Sequence

from deploy.catalog import ENGINE_ENDS_WITH
from deploy.catalog.flags import build_flags
from deploy.catalog.names import offer
from deploy.catalog.releases import first_offered
from deploy.catalog.versions import at_least
from deploy.engine.recipe import ADAPTERS_ARE
from deploy.models.paths import has_engine
from deploy.models.resolve import precision_of
from deploy.refusals import Refusal
from deploy.spec import LoRA
from deploy.validation.placed_llm import Placed
from deploy.validation.speculation import KEYS_SINCE
from deploy.validation.try_lines import engine_path

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
LLMAPI_ADAPTERS_SINCE = "1.3"
"""The first TensorRT-LLM whose LLM API serves adapters correctly: up to 1.2.1, CUDA graphs mix adapters up
(NVIDIA/TensorRT-LLM pull request 5480)."""

HUB_NAMES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "qkv_proj": "attn_qkv",
    "o_proj": "attn_dense",
    "gate_proj": "mlp_h_to_4h",
    "down_proj": "mlp_4h_to_h",
    "up_proj": "mlp_gate",
}
"""Names of modules in adapters, and TensorRT-LLM's names for them (lora_helper.py)."""


def lora_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in the adapters of one LLM."""
    lora = placed.model.lora
    if lora is None:
        return
    if not placed.is_engine and not (placed.trtllm and at_least(placed.trtllm, LLMAPI_ADAPTERS_SINCE)):
        yield placed.no(
            "lora-path",
            "the PyTorch path does not serve adapters: under CUDA graphs "
            f"{f'TensorRT-LLM {placed.trtllm}' if placed.trtllm else 'this release'} answers with the wrong adapter",
            "lora",
            seen=f"LoRA(…) on path {placed.path}, {placed.release}",
            wanted="the engine path, where a request gives lora_task_id",
            attempt=f"{_on_an_engine(placed)}a checkpoint with the adapter merged in",
        )
    if placed.is_engine:
        yield from _served(placed)
        yield from _type(placed)
    yield from adapter_problems(placed, lora)
    yield from _modules(placed, lora)


def _on_an_engine(placed: Placed) -> str:
    if not has_engine(placed.served.architecture, placed.trtllm):
        return ""
    return f"{engine_path(placed, precision=ADAPTERS_ARE)}; or "


def adapter_problems(placed: Placed, lora: LoRA) -> Iterator[Refusal]:
    """A refusal for each mistake in the adapters' names, numbers and sizes, for every program that serves them."""
    yield from _adapters(placed, lora)
    for adapter in lora.adapters:
        if adapter.weights.repository and adapter.weights.repository == placed.model.weights.repository:
            yield placed.no(
                "adapter-of-base",
                f"the weights of the adapter {adapter.name} are those of the model itself",
                "lora",
                seen=f"{adapter.weights.repository}, for both",
                wanted="the adapter's own repository, with adapter_config.json",
                attempt=f'Adapter(name="{adapter.name}", …, weights=Weights.hub("OWNER/ADAPTER", "COMMIT"))',
            )


def _served(placed: Placed) -> Iterator[Refusal]:
    if placed.trtllm and not at_least(placed.trtllm, KEYS_SINCE):
        yield placed.no(
            "lora-too-early",
            f"the backend of TensorRT-LLM {placed.trtllm} loads no adapters by itself",
            "lora",
            seen=f"LoRA(…), {placed.release}",
            wanted=f"TensorRT-LLM {KEYS_SINCE} or later",
            attempt=f'release="{first_offered(KEYS_SINCE)}", or a checkpoint with the adapter merged in',
        )


def _type(placed: Placed) -> Iterator[Refusal]:
    if precision_of(placed.served) == "bfloat16" and placed.model.engine.checkpoint == "hub":
        yield placed.no(
            "lora-type",
            "adapters are read as float16, and an engine of bfloat16 refuses them or answers as if there were none",
            "precision",
            seen=f'precision="{placed.model.precision}", which is bfloat16 here, with LoRA(…)',
            wanted="an engine with the adapters' data type (NVIDIA/TensorRT-LLM issue 2434, tensorrtllm_backend "
            "issue 791)",
            attempt=f'precision="{ADAPTERS_ARE}", or a quantised precision, whose 16-bit parts are then float16',
        )


def _adapters(placed: Placed, lora: LoRA) -> Iterator[Refusal]:
    if not lora.adapters:
        yield placed.no(
            "no-adapters",
            "LoRA without an adapter reserves memory that nothing uses",
            "lora.adapters",
            seen="()",
            wanted="one Adapter or more",
            attempt='Adapter(name="support", task_id=1, weights=Weights.hub(…)), or leave lora out',
        )
    names, numbers = [adapter.name for adapter in lora.adapters], [adapter.task_id for adapter in lora.adapters]
    for adapter in lora.adapters:
        if not NAME.fullmatch(adapter.name):
            yield placed.no(
                "bad-name",
                f"{adapter.name!r} cannot name an adapter and a directory",
                f'lora.adapters["{adapter.name}"].name',
                seen=repr(adapter.name),
                wanted="letters, digits, inner dots, hyphens and underscores, 64 at most",
                attempt="rename it",
            )
    yield from _twice(placed, "name", names, "another name")
    yield from _twice(placed, "task_id", numbers, f"task_id={max(numbers, default=0) + 1}")


def _twice(placed: Placed, field: str, values: Sequence[str | int], attempt: str) -> Iterator[Refusal]:
    for value in sorted({value for value in values if values.count(value) > 1}, key=str):
        yield placed.no(
            f"duplicate-adapter-{field.replace('_', '-')}",
            f"two adapters have {field} {value!r}",
            "lora.adapters",
            seen=", ".join(str(value) for value in values),
            wanted=f"a different {field} for each adapter, because requests select the adapter by it",
            attempt=attempt,
        )


def _modules(placed: Placed, lora: LoRA) -> Iterator[Refusal]:
    known = _known_modules(placed)
    if not lora.target_modules:
        yield placed.no(
            "no-lora-modules",
            "target_modules names no module for the adapters to change",
            "lora.target_modules",
            seen="()",
            wanted="the modules in the adapters' adapter_config.json, by TensorRT-LLM's names",
            attempt='target_modules=("attn_q", "attn_k", "attn_v")',
        )
    for module in lora.target_modules:
        if module in HUB_NAMES or module not in known:
            meant = HUB_NAMES.get(module, "")
            yield placed.no(
                "unknown-lora-module",
                f"TensorRT-LLM has no module {module!r} for an adapter of this model",
                "lora.target_modules",
                seen=", ".join(lora.target_modules),
                wanted=f"any of {', '.join(known)}",
                attempt=f'"{meant}", as TensorRT-LLM calls it' if meant else offer(module, known),
            )


def _known_modules(placed: Placed) -> list[str]:
    """The modules of a decoder of this shape: expert modules only if the model has experts, cross attention never."""
    flag = build_flags(placed.trtllm or ENGINE_ENDS_WITH).flags.get("--lora_target_modules")
    every = flag.choices if flag else tuple(HUB_NAMES.values())
    wrong = ("cross_attn", "mlp_") if placed.served.shape.experts else ("cross_attn", "moe_", "mlp_router")
    return [name for name in every if not name.startswith(wrong)]
