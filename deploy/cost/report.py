"""The costs of an inventory as a report for people and as plain values; every figure has its assumptions beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.cost.bill import HOURS_A_MONTH, Floor, Line, Month, Unit
from deploy.cost.spot import Build, Recorded, Spot

UNITS = (
    ("input_million", "$/M input"),
    ("output_million", "$/M output"),
    ("total_million", "$/M tokens"),
    ("documents_thousand", "$/1000 docs"),
)
NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """All output of `enginehouse cost`. `utilisation`: the share of paid GPU time that was used; None if unknown."""

    months: tuple[Month, ...]
    output_weight: float
    price_source: str
    floors: tuple[Floor, ...] = ()
    utilisation: float | None = None
    by: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    window_seconds: float = 0.0
    spots: tuple[Spot, ...] = ()
    recorded: Recorded | None = None
    interruptions_a_day: float = 0.0
    builds: tuple[Build, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"months": [asdict(month) | {"dollars": month.dollars} for month in self.months]}


def money(dollars: float | None) -> str:
    """Whole dollars from 100 on, with cents from 1 on; smaller sums with as many decimals as they need."""
    if dollars is None:
        return ""
    if dollars >= 100:
        return f"{dollars:,.0f}"
    if dollars >= 1:
        return f"{dollars:,.2f}"
    places = 2
    while dollars and places < 9 and dollars * 10**places < 100:
        places += 1
    return f"{dollars:.{places}f}"


def cost_report(cost: Cost) -> Group:
    """The report: the month's bill, then unit costs, then spot and builds, then the assumptions."""
    parts: list[RenderableType] = [_months(cost)]
    if cost.floors:
        parts += [Text(""), *_floors(cost)]
    if cost.lines:
        parts += [Text(""), _lines(cost)]
    if cost.spots:
        parts += [Text(""), *_spots(cost)]
    if cost.builds:
        parts += [Text(""), _builds(cost.builds)]
    return Group(*parts, *(Text(f"note  {sentence}") for sentence in cost.notes))


def _table(*columns: str, text: int = 1) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < text else "right", overflow="fold")
    return table


def _months(cost: Cost) -> Table:
    table = _table("card", "hosts", "GPUs", "$/GPU hour", f"$ a month of {HOURS_A_MONTH} h")
    for month in cost.months:
        table.add_row(month.card, str(month.hosts), str(month.gpus), money(month.per_hour), money(month.dollars))
    if len(cost.months) > 1:
        table.add_row("all", "", "", "", money(sum(month.dollars for month in cost.months)))
    return table


def _unit(unit: Unit) -> list[str]:
    return [money(getattr(unit, name)) for name, _ in UNITS]


def _floors(cost: Cost) -> Iterable[RenderableType]:
    is_by_engine = "engine" in cost.by and "model" not in cost.by
    yield Text("floor: the cost of a unit if the load keeps the card full all day", style="bold")
    yield _floor_table(cost.floors, 1.0, is_by_engine)
    if cost.utilisation:
        yield Text(f"at {cost.utilisation:.0%} utilisation, as typed", style="bold")
        yield _floor_table(cost.floors, 1 / cost.utilisation, is_by_engine)


def _floor_table(floors: Sequence[Floor], factor: float, is_by_engine: bool) -> Table:
    table = _table("engine" if is_by_engine else "model", "load", *(title for _, title in UNITS), text=2)
    for floor in floors:
        name = floor.engine if is_by_engine else floor.model
        if floor.load is None or floor.unit is None:
            table.add_row(name, f"{NOT_MEASURED} on {floor.card}")
        else:
            table.add_row(name, floor.load.name, *_unit(floor.unit.times(factor)))
    return table


def _lines(cost: Cost) -> Table:
    table = _table(*cost.by, "$", "of it", "GPU s", "requests", *(title for _, title in UNITS), text=len(cost.by))
    total = sum(line.dollars for line in cost.lines)
    for line in cost.lines:
        share = f"{line.dollars / total:.1%}" if total else ""
        requests = "" if line.requests is None else f"{line.requests:,}"
        table.add_row(*line.key, money(line.dollars), share, f"{line.gpu_seconds:,.0f}", requests, *_unit(line.unit))
    return table


def _spots(cost: Cost) -> Iterable[RenderableType]:
    yield Text(f"spot, at {cost.interruptions_a_day:g} interruptions a day and host, as typed", style="bold")
    table = _table("card", "$/GPU hour", "s to serve again", "time lost", "$/hour served", "on demand", "even at a day")
    for spot in cost.spots:
        table.add_row(
            spot.card,
            money(spot.per_hour),
            f"{spot.redeploy_seconds:,.0f}",
            f"{spot.lost:.2%}",
            money(spot.effective),
            money(spot.on_demand),
            f"{spot.even_interruptions_a_day:,.1f}",
        )
    yield table


def _builds(builds: Sequence[Build]) -> Table:
    table = _table("engine", "hosts", "GPUs", "$ if each host builds", "$ if built once")
    for build in builds:
        figures = (str(build.hosts), str(build.gpus), money(build.each_dollars), money(build.once_dollars))
        table.add_row(build.engine, *figures)
    return table
