"""The models that fit on a card.

It counts the tokens, contexts and users that fit beside models on one GPU. Needs no inventory.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from deploy.catalog import ARCHITECTURES, CHECKPOINTS, GPUS, PRECISIONS, RELEASES, architecture_as, kind_of
from deploy.catalog.formats import FORMATS
from deploy.catalog.gpus import GPU as CatalogGPU
from deploy.catalog.gpus import card_called
from deploy.catalog.runtimes import TRITON, VLLM, VLLM_ARCHITECTURES, rows_of
from deploy.inventory.fleet import Fleet
from deploy.models import memory
from deploy.models.budget import server_budget
from deploy.models.cards import planned_card
from deploy.models.names import resolved
from deploy.models.paths import choose_path
from deploy.models.resolve import Served, serve, shape_of
from deploy.models.runtimes import image_for, runtime_instead
from deploy.planning.plan import Plan, make_plan
from deploy.refusals import refuse
from deploy.spec import (
    GPU,
    LLM,
    Calibration,
    Checkpoint,
    Embedder,
    EngineTrust,
    Fabric,
    Firewall,
    Gateway,
    Host,
    Machine,
    Model,
    Replay,
    Reranker,
    Server,
    Weights,
)
from deploy.spec.surroundings import Surroundings

LENGTHS = (2048, 8192, 32_768, 131_072)
"""Tokens of prompt and answer together for which the number of simultaneous users is shown."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A plan for one card. `cache_tokens` is the most that the LLM's cache could hold, whatever its batch size.

    `users` are simultaneous sequences by their length. Longer prompts leave less memory: a model without chunked
    prefill has to process its longest prompt in one iteration, and the workspace grows with it.
    """

    plan: Plan
    llm: str
    cache_tokens: int
    users: dict[int, int]

    def to_json(self) -> dict[str, object]:
        return {"llm": self.llm, "cache_tokens": self.cache_tokens, "users": self.users, "plan": self.plan.to_json()}


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The requested settings of an LLM; empty and 0 mean the default. `gpus` is the number of GPUs over which the
    LLM is split."""

    gpus: int = 1
    hosts: int = 1
    """Hosts with this many GPUs each, and a stage of the LLM's pipeline on each."""
    expert: int = 0
    """GPUs among which whole experts are split, as in `Parallel`."""
    path: str = ""
    precision: str = ""
    cache: str = ""
    """A dtype of `KVCache`."""
    max_seq_len: int = 0
    runtime: str = ""
    """The program that serves the LLM, in the catalog's image for it."""


AS_IT_COMES = FitOptions()
NO_PCI_ID = "10de:0000"
"""PCI id of a card whose numbers were typed; `fit` asks no host, so the id is never compared."""


def fit(gpu: str, models: Iterable[str], release: str, surroundings: Surroundings) -> Fit:
    """The fit of catalogued checkpoints on one card, with every default. Raises: a Refusal where the plan would."""
    return fit_of(gpu, tuple(model_named(name) for name in models), release, surroundings)


def with_options(model: Model, wish: FitOptions) -> Model:
    """An LLM with the settings of `wish`; an encoder unchanged. Calibration texts are assumed to exist."""
    if not isinstance(model, LLM):
        return model
    length = wish.max_seq_len or model.max_seq_len
    changes: dict[str, Any] = {"max_seq_len": length}
    shape = shape_of(model)
    architecture = ARCHITECTURES.get(shape.architecture) if shape else None
    if architecture and length > model.max_num_tokens:
        changes |= {"chunked_prefill": True} if architecture.chunked_prefill else {"max_num_tokens": length}
    runtime = wish.runtime or (TRITON if wish.path else model.runtime)
    if runtime != TRITON:
        image = image_for(runtime, architecture) if architecture else rows_of(runtime)[0].image
        changes |= {"runtime": runtime, "image": image, "replay": None}
    elif model.runtime != TRITON:
        changes |= {"runtime": TRITON, "image": ""}
    if wish.expert or wish.hosts > 1:
        names = names_of_fit(wish.hosts) if wish.hosts > 1 else ()
        changes["parallel"] = replace(model.parallel, expert=wish.expert, pipeline=wish.hosts, hosts=names)
    if wish.path:
        changes["path"] = wish.path
    if wish.precision:
        changes["precision"] = wish.precision
    if wish.cache:
        cache: dict[str, Any] = {"dtype": wish.cache}
        changes["kv_cache"] = replace(model.kv_cache, **cache)
    if wish.path == "engine" and wish.precision in PRECISIONS and PRECISIONS[wish.precision].calibrated:
        changes["calibration"] = Calibration(directory="calibration")
    return replace(model, **changes)


