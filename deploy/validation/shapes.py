"""Judges whether the numbers of an operator's own checkpoint can belong to a network; a test covers the catalog's."""

from collections.abc import Iterator

from deploy.catalog import ARCHITECTURES
from deploy.catalog.formats import FORMATS
from deploy.catalog.number_ranges import RANGES
from deploy.models.memory import MIB
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Checkpoint, Draft, Model, Server

LATENT = ("kv_lora_rank", "qk_rope_head_dim", "head_dim")
LATENT_EXAMPLE = "kv_lora_rank=512, qk_rope_head_dim=64, head_dim=128 for DeepSeek-V3, R1 and Kimi-K2"
POSITIVE = ("parameters", "layers", "hidden", "heads", "vocabulary", "positions")

DENSE, OF_EXPERTS = 1.25, 1.5
"""Factors beyond the computed parameters that show a mistake."""
MOST_NUMBER = 10**9
"""Larger numbers, as a hub may send them, belong to no network."""
MOST_PACKED = 7
"""Least part of a model's numbers in its files if its matrices are packed, eight 4-bit numbers in one, and its table is
not."""
PLAIN = (
    *("Bert", "Roberta", "XLMRoberta", "Camembert", "Deberta"),
    *("GPT", "Falcon", "OPT", "Phi", "Starcoder2", "Nemotron", "Apertus", "Arcee", "Jais2"),
)
"""Beginnings of architectures whose feed-forward has two matrices; Phi-3's and its successors' have three."""
NEVER_BELOW_0 = ("head_dim", "intermediate", "dense_intermediate", "kv_lora_rank", "qk_rope_head_dim", "q_lora_rank")


def shape_problems(server: Server, model: Model) -> list[Refusal]:
    """Every impossible number of the model's own checkpoint; empty for a name of the catalog."""
    shape = model.checkpoint
    if not isinstance(shape, Checkpoint):
        return _latent_draft(server, model)
    refusals = [_impossible(server, model, name, "1 or more") for name in POSITIVE if getattr(shape, name) < 1]
    refusals += [_impossible(server, model, name, "0 or more") for name in NEVER_BELOW_0 if getattr(shape, name) < 0]
    if not shape.head_dim and shape.hidden < shape.heads:
        refusals.append(_impossible(server, model, "hidden", f"at least one element for each of {shape.heads} heads"))
    if shape.kv_heads and (shape.kv_heads < 0 or shape.heads % shape.kv_heads):
        refusals.append(_impossible(server, model, "kv_heads", f"a divisor of {shape.heads} heads, or 0 for as many"))
    if not 0 <= shape.active_experts <= shape.experts or bool(shape.experts) != bool(shape.active_experts):
        refusals.append(_impossible(server, model, "active_experts", f"1 to {shape.experts}, or 0 for both if dense"))
    weights = shape.weights_mib * MIB
    if shape.parameters > 0 < weights and not shape.parameters <= 4 * weights <= 20 * shape.parameters:
        wanted = f"2 to 40 bits for each of {shape.parameters:,} parameters"
        refusals.append(_impossible(server, model, "weights_mib", wanted))
    row = ARCHITECTURES.get(shape.architecture)
    if row and row.kind == "llm" and not row.experts and shape.experts > 0:
        refusals.append(_dense(server, model, shape))
    if not refusals and row and row.kind != "unserved":
        refusals += _apart(server, model, shape)
    return [*refusals, *_latent(server, model, shape, ("checkpoint",)), *_latent_draft(server, model)]


def _dense(server: Server, model: Model, shape: Checkpoint) -> Refusal:
    return refuse(
        "dense-with-experts",
        f"{model.name}: {shape.architecture} has no experts, and the checkpoint declares {shape.experts}",
        where=model_at(server.name, model.name, "checkpoint", "architecture"),
        seen=f"architecture={shape.architecture!r}, experts={shape.experts}",
        wanted="the class string of its own config.json: a similar name is a different network",
        attempt=f'{type(model).__name__}("{model.weights.repository or "OWNER/NAME"}"), which reads it; '
        "or leave experts and active_experts out",
    )


def _latent_draft(server: Server, model: Model) -> list[Refusal]:
    draft = model.speculative if isinstance(model, LLM) else None
    shape = draft.checkpoint if isinstance(draft, Draft) else None
    return _latent(server, model, shape, ("speculative", "checkpoint")) if isinstance(shape, Checkpoint) else []


