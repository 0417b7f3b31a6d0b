"""Cards for a number of users: by the memory of their sequences, and by a bench's measurements.

Speed is never guessed from memory, nor memory from speed. If no bench covers a model on a card, its speed is "not
measured", and the number
of cards is the least that memory allows.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deploy.catalog import GPUS
from deploy.cost.measured import Load
from deploy.planning.fit import Fit, FitOptions, fit_of
from deploy.refusals import Refusal, Refusals
from deploy.slices.host import ModelSlice
from deploy.spec import Model
from deploy.spec.surroundings import Surroundings

SPLITS = (1, 2, 4, 8)
"""Numbers of GPUs that are tried for one replica."""
SAVES = 0.75
"""Largest share of the cards with which a larger replica is still preferred: its GPUs wait for each other, so it must
save a quarter."""
LONGEST = 2.0
"""Factor by which the measured lengths may exceed the demanded ones: longer requests are harder to serve, and still
comparable."""
PIECES = {"reranker": "passages", "embedder": "texts"}


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The demand of users; lengths are tokens. `every_seconds`: from one question of a user to the next."""

    users: int
    prompt: int
    answer: int
    first_token_seconds: float
    at_once_percent: float = 100.0
    every_seconds: float = 0.0
    passages: int = 0
    texts: int = 0
    piece_tokens: int = 128

    @property
    def at_once(self) -> int:
        return math.ceil(self.users * self.at_once_percent / 100)

    def documents_a_second(self, kind: str) -> float:
        """Passages or texts of all users together."""
        documents = self.passages if kind == "reranker" else self.texts
        return self.users * documents / self.every_seconds if self.every_seconds else 0.0


@dataclass(frozen=True, kw_only=True)
class Need:
    """Replicas that one model needs by a bench, not rounded; None without a bench. `why` names the source."""

    model: str
    replicas: float | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Size:
    """Cards of one kind. `gpus`: of a replica; `cards`: the least that memory and a bench allow, 0 if none fits."""

    card: str
    gpus: int = 0
    sequences: int = 0
    """Sequences in the cache of one replica."""
    by_memory: int = 0
    """Number of replicas that the memory of all sequences needs."""
    needs: tuple[Need, ...] = ()
    cards: int = 0
    is_measured: bool = False
    refusal: str = ""


def sizes(
    cards: Iterable[str],
    models: tuple[Model, ...],
    release: str,
    surroundings: Surroundings,
    demand: Demand,
    loads: Sequence[Load],
) -> tuple[Size, ...]:
    return tuple(_size(card, models, release, surroundings, demand, loads) for card in cards)


def _size(
    card: str, models: tuple[Model, ...], release: str, around: Surroundings, demand: Demand, loads: Sequence[Load]
) -> Size:
    length, refusal, sizes = demand.prompt + demand.answer, "", []
    for gpus in SPLITS:
        try:
            fitted = fit_of(card, models, release, around, FitOptions(gpus=gpus, max_seq_len=length))
        except Refusal as error:
            refusal = refusal or _first_sentence(error)
            continue
        sequences = fitted.users.get(length, 0) if fitted.llm else 0
        if fitted.llm and not sequences:
            refusal = refusal or f"the cache holds no sequence of {length:,} tokens"
            continue
        sizes.append(_of_fit(card, gpus, fitted, sequences, demand, loads))
    return _chosen(sizes) if sizes else Size(card=card, refusal=refusal)


def _chosen(sizes: Sequence[Size]) -> Size:
    """Prefers measured sizes; a calculated size is only a lower bound."""
    best, *rest = [size for size in sizes if size.is_measured] or sizes
    for larger in rest:
        best = larger if larger.cards <= SAVES * best.cards else best
    return best


def _first_sentence(error: Refusal) -> str:
    problem = error.problems[0] if isinstance(error, Refusals) else error
    return problem.problem


