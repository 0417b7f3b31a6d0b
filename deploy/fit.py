"""What fits on a card.

The given models on one GPU, and how many tokens, contexts and users are left. Needs no inventory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deploy import memory
from deploy.budget import server_budget
from deploy.catalog import ARCHITECTURES, CHECKPOINTS, GPUS
from deploy.fleet import Fleet
from deploy.plan import Plan, make_plan
from deploy.resolve import Served, serve
from deploy.spec import LLM, Embedder, EngineTrust, Host, Machine, Model, Replay, Reranker, Server, Weights
from deploy.surroundings import Surroundings

LENGTHS = (2048, 8192, 32_768, 131_072)
"""Tokens of prompt and answer together for which the number of simultaneous users is shown."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A plan for one card. `cache_tokens` is all the LLM's cache could hold, whatever its batch size.

    `users` are simultaneous sequences by their length. Longer ones leave less: a model without chunked prefill has to
    take its longest prompt in one iteration, and the workspace grows with it.
    """

    plan: Plan
    llm: str
    cache_tokens: int
    users: dict[int, int]

    def to_json(self) -> dict[str, object]:
        """Plain dictionaries and lists."""
        return {"llm": self.llm, "cache_tokens": self.cache_tokens, "users": self.users, "plan": self.plan.to_json()}


def fit(gpu: str, models: Iterable[str], release: str, surroundings: Surroundings) -> Fit:
    """Checkpoints of the catalog on one card, each with every default. Refuses what the plan would refuse."""
    return fit_of(gpu, tuple(_model(name) for name in models), release, surroundings)


def fit_of(gpu: str, models: tuple[Model, ...], release: str, surroundings: Surroundings) -> Fit:
    """Models on one card, as an inventory declares them; whoever would sign their engines is taken for granted."""
    server = Server(name="fit", models=tuple(_without_judging(model) for model in models))
    host = Host(
        name=gpu,
        machine=Machine(os="ubuntu-24.04", gpu=gpu),
        servers=(server,),
        release=release,
        engine_trust=EngineTrust(key="keys/engines"),
    )
    plan = make_plan(Fleet((host,)), surroundings)
    served = [one for one in (serve(model, surroundings) for model in server.models) if one]
    llm = next((one for one in served if isinstance(one.model, LLM)), None)
    if llm is None:
        return Fit(plan=plan, llm="", cache_tokens=0, users={})
    trtllm = plan.slices[0].image.trtllm
    lengths = [length for length in LENGTHS if length <= llm.shape.positions]
    users = {length: _tokens_left(server, served, gpu, length, trtllm) // length for length in lengths}
    cache_tokens = _tokens_left(server, served, gpu, 0, trtllm)
    return Fit(plan=plan, llm=llm.model.name, cache_tokens=cache_tokens, users=users)


def _without_judging(model: Model) -> Model:
    """The model as an inventory declares it; where that says nothing of judging its engine, a fit builds none."""
    if not isinstance(model, LLM) or model.replay:
        return model
    return replace(model, replay=Replay.none(reason="a fit builds no engine"))


def _tokens_left(server: Server, served: list[Served], gpu: str, length: int, trtllm: str) -> int:
    """Tokens the cache could hold if the LLM had to take prompts of `length`."""
    resized = [replace(one, model=_for_prompts(one, one.model, length)) for one in served]
    budget = server_budget(server, resized, GPUS[gpu], trtllm)
    share = next(share for share in budget.shares if share.kv_bytes_per_token)
    return memory.kv_tokens_in(budget.left_mib + share.memory.kv_cache_mib, share.kv_bytes_per_token)


def _for_prompts(served: Served, model: Model, length: int) -> Model:
    if not isinstance(model, LLM) or served.architecture.chunked_prefill:
        return model
    return replace(model, max_num_tokens=max(model.max_num_tokens, length))


def _model(name: str) -> Model:
    """The catalog's checkpoint with every default; an unknown name becomes an LLM the plan then refuses by name."""
    known = CHECKPOINTS.get(name) or CHECKPOINTS.get(name.lower())
    weights = Weights.hub(known.repository, known.revision) if known else Weights.hub("unknown/unknown", "0" * 40)
    kind = ARCHITECTURES[known.shape.architecture].kind if known else "llm"
    if kind == "llm" or known is None:
        positions = known.shape.positions if known else 8192
        return LLM(
            name=known.name if known else name,
            checkpoint=known.name if known else name,
            weights=weights,
            max_seq_len=min(8192, positions),
        )
    maker = Embedder if kind == "embedder" else Reranker
    return maker(name=known.name, checkpoint=known.name, weights=weights)
