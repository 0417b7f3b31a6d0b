"""Speculation: support by path and release, and build settings that agree with requests."""

from collections.abc import Iterator

from deploy.catalog import ARCHITECTURES, DEFAULT_RELEASE, RELEASES, STORED, Architecture
from deploy.catalog.flags import build_flags
from deploy.catalog.releases import first_offered
from deploy.catalog.versions import at_least
from deploy.models.memory import kv_heads
from deploy.models.paths import choose_path, has_engine
from deploy.models.speculation import drafted_tokens, tree_of
from deploy.refusals import Refusal
from deploy.spec import Checkpoint, Draft, Eagle, Lookahead, Medusa, ReDrafter, Speculative
from deploy.validation.placed_llm import Placed
from deploy.validation.try_lines import draft_offer, engine_path, or_else

MODES = {
    Draft: "draft_tokens_external",
    Medusa: "medusa",
    Eagle: "eagle",
    Lookahead: "lookahead_decoding",
    ReDrafter: "explicit_draft_tokens",
}
"""The modes' names in `trtllm-build --speculative_decoding_mode`."""

FAMILIES = {
    Medusa: ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"),
    Eagle: ("LlamaForCausalLM", "MistralForCausalLM"),  # EagleForCausalLM is a LLaMAForCausalLM (TensorRT-LLM 10396)
    ReDrafter: ("LlamaForCausalLM", "Qwen2ForCausalLM"),
}
ON_PYTORCH = (Draft, Eagle)
"""Speculation that the PyTorch path supports; llm_args.py of 1.0 to 1.2 excludes Medusa and Lookahead there."""

LONGEST_CHAIN = 8
"""Most draft tokens on the PyTorch path, where drafts form a chain: each further token costs a pass, and is rarely
kept."""

KEYS_SINCE = "0.19"
"""The first backend with the keys `lookahead_…` and `lora_prefetch_dir` (sources of v0.18.2 and v0.19.0)."""

NAMED_TREE = "mc_sim_7b_63"
"""Name of the backend's default tree (tensorrtllm_backend, docs/model_config.md); the backend itself reads no names."""


def speculation_problems(placed: Placed) -> Iterator[Refusal]:
    """A refusal for each mistake in the speculation of one LLM."""
    speculative = placed.model.speculative
    if speculative is None:
        return
    yield from _available(placed, speculative)
    yield from _numbers(placed, speculative)
    yield from _tree(placed, speculative)
    yield from _step(placed, speculative)
    if isinstance(speculative, Draft):
        yield from _draft(placed, speculative)


def _available(placed: Placed, speculative: Speculative) -> Iterator[Refusal]:
    if placed.is_engine:
        yield from _of_release(placed, speculative)
        yield from _of_family(placed, speculative)
    elif type(speculative) not in ON_PYTORCH:
        name = type(speculative).__name__
        yield placed.no(
            "speculation-path",
            f"{name} works on the engine path only: the PyTorch backend does not have it",
            "speculative",
            seen=f"{name}(…) on path {placed.path}",
            wanted="Draft(…), or Eagle(…) with an EAGLE-3 head",
            attempt=or_else(_compiled(placed, speculative), "Eagle(weights=…, tokens=3)"),
        )


def _compiled(placed: Placed, speculative: Speculative) -> str:
    """The engine path, if this release can compile these heads for the architecture; else ""."""
    architecture = placed.served.architecture
    fits = architecture.name in FAMILIES.get(type(speculative), (architecture.name,))
    return engine_path(placed) if fits and has_engine(architecture, placed.trtllm) else ""


def _of_release(placed: Placed, speculative: Speculative) -> Iterator[Refusal]:
    """A refusal unless trtllm-build and the backend of this release support the speculation."""
    name, kind = type(speculative).__name__, type(speculative)
    table = build_flags(placed.trtllm).certain.get("--speculative_decoding_mode") if placed.trtllm else None
    if table and MODES[kind] not in table.choices:
        yield placed.no(
            "speculation-too-early",
            f"trtllm-build of TensorRT-LLM {placed.trtllm} has no --speculative_decoding_mode {MODES[kind]}",
            "speculative",
            seen=f"{name}(…), {placed.release}",
            wanted=f"one of {', '.join(table.choices)}",
            attempt=f'release="{_first_with(MODES[kind])}", or Draft(…), which every release has',
        )
    if kind is Lookahead and placed.trtllm and not at_least(placed.trtllm, KEYS_SINCE):
        yield placed.no(
            "speculation-too-early",
            f"the backend of TensorRT-LLM {placed.trtllm} has no setting for the sizes of a lookahead",
            "speculative",
            seen=f"{name}(…), {placed.release}",
            wanted=f"TensorRT-LLM {KEYS_SINCE} or later",
            attempt=f'release="{first_offered(KEYS_SINCE)}", or Draft(…), which every release has',
        )


