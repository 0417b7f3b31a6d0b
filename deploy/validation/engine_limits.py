"""Refusals of engine settings: beyond the release's limits, or supported on the other path only."""

from collections.abc import Iterator

from deploy.catalog.flags import BUILD, Flag, build_flags
from deploy.catalog.guide_mistakes import MISQUOTED, value_meant, why_not
from deploy.catalog.names import offer
from deploy.catalog.releases import LAST_WITH_ENGINES, first_offered
from deploy.catalog.runtime_keys import RUNTIME_KEYS
from deploy.catalog.versions import at_least
from deploy.models.budget import pages_context
from deploy.refusals import Refusal
from deploy.spec import Engine
from deploy.validation.engine_flags import USELESS
from deploy.validation.placed_llm import Placed
from deploy.validation.replay import replay_problems
from deploy.validation.try_lines import engine_path

SCRIPTS_SINCE = "0.17.0"
"""The first image whose Dockerfile copies the convert scripts (Dockerfile.triton.trt_llm_backend, v0.16.0, v0.17.0)."""

GUIDED_ENGINE_SINCE = "0.19"

SPEC_FIELDS = {
    "checkpoint_dir": "weights=…",
    "output_dir": "nothing: the plan names the directory",
    "model_config": "checkpoint=…",
    "build_config": "the fields of LLM(…)",
    "max_batch_size": "LLM(max_batch_size=…)",
    "max_input_len": "Engine(max_input_len=…)",
    "max_seq_len": "LLM(max_seq_len=…)",
    "max_num_tokens": "LLM(max_num_tokens=…)",
    "max_beam_width": "Engine(max_beam_width=…)",
    "gather_context_logits": "Engine(context_logits=True)",
    "gather_generation_logits": "Engine(generation_logits=True)",
    "gather_all_token_logits": "Engine(context_logits=True, generation_logits=True)",
    "speculative_decoding_mode": "LLM(speculative=…)",
    "max_draft_len": "LLM(speculative=Draft(tokens=…))",
    "lora_dir": "LoRA(adapters=…)",
    "lora_target_modules": "LoRA(target_modules=…)",
    "max_lora_rank": "LoRA(max_rank=…)",
    "lora_plugin": "LLM(lora=LoRA(…))",
}
"""Flags of trtllm-build that the plan writes itself, and the field of the inventory for each."""


