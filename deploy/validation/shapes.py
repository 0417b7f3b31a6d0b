"""Judges whether the numbers of an operator's own checkpoint can belong to a network; a test covers the catalog's."""

from deploy.catalog import ARCHITECTURES
from deploy.refusals import Refusal, model_at, refuse
from deploy.spec import LLM, Checkpoint, Draft, Model, Server

LATENT = ("kv_lora_rank", "qk_rope_head_dim", "head_dim")
LATENT_EXAMPLE = "kv_lora_rank=512, qk_rope_head_dim=64, head_dim=128 for DeepSeek-V3, R1 and Kimi-K2"
POSITIVE = ("parameters", "layers", "hidden", "heads", "vocabulary", "positions")

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
    row = ARCHITECTURES.get(shape.architecture)
    if row and row.kind == "llm" and not row.experts and shape.experts > 0:
        refusals.append(_dense(server, model, shape))
    return [*refusals, *_latent(server, model, shape, ("checkpoint",)), *_latent_draft(server, model)]


def _dense(server: Server, model: Model, shape: Checkpoint) -> Refusal:
    return refuse(
        "dense-with-experts",
        f"{model.name}: {shape.architecture} has no experts, and the checkpoint declares {shape.experts}",
        where=model_at(server.name, model.name, "checkpoint", "architecture"),
        seen=f"architecture={shape.architecture!r}, experts={shape.experts}",
        wanted="the class string of its own config.json: a similar name is a different network",
        attempt=f'{type(model).__name__}("{model.weights.repository or "OWNER/NAME"}"), which reads it; '
        "or leave experts out",
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