def _of_family(placed: Placed, speculative: Speculative) -> Iterator[Refusal]:
    """A refusal unless engines with these heads exist for this architecture."""
    name, families = type(speculative).__name__, FAMILIES.get(type(speculative), ())
    if families and placed.served.architecture.name not in families:
        yield placed.no(
            "speculation-family",
            f"{name} engines exist for {', '.join(families)}, and this is {placed.served.architecture.name}",
            "speculative",
            seen=f"{name}(…) on {placed.served.architecture.name}",
            wanted="Draft(…) or Lookahead(), which work with any decoder",
            attempt="Lookahead(), which needs no other weights",
        )


def _first_with(mode: str) -> str:
    rows = (row for row in RELEASES.values() if row.offered and row.trtllm)
    flags = ((row.name, build_flags(row.trtllm).certain.get("--speculative_decoding_mode")) for row in rows)
    return min((name for name, flag in flags if flag and mode in flag.choices), default=DEFAULT_RELEASE)


def _numbers(placed: Placed, speculative: Speculative) -> Iterator[Refusal]:
    if not placed.is_engine and isinstance(speculative, Eagle) and speculative.tokens > LONGEST_CHAIN:
        yield placed.no(
            "draft-beyond-a-chain",
            f"Eagle with {speculative.tokens} tokens, and the PyTorch path drafts one chain",
            "speculative.tokens",
            seen=str(speculative.tokens),
            wanted=f"1 to {LONGEST_CHAIN}; only the engine path drafts a tree, of up to 63",
            attempt="tokens=3",
        )
    if isinstance(speculative, Lookahead) and speculative.ngram == 1 and speculative.window == 1:
        yield placed.no(
            "drafts-nothing",
            "a lookahead with window=1 and ngram=1 drafts no tokens",
            "speculative.ngram",
            seen="window=1, ngram=1",
            wanted="ngram of 2 or more",
            attempt="Lookahead(window=4, ngram=3, verification=4)",
        )


def _tree(placed: Placed, speculative: Speculative) -> Iterator[Refusal]:
    if not isinstance(speculative, (Medusa, Eagle)) or not speculative.choices:
        return
    if not placed.is_engine:
        yield placed.no(
            "tree-on-pytorch",
            "the PyTorch backend drafts one chain; TensorRT-LLM marks trees there as not ready for use",
            "speculative.choices",
            seen=speculative.choices,
            wanted="no choices",
            attempt="leave choices out, tokens=3",
        )
        return
    if isinstance(speculative, Medusa) and speculative.choices == NAMED_TREE:
        return
    paths = tree_of(speculative.choices)
    deepest = speculative.heads if isinstance(speculative, Medusa) else max(map(len, paths or [()]))
    if paths is None or len(paths) > speculative.tokens or max(map(len, paths)) > deepest:
        limits = f"at most {speculative.tokens} paths (tokens)"
        limits += f", none longer than {deepest} (heads)" if isinstance(speculative, Medusa) else ""
        yield placed.no(
            "no-tree",
            "these choices are not a tree that this engine accepts",
            "speculative.choices",
            seen=speculative.choices,
            wanted=f"a list of paths, each beginning with another path of the list: {limits}",
            attempt='"[[0], [0, 0], [1], [0, 1]]", or no choices for the release\'s own tree',
        )


def _step(placed: Placed, speculative: Speculative) -> Iterator[Refusal]:
    model, tokens = placed.model, drafted_tokens(speculative)
    wanted = model.max_batch_size * (1 + tokens)
    if model.max_num_tokens < wanted and tokens > 0:
        yield placed.no(
            "iteration-below-drafts",
            f"an iteration of {model.max_num_tokens} tokens cannot verify {tokens} drafted tokens for "
            f"{model.max_batch_size} sequences",
            "max_num_tokens",
            seen=f"max_num_tokens={model.max_num_tokens}, max_batch_size={model.max_batch_size}, tokens={tokens}",
            wanted=f"at least max_batch_size x (1 + tokens) = {wanted}",
            attempt=f"max_num_tokens={wanted}, or a smaller max_batch_size",
        )
    if placed.is_engine and model.engine.context_logits:
        yield placed.no(
            "context-logits-with-drafts",
            "trtllm-build refuses --gather_context_logits where tokens are drafted",
            "engine.context_logits",
            seen=f"True, with {type(speculative).__name__}(…)",
            wanted="False, or no speculation",
            attempt="leave context_logits out; generation_logits goes with speculation",
        )
    if placed.is_engine and model.engine.max_beam_width > 1:
        yield placed.no(
            "beams-with-drafts",
            "beam search and speculation both choose the next token, and only one of them can",
            "engine.max_beam_width",
            seen=f"max_beam_width={model.engine.max_beam_width}, {type(speculative).__name__}(…)",
            wanted="1 with speculation",
            attempt="leave max_beam_width out",
        )