def _of_fit(card: str, gpus: int, fitted: Fit, sequences: int, demand: Demand, loads: Sequence[Load]) -> Size:
    by_memory = math.ceil(demand.at_once / sequences) if sequences else 1
    (server,) = fitted.plan.slices[0].servers
    demanded = [model for model in server.models if model.kind == "llm" or demand.documents_a_second(model.kind)]
    needs = tuple(_need(model, card, gpus, demand, loads) for model in demanded)
    # models that share a card add up their seconds of it
    by_speed = math.ceil(sum(need.replicas or 0.0 for need in needs) - 1e-9)
    return Size(
        card=card,
        gpus=gpus,
        sequences=sequences,
        by_memory=by_memory,
        needs=needs,
        cards=max(by_memory, by_speed, 1) * gpus,
        is_measured=bool(needs) and all(need.replicas is not None for need in needs),
    )


def _need(model: ModelSlice, card: str, gpus: int, demand: Demand, loads: Sequence[Load]) -> Need:
    own = [load for load in loads if load.alone and load.is_of(model, card)]
    return _of_llm(model.name, gpus, demand, own) if model.kind == "llm" else _of_encoder(model, demand, own)


def _of_llm(name: str, gpus: int, demand: Demand, own: Sequence[Load]) -> Need:
    """Number of replicas: simultaneous users, divided by the most clients that one replica served within the time to
    first token."""
    near = [
        load
        for load in own
        if load.clients
        and load.replica_gpus == gpus
        and load.first_token_p95_seconds is not None
        and demand.prompt <= load.prompt_length <= demand.prompt * LONGEST
        and demand.answer <= load.answer_length <= demand.answer * LONGEST
    ]
    if not near:
        lengths = f"prompts of {demand.prompt:,} and answers of {demand.answer:,} tokens"
        split = f", {gpus} GPUs a replica" if gpus > 1 else ""
        return Need(model=name, replicas=None, why=f"no bench covers {lengths} on this card{split}")
    fast = [load for load in near if (load.first_token_p95_seconds or 0.0) <= demand.first_token_seconds]
    if not fast:
        best = min(near, key=lambda load: load.first_token_p95_seconds or 0.0)
        seen = f"{best.first_token_p95_seconds:g} s with {best.clients} clients"
        return Need(model=name, replicas=None, why=f"no load kept to {demand.first_token_seconds:g} s: {seen} at best")
    most = max(fast, key=lambda load: load.clients / load.gpus)
    clients = most.clients * gpus / most.gpus
    why = f"{clients:g} clients a replica with a first token of {most.first_token_p95_seconds:g} s ({most.source})"
    return Need(model=name, replicas=demand.at_once / clients, why=why)


def _of_encoder(model: ModelSlice, demand: Demand, own: Sequence[Load]) -> Need:
    wanted = demand.documents_a_second(model.kind)
    near = [
        load
        for load in own
        if load.saturated and demand.piece_tokens <= load.prompt_length <= demand.piece_tokens * LONGEST
    ]
    what = PIECES[model.kind]
    if not near:
        return Need(
            model=model.name, replicas=None, why=f"no bench covers {what} of {demand.piece_tokens} tokens on this card"
        )
    slowest = min(near, key=lambda load: load.documents / load.gpus)
    rate = slowest.documents / slowest.gpus
    why = f"{wanted:,.0f} {what} a second of {rate:,.0f} ({slowest.name}; {slowest.source})"
    return Need(model=model.name, replicas=wanted / rate, why=why)


def assumptions(demand: Demand) -> tuple[str, ...]:
    """The assumptions behind the numbers, one sentence each."""
    pieces = [f"{count} {what}" for count, what in ((demand.passages, "passages"), (demand.texts, "texts")) if count]
    repeats = f"each asks again after {demand.every_seconds:g} s, with {' and '.join(pieces)}" if pieces else ""
    return (
        f"{demand.users:,} users, {demand.at_once:,} of them with a question under way (--at-once)",
        f"a sequence is {demand.prompt:,} tokens of prompt and {demand.answer:,} of answer; nothing of it is shared",
        f"first token: 95 of 100 within {demand.first_token_seconds:g} s, as a bench measured it",
        *([f"{repeats}, of {demand.piece_tokens} tokens each"] if repeats else []),
        "device seconds of models that share a card add up; no card is spare for one that fails",
        f"a bench covers requests from half its lengths to all of them; {len(GPUS)} cards are in the catalog",
    )


def to_json(sizes: Sequence[Size], demand: Demand) -> dict[str, Any]:
    return {
        "demand": asdict(demand),
        "assumptions": list(assumptions(demand)),
        "cards": [asdict(size) for size in sizes],
    }