def engine_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in the compile settings of one LLM."""
    yield from _guided(placed)
    yield from replay_problems(placed)
    if not placed.is_engine:
        yield from _not_compiled(placed)
        return
    yield from _scripts(placed)
    yield from _lengths(placed)
    yield from _beams(placed)
    yield from _options(placed)


def _guided(placed: Placed) -> Iterator[Refusal]:
    """Refusals of grammars on the engine path; the PyTorch backend has them in every served release."""
    since = GUIDED_ENGINE_SINCE
    if not placed.is_engine or not placed.model.guided_decoding or not placed.trtllm or at_least(placed.trtllm, since):
        return
    yield placed.no(
        "no-guided-decoding",
        f"guided decoding on the engine path needs TensorRT-LLM {since}: earlier backends have no grammar",
        "guided_decoding",
        seen=f"True on path {placed.path}, {placed.release}",
        wanted=f"TensorRT-LLM {since} or newer",
        attempt=f'release="{LAST_WITH_ENGINES}" with path="engine"',
    )


def _not_compiled(placed: Placed) -> Iterator[Refusal]:
    if placed.model.engine != Engine():
        changed = [name for name, value in vars(Engine()).items() if getattr(placed.model.engine, name) != value]
        yield placed.no(
            "engine-options-without-engine",
            "the PyTorch path compiles no engine, so these options would have no effect",
            "engine",
            seen=f"Engine({', '.join(f'{name}=…' for name in changed)}) on path {placed.path}",
            wanted="no engine=… on this path",
            attempt=f"leave engine out; or {engine_path(placed)}",
        )


def _scripts(placed: Placed) -> Iterator[Refusal]:
    if placed.model.engine.checkpoint == "hub" and placed.trtllm and not at_least(placed.trtllm, SCRIPTS_SINCE):
        yield placed.no(
            "no-convert-scripts",
            f"the image with TensorRT-LLM {placed.trtllm} has no convert scripts: {SCRIPTS_SINCE} has the first",
            "engine.checkpoint",
            seen=f'"hub", {placed.release}',
            wanted="a finished TensorRT-LLM checkpoint (config.json, rank0.safetensors …), or a newer release",
            attempt=f'release="{first_offered(SCRIPTS_SINCE)}", '
            'or Engine(checkpoint="trtllm") with weights=Weights.local(…)',
        )


def _lengths(placed: Placed) -> Iterator[Refusal]:
    model, longer = placed.model, placed.model.engine.max_input_len + 1024
    if not 0 <= model.engine.max_input_len <= model.max_seq_len:
        yield placed.no(
            "input-beyond-sequence",
            f"prompts of {model.engine.max_input_len} tokens do not fit sequences of {model.max_seq_len}",
            "engine.max_input_len",
            seen=f"max_input_len={model.engine.max_input_len}, max_seq_len={model.max_seq_len}",
            wanted=f"at most {model.max_seq_len}, prompt and answer together; 0 for the longest possible",
            attempt=f"max_input_len=0, or max_seq_len={longer}, max_num_tokens={longer}",
        )


def _beams(placed: Placed) -> Iterator[Refusal]:
    width = placed.model.engine.max_beam_width
    if width > 1 and placed.model.decoupled:
        yield placed.no(
            "beams-while-streaming",
            "a stream cannot take back tokens that beam search rejects later",
            "engine.max_beam_width",
            seen=f"max_beam_width={width}, decoupled=True",
            wanted="beams without streaming, or streaming with one beam",
            attempt="decoupled=False, or leave max_beam_width out",
        )


def _options(placed: Placed) -> Iterator[Refusal]:
    table = build_flags(placed.trtllm) if placed.trtllm else None
    if table is None or table.is_unread or table.is_removed:
        return
    known = [name.removeprefix("--") for name in table.certain]
    for name, value in sorted(placed.model.engine.options.items()):
        flag, bare = table.certain.get(f"--{name.removeprefix('--')}"), name.removeprefix("--")
        if bare in SPEC_FIELDS:
            meant = SPEC_FIELDS[bare]
            instead = "" if meant.startswith("nothing") else f", and set {meant}"
            yield _option(placed, bare, f"{bare} is written by the plan", meant, f"leave {bare} out{instead}")
        elif name.startswith("-"):
            yield _option(placed, name, "the name of an option is written without dashes", "the bare name", f'"{bare}"')
        elif flag is None:
            yield _unknown(placed, bare, known)
        elif flag.choices and str(value) not in flag.choices:
            choices = ", ".join(flag.choices)
            yield _option(
                placed, bare, f"{bare} has no choice {value!r}", f"one of {choices}", _meant(flag, str(value))
            )
        elif flag.is_switch and value is not True and bare not in USELESS:
            yield _option(
                placed, bare, f"{bare} is a switch without a value", "True, or nothing", f'{{"{bare}": True}}'
            )
        elif flag.type == "int" and (isinstance(value, bool) or not str(value).isdigit()):
            yield _option(placed, bare, f"{bare} is a whole number", "a whole number", f'{{"{bare}": {flag.default}}}')
    if placed.model.engine.options.get("use_paged_context_fmha") == "disable":
        yield from _paged_context(placed)


def _meant(flag: Flag, value: str) -> str:
    """The choice that the operator probably meant, and why the typed value is wrong if guides often have it."""
    meant, why = value_meant(BUILD, flag.name, value, flag.choices), why_not(BUILD, flag.name, value)
    instead = f'"{meant}"' if meant else "leave it out" if meant == "" else offer(value, flag.choices)
    return f"{instead}: {why}" if why else instead


def _unknown(placed: Placed, name: str, known: list[str]) -> Refusal:
    misquoted = MISQUOTED[BUILD].get(f"--{name}")
    if name in RUNTIME_KEYS:
        key = f"no run-time setting here: the plan writes {name} from the fields of LLM(…)"
        return _option(placed, name, f"{name} is a run-time setting and not part of the engine", key, "leave it out")
    if misquoted:
        instead = misquoted.flag.removeprefix("--")
        attempt = SPEC_FIELDS.get(instead, instead) or "leave it out"
        return _option(placed, name, f"{BUILD} has no {name}: {misquoted.why}", f"a flag of {placed.release}", attempt)
    return _option(
        placed, name, f"{BUILD} of this release has no flag {name}", f"a flag of {placed.release}", offer(name, known)
    )


def _option(placed: Placed, name: str, problem: str, wanted: str, attempt: str) -> Refusal:
    value = placed.model.engine.options.get(name, placed.model.engine.options.get(f"--{name}"))
    return placed.no(
        "engine-option", problem, f'engine.options["{name}"]', seen=repr(value), wanted=wanted, attempt=attempt
    )


def _paged_context(placed: Placed) -> Iterator[Refusal]:
    model = placed.model
    wanted = [name for name, on in (("chunked_prefill", model.chunked_prefill), ("reuse", model.kv_cache.reuse)) if on]
    if wanted and pages_context(placed.served):
        yield placed.no(
            "paged-context-off",
            f"{' and '.join(wanted)} cannot work without paged context FMHA, which is switched off",
            'engine.options["use_paged_context_fmha"]',
            seen=f"disable, {', '.join(wanted)}",
            wanted="enable, which the plan writes by itself",
            attempt="leave use_paged_context_fmha out",
        )