def _draft(placed: Placed, draft: Draft) -> Iterator[Refusal]:
    shape, target = placed.served.draft, placed.served.shape
    if shape is None:
        yield placed.no(
            "unknown-checkpoint",
            f"the draft's checkpoint {draft.checkpoint} is not in the catalog",
            "speculative.checkpoint",
            seen=repr(draft.checkpoint),
            wanted="a row of catalog.CHECKPOINTS, or a Checkpoint(…) with the numbers of its config.json",
            attempt=draft_offer(placed, str(draft.checkpoint)),
        )
        return
    family = ARCHITECTURES.get(shape.architecture)
    if family is None or family.kind != "llm":
        yield placed.no(
            "draft-is-no-llm",
            f"{shape.architecture} generates no text, so it cannot draft",
            "speculative.checkpoint",
            seen=shape.architecture,
            wanted="a smaller model of the target's own family",
            attempt=f"a checkpoint of {target.architecture}",
        )
        return
    if placed.is_engine and placed.trtllm:
        yield from _draft_engine(placed, shape, family)
    yield from _draft_fits(placed, shape)


def _draft_fits(placed: Placed, shape: Checkpoint) -> Iterator[Refusal]:
    """Refusals of a draft that has another vocabulary, is not smaller, or does not split over the same GPUs."""
    target = placed.served.shape
    if shape.vocabulary != target.vocabulary:
        yield placed.no(
            "draft-vocabulary",
            "draft and target have different vocabularies",
            "speculative.checkpoint",
            seen=f"a vocabulary of {shape.vocabulary:,} against the target's {target.vocabulary:,}",
            wanted="the target's own tokenizer: a smaller model of its family",
            attempt=f"another draft, or {'Lookahead()' if placed.is_engine else 'leave speculative out'}",
        )
    if shape.parameters >= target.parameters:
        yield placed.no(
            "draft-too-large",
            "a draft as large as its target saves nothing",
            "speculative.checkpoint",
            seen=f"{shape.parameters:,} parameters against {target.parameters:,}",
            wanted="a draft of a tenth of the target or less",
            attempt="a smaller model of the same family",
        )
    if kv_heads(shape) % placed.layout.tensor and placed.layout.tensor % kv_heads(shape):
        yield placed.no(
            "uneven-split",
            f"the draft's {kv_heads(shape)} key/value heads do not split over {placed.layout.tensor} GPUs",
            "speculative.checkpoint",
            seen=f"tensor={placed.layout.tensor}, as for the target",
            wanted="a divisor or a multiple",
            attempt="another draft, or fewer GPUs",
        )


def _draft_engine(placed: Placed, shape: Checkpoint, family: Architecture) -> Iterator[Refusal]:
    """Refusals of a draft whose architecture or weights the target's build commands cannot read."""
    target = placed.served.shape
    choice = choose_path("engine", family, placed.trtllm)
    if not choice.path:
        yield placed.no(
            choice.kind,
            f"the draft: {choice.reason}",
            "speculative.checkpoint",
            seen=f"Draft(…) of {shape.architecture}, {placed.release}",
            wanted="a draft that can be compiled: on the engine path it needs its own engine",
            attempt=f'a checkpoint of {target.architecture}, or path="pytorch"',
        )
    elif shape.quantisation != target.quantisation and placed.model.engine.checkpoint == "hub":
        yield placed.no(
            "draft-stored-otherwise",
            f"draft and target are converted alike, and the draft's weights are stored as {STORED[shape.quantisation]}",
            "speculative.checkpoint",
            seen=f"quantisation={shape.quantisation!r}, the target's {target.quantisation!r}",
            wanted=f"weights stored as the target's are: {STORED[target.quantisation]}",
            attempt="the draft's plain checkpoint" if shape.quantisation else "the draft published in GPTQ too",
        )