def _latent(server: Server, model: Model, shape: Checkpoint, place: tuple[str, ...]) -> list[Refusal]:
    """A refusal if the cache could only be guessed: a latent without its sizes, or sizes without a latent."""
    row = ARCHITECTURES.get(shape.architecture)
    sizes = {name: getattr(shape, name) for name in LATENT}
    if row is None or row.kind == "unserved":
        return []
    if all(sizes.values()) if row.latent_cache else not shape.kv_lora_rank + shape.qk_rope_head_dim:
        return []
    if row.latent_cache:
        problem = (
            f"{shape.architecture} caches a latent vector for each token (MLA), "
            "and the checkpoint does not declare its sizes"
        )
        wanted, attempt = "all three, from config.json (head_dim is its v_head_dim)", LATENT_EXAMPLE
    else:
        problem = (
            f"{shape.architecture} caches keys and values, "
            "and the checkpoint declares the sizes of a latent vector (MLA)"
        )
        wanted = "neither kv_lora_rank nor qk_rope_head_dim"
        attempt = "leave checkpoint.kv_lora_rank and checkpoint.qk_rope_head_dim out, or name the right architecture"
    return [
        refuse(
            "unknown-cache",
            f"{model.name}: {problem}",
            where=model_at(server.name, model.name, *place),
            seen=", ".join(f"{name}={size}" for name, size in sizes.items()),
            wanted=wanted,
            attempt=attempt,
        )
    ]


def _impossible(server: Server, model: Model, name: str, wanted: str) -> Refusal:
    value = getattr(model.checkpoint, name)
    return refuse(
        "impossible-shape",
        f"{model.name}: {name} cannot be {value}",
        where=model_at(server.name, model.name, "checkpoint", name),
        seen=str(value),
        wanted=wanted,
        attempt="the number in the checkpoint's config.json",
    )


def _apart(server: Server, model: Model, shape: Checkpoint) -> Iterator[Refusal]:
    """A refusal for numbers of a network that has clearly more or fewer parameters than were declared or counted."""
    is_believed = RANGES["Checkpoint"]["parameters"].takes(shape.parameters)
    if shape.quantisation not in ("", "fp8") or _is_packed(shape) or not is_believed:
        return
    least, most = parameters_of(shape)
    least = 0 if shape.experts and not model.source else least  # a layer's width is often typed as an expert's
    if not most or least <= shape.parameters <= most:
        return
    if model.source and (shape.format or not least / MOST_PACKED < shape.parameters < least):
        return  # judged by its format; else fewer are toys or broken, and more are heads
    counted = f"{least / 1e9:.1f} to {most / 1e9:.1f} billion parameters"
    if model.source:
        yield refuse(
            "numbers-apart",
            f"{model.name}: its files hold fewer numbers than its network has: they are packed, or not whole",
            where=model_at(server.name, model.name, "source"),
            seen=f"{shape.parameters:,} numbers, and no format in config.json; its shape has {counted}",
            wanted="config.json with the format of packed weights (quantization_config), and all weights",
            attempt="the repository in 16 bit, or one whose config.json names its format",
        )
    else:
        yield refuse(
            "numbers-apart",
            f"{model.name}: a network with these numbers has {counted}",
            where=model_at(server.name, model.name, "checkpoint", "parameters"),
            seen=f"parameters={shape.parameters:,}; layers={shape.layers}, hidden={shape.hidden}, "
            f"intermediate={shape.intermediate}, vocabulary={shape.vocabulary:,}",
            wanted="all numbers from one config.json, and the parameter count of the same files",
            attempt=f'{type(model).__name__}("OWNER/NAME"), and enginehouse pin INVENTORY',
        )


def _is_packed(shape: Checkpoint) -> bool:
    row = FORMATS.get(shape.format)
    return row is not None and row.quantisation != "fp8"


def parameters_of(shape: Checkpoint) -> tuple[float, float]:
    """The least and the most parameters of a transformer with these numbers; both 0 if too few are declared.

    A feed-forward has two or three matrices, a table may be shared with the head, layers may leave experts out, and
    experts may be shared.
    """
    numbers = (shape.layers, shape.hidden, shape.heads, shape.intermediate, shape.vocabulary)
    others = (shape.experts, shape.active_experts, shape.head_dim, shape.kv_heads, shape.dense_intermediate)
    if min(numbers) < 1 or max(*numbers, *others) > MOST_NUMBER:
        return 0, 0
    width = shape.head_dim or shape.hidden // shape.heads
    attention = 2 * shape.hidden * width * (shape.heads + (shape.kv_heads or shape.heads))
    projected = (0 if shape.kv_lora_rank else attention, 2 * attention if shape.kv_lora_rank else attention)
    matrix, table = shape.hidden * shape.intermediate, shape.vocabulary * shape.hidden
    beside = 3 * shape.hidden * shape.dense_intermediate
    if shape.experts:
        networks = (2 * shape.experts * matrix, 3 * (shape.experts + shape.active_experts) * matrix + beside)
        apart = OF_EXPERTS
    else:
        is_plain = shape.architecture.startswith(PLAIN) and not shape.architecture.startswith("Phi3")
        networks, apart = ((2 if is_plain else 3) * matrix, (2 if is_plain else 3) * matrix), DENSE
    least, most = (shape.layers * sum(pair) for pair in zip(projected, networks, strict=True))
    return (least + table) / apart, (most + 2 * table) * apart