def on_its_program(model: Model, release: str) -> Model:
    """The model, on the first program beside Triton that loads it if this release's Triton does not; else unchanged."""
    shape, row = shape_of(model), RELEASES.get(release)
    architecture = ARCHITECTURES.get(shape.architecture) if shape else None
    if not isinstance(model, LLM) or not shape or not row or architecture is None or architecture.kind != "llm":
        return model
    stored = FORMATS.get(shape.format)
    instead = ""
    if not choose_path("auto", architecture, row.trtllm).path:
        instead = runtime_instead(model, architecture, row.trtllm)
    elif stored and not stored.is_read(row.trtllm) and stored.vllm and architecture.name in VLLM_ARCHITECTURES:
        instead = VLLM
    changes: dict[str, Any] = {"runtime": instead, "image": image_for(instead, architecture)} if instead else {}
    return replace(model, **changes)


def names_of_fit(hosts: int) -> tuple[str, ...]:
    return tuple(f"host-{number}" for number in range(1, hosts + 1))


def near_card(word: str) -> tuple[str, str]:
    """The row of catalog.GPUS that a person means, and a sentence if there was more than one candidate.

    The first row that begins with the word is the common board; rows of x86 machines go first. A word that begins no
    row is returned unchanged: the plan refuses it, with the nearest name.
    """
    name = word.lower().replace(" ", "-").replace("_", "-")
    if name in GPUS:
        return name, ""
    family = [row for row in GPUS.values() if row.name.startswith(f"{name}-")]
    rows = [row for row in family if row.platform == "x86_64"] or family
    if not rows:
        called = card_called(word)
        return (called.name if called else word), ""
    others = ", ".join(f"{row.name} ({row.title})" for row in rows[1:])
    chosen = f"{word} is taken as {rows[0].name} ({rows[0].title})"
    return rows[0].name, f"{chosen}; there is also {others}" if others else chosen


def card_of(name: str, sm: str, mib: int) -> GPU | None:
    """The card of numbers typed beside its name; None without numbers, for a row of the catalog.

    Raises: a Refusal for a number alone, and for numbers of a card that the catalog has.
    """
    if not sm and not mib:
        return None
    if name in GPUS or not (sm and mib):
        known = name in GPUS
        raise refuse(
            "own-card",
            f"{name} is in the catalog already" if known else "a card that the catalog lacks has two numbers here",
            where="--sm and --mib",
            seen=f"--sm {sm or 'left out'}, --mib {mib or 'left out'}",
            wanted="neither of them" if known else "compute capability and MiB, as nvidia-smi shows them",
            attempt=f"enginehouse fit {name} MODEL" if known else f"enginehouse fit {name} MODEL --sm 120 --mib 32607",
        )
    return GPU(pci_id=NO_PCI_ID, sm=sm, mib=mib)


