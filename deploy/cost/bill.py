"""Dollars: of the inventory a month, of a unit at saturation, and of the requests in a window of counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deploy.cost.measured import Load
from deploy.cost.prices import Prices
from deploy.cost.share import Share, Spent, engine_of
from deploy.planning.plan import Plan

HOURS_A_MONTH = 730
"""Hours of an average month: 365 days of 24 hours, divided by twelve."""
MILLION, THOUSAND = 1e6, 1e3
By = tuple[str, ...]
TENANT_UNKNOWN = "(no audit line)"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Dollars for a million tokens in, out and together, and for a thousand documents; None without tokens or
    documents."""

    input_million: float | None = None
    output_million: float | None = None
    total_million: float | None = None
    documents_thousand: float | None = None

    def times(self, factor: float) -> Unit:
        """The prices multiplied by a factor."""
        prices = (self.input_million, self.output_million, self.total_million, self.documents_thousand)
        scaled = [None if price is None else price * factor for price in prices]
        return Unit(
            input_million=scaled[0], output_million=scaled[1], total_million=scaled[2], documents_thousand=scaled[3]
        )


def unit(dollars: float, prompt: float, completion: float, documents: float, output_weight: float) -> Unit:
    """Prices that together make up `dollars`: input and output tokens by their weight, or documents alone.

    An output token costs `output_weight` input tokens. `total_million` is dollars over tokens of both kinds.
    """
    weighted = prompt + output_weight * completion
    return Unit(
        input_million=dollars / weighted * MILLION if weighted and prompt else None,
        output_million=dollars / weighted * output_weight * MILLION if completion else None,
        total_million=dollars / (prompt + completion) * MILLION if prompt + completion else None,
        documents_thousand=dollars / documents * THOUSAND if documents else None,
    )


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The cost of a unit while a load keeps the card full: the lowest with this load. None: not measured."""

    model: str
    kind: str
    engine: str
    card: str
    load: Load | None
    unit: Unit | None


def floors(plan: Plan, loads: Sequence[Load], prices: Prices, output_weight: float) -> tuple[Floor, ...]:
    """A row for each saturated load of each model of the plan, on the cards that serve the model, without duplicates.

    A load that shared its card with another model gets no row: its part of the card was not measured.
    """
    rows: dict[tuple[str, str, str, str], Floor] = {}
    for slice_ in plan.slices:
        card = slice_.machine.gpu
        for model in (model for server in slice_.servers for model in server.models):
            # MIG instances are left out: benches measure whole cards
            fitting: list[Load | None] = [
                load for load in loads if load.alone and load.saturated and load.is_of(model, card) and not slice_.mig
            ]
            for load in fitting or [None]:
                key = (model.name, engine_of(model), card, load.name if load else "")
                rows[key] = Floor(
                    model=model.name,
                    kind=model.kind,
                    engine=engine_of(model),
                    card=card,
                    load=load,
                    unit=_at_saturation(load, prices.of(card), output_weight) if load else None,
                )
    return tuple(rows.values())


def _at_saturation(load: Load, per_hour: float, output_weight: float) -> Unit:
    a_second = per_hour * load.gpus / 3600
    return unit(a_second, load.prompt_tokens, load.completion_tokens, load.documents, output_weight)


@dataclass(frozen=True, kw_only=True)
class Month:
    """GPUs of one card, and their cost in 730 hours."""

    card: str
    hosts: int
    gpus: int
    per_hour: float

    @property
    def dollars(self) -> float:
        return self.gpus * self.per_hour * HOURS_A_MONTH


def months(plan: Plan, prices: Prices) -> tuple[Month, ...]:
    """The bill of every card of the inventory; idle GPUs are paid as well."""
    cards = sorted({slice_.machine.gpu for slice_ in plan.slices})
    return tuple(
        Month(
            card=card,
            hosts=sum(slice_.machine.gpu == card for slice_ in plan.slices),
            gpus=sum(slice_.machine.gpus for slice_ in plan.slices if slice_.machine.gpu == card),
            per_hour=prices.of(card),
        )
        for card in cards
    )


@dataclass(frozen=True, kw_only=True)
class Line:
    """The cost of `key` in the window, and of a unit of it. `gpu_seconds` leaves out idle seconds."""

    key: tuple[str, ...]
    dollars: float
    gpu_seconds: float
    requests: int | None
    prompt_tokens: float
    completion_tokens: float
    documents: float
    unit: Unit


def lines(
    shared: Iterable[Share], prices: Prices, by: Sequence[str], output_weight: float, spent: Sequence[Spent] = ()
) -> tuple[Line, ...]:
    """The window's dollars by model, engine or tenant; together they are the bill of the window."""
    sums: dict[tuple[str, ...], list[float]] = {}
    for share in shared:
        dollars = share.paid_seconds / 3600 * prices.of(share.card)
        for tenant, part in _tenants(share, spent, output_weight) if "tenant" in by else [("", 1.0)]:
            names = {"tenant": tenant, "model": share.model or "(nobody)", "engine": share.engine or "(nobody)"}
            row = sums.setdefault(tuple(names[word] for word in by), [0.0] * 5)
            counted = share.counted
            figures = (counted.prompt_tokens, counted.completion_tokens, counted.documents)
            for place, figure in enumerate((dollars, share.gpu_seconds, *figures)):
                row[place] += figure * part
    return tuple(
        Line(
            key=key,
            dollars=row[0],
            gpu_seconds=row[1],
            requests=_requests(key, by, spent),
            prompt_tokens=row[2],
            completion_tokens=row[3],
            documents=row[4],
            unit=unit(row[0], row[2], row[3], row[4], output_weight),
        )
        for key, row in sorted(sums.items(), key=lambda item: -item[1][0])
    )


def _tenants(share: Share, spent: Sequence[Spent], output_weight: float) -> list[tuple[str, float]]:
    """Each tenant's share of a model's use, by weighted tokens."""
    weights = {
        row.tenant: row.prompt_tokens + output_weight * row.completion_tokens
        for row in spent
        if row.model == share.model
    }
    total = sum(weights.values())
    return [(tenant, weight / total) for tenant, weight in weights.items()] if total else [(TENANT_UNKNOWN, 1.0)]


def _requests(key: tuple[str, ...], by: Sequence[str], spent: Sequence[Spent]) -> int | None:
    """Number of a row's requests in the audit; None for rows of engines, which the audit does not name."""
    if "tenant" not in by or "engine" in by:
        return None
    wanted = dict(zip(by, key, strict=True))
    return sum(
        row.requests for row in spent if row.tenant == wanted["tenant"] and wanted.get("model", row.model) == row.model
    )