def fit_of(
    gpu: str,
    models: tuple[Model, ...],
    release: str,
    surroundings: Surroundings,
    wish: FitOptions = AS_IT_COMES,
    card: GPU | None = None,
) -> Fit:
    """The fit of models on one card, as an inventory declares them; engines are assumed to be signed."""
    models = tuple(resolved(model, surroundings) for model in models)
    models = tuple(with_options(model, wish) for model in models) if wish != AS_IT_COMES else models
    server = Server(name="fit", models=tuple(_without_judging(model) for model in models), gpus=tuple(range(wish.gpus)))
    host = Host(
        name=gpu,
        machine=Machine(os="ubuntu-24.04", gpu=gpu, gpus=wish.gpus, card=card),
        servers=(server,),
        release=release,
        engine_trust=EngineTrust(key="keys/engines"),
        gateway=Gateway() if server.standalone_llms else None,
    )
    plan = make_plan(Fleet(_hosts_of_fit(host, wish.hosts)), surroundings)
    served = [known for known in (serve(model, surroundings) for model in server.models) if known]
    llm = next((known for known in served if isinstance(known.model, LLM)), None)
    if llm is None:
        return Fit(plan=plan, llm="", cache_tokens=0, users={})
    trtllm = plan.slices[0].image.trtllm
    own_length = {llm.model.max_seq_len} if isinstance(llm.model, LLM) and wish.max_seq_len else set()
    lengths = sorted(length for length in {*LENGTHS, *own_length} if length <= llm.shape.positions)
    row = planned_card(host.machine)
    users = {length: _tokens_left(server, served, row, length, trtllm) // length for length in lengths}
    cache_tokens = _tokens_left(server, served, row, 0, trtllm)
    return Fit(plan=plan, llm=llm.model.name, cache_tokens=cache_tokens, users=users)


def _hosts_of_fit(host: Host, count: int) -> tuple[Host, ...]:
    """The host; or a number of hosts, joined by InfiniBand, that serve the LLM together."""
    if count == 1:
        return (host,)
    machine = replace(host.machine, fabric=Fabric(kind="infiniband", gbit=400, interface="ib0"))
    closed = replace(host, machine=machine, firewall=Firewall(rest="closed"))
    return tuple(
        replace(closed, name=name, peer_address=f"10.0.0.{number}")
        for number, name in enumerate(names_of_fit(count), start=1)
    )


def _without_judging(model: Model) -> Model:
    """The model without checks of its engine's answers, because a fit builds no engine."""
    if not isinstance(model, LLM) or model.replay or model.runtime != TRITON:
        return model
    return replace(model, replay=Replay.none(reason="a fit builds no engine"))


def _tokens_left(server: Server, served: list[Served], card: CatalogGPU, length: int, trtllm: str) -> int:
    """Tokens that the cache could hold if the LLM had to take prompts of `length`."""
    resized = [replace(known, model=_for_prompts(known, known.model, length)) for known in served]
    budget = server_budget(server, resized, card, trtllm)
    share = next(share for share in budget.shares if share.kv_bytes_per_token)
    return memory.kv_tokens_in(budget.left_mib + share.memory.kv_cache_mib, share.kv_bytes_per_token)


def _for_prompts(served: Served, model: Model, length: int) -> Model:
    if not isinstance(model, LLM) or served.architecture.chunked_prefill:
        return model
    return replace(model, max_num_tokens=max(model.max_num_tokens, length))


def model_named(name: str) -> Model:
    """The catalog's checkpoint with every default; an unknown name becomes an LLM, which the plan refuses by name."""
    known = CHECKPOINTS.get(name) or CHECKPOINTS.get(name.lower())
    if known is None:
        return model_of_kind("llm", name, name, 8192, Weights.hub("unknown/unknown", "0" * 40))
    kind = kind_of(known)
    weights = Weights.hub(known.repository, known.revision)
    return model_of_kind(kind, known.name, known.name, known.shape.positions, weights)


def model_of_kind(kind: str, name: str, checkpoint: str | Checkpoint, positions: int, weights: Weights) -> Model:
    """A model with every default, and a context of at most `positions`."""
    if kind in ("embedder", "reranker"):
        declared = Embedder if kind == "embedder" else Reranker
        encoder = declared(name=name, checkpoint=checkpoint, weights=weights)
        shape = shape_of(encoder)
        architecture = architecture_as(shape.architecture, kind) if shape else None
        return encoder if architecture is None or architecture.fits_float16 else replace(encoder, dtype="bfloat16")
    return LLM(name=name, checkpoint=checkpoint, weights=weights, max_seq_len=min(8192, positions))
