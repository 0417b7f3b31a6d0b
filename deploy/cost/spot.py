"""The cost of interruptions of spot machines, and of engines that every host builds for itself.

The time of a new deploy is taken from a recorded one (benchmarks/results/h100-deploy.json). Its downloads are recorded
apart from the rest, so that another image, other weights and another network can be calculated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploy.planning.plan import Plan
from deploy.refusals import refuse

FETCHING = "Registry"
"""The stage that waits for the image; weights are downloaded at the same time."""
DAY_SECONDS = 86_400


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Seconds of a recorded first deploy: all seconds, the seconds of waiting for downloads, and the downloaded MiB."""

    seconds: float
    fetching_seconds: float
    fetched_mib: int
    source: str


def recorded_of(record: Any, source: str) -> Recorded:
    """The recorded deploy of a file. Raises: a Refusal for a file without one."""
    try:
        steps: Mapping[str, Any] = {step["step"]: step["found"] for step in record["steps"]}
        deploy, artefacts = steps["deploy"], steps["artefacts"]
        return Recorded(
            seconds=float(deploy["seconds"]),
            fetching_seconds=float(deploy["stages"][FETCHING]),
            fetched_mib=int(artefacts["image_mib"]) + int(artefacts["checkpoints_mib"]),
            source=f"{source}, {record['steps'][0]['began'][:10]}",
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise refuse(
            "no-recorded-deploy",
            f"{source} is not a recorded deploy",
            where="--deploy-record",
            seen=f"{type(error).__name__}: {error}",
            wanted="the report of a deploy with its stages",
            attempt="--deploy-record benchmarks/results/h100-deploy.json",
        ) from None


@dataclass(frozen=True, kw_only=True)
class Interruptions:
    """Rate at which hosts are taken away, and the time until the next one arrives; `fetch_mib_s` 0: as recorded."""

    a_day: float
    boot_seconds: float = 0.0
    fetch_mib_s: float = 0.0
    build_minutes: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A host of `card` on spot: seconds until it serves again, and the price per GPU of an hour in which it serves."""

    card: str
    per_hour: float
    on_demand: float
    redeploy_seconds: float
    fetch_seconds: float
    lost: float
    """The share of the paid time in which the host does not serve."""
    effective: float
    even_interruptions_a_day: float
    """Interruptions a day at which spot costs as much as on demand."""


def spot(
    plan: Plan, host: str, per_hour: float, on_demand: float, recorded: Recorded, interruptions: Interruptions
) -> Spot:
    """The cost of spot for this host. Raises: a Refusal if it would never serve."""
    mine = plan.for_host(host)
    mib = mine.image.size_mib + sum(weights.size_mib for weights in mine.weights)
    fetch = mib / interruptions.fetch_mib_s if interruptions.fetch_mib_s else recorded.fetching_seconds
    builds = 0 if mine.engine_store else len(mine.engines)
    seconds = (
        interruptions.boot_seconds
        + recorded.seconds
        - recorded.fetching_seconds
        + fetch
        + builds * interruptions.build_minutes * 60
    )
    lost = interruptions.a_day * seconds / DAY_SECONDS
    if lost >= 1:
        raise refuse(
            "never-serves",
            f"{host} would be interrupted before it serves",
            where="--interruptions-per-day",
            seen=f"{interruptions.a_day:g} a day, and {seconds:,.0f} s until it serves again",
            wanted=f"fewer than {DAY_SECONDS / seconds:.1f} a day",
            attempt="a lower rate of interruptions",
        )
    saved = 1 - per_hour / on_demand if on_demand else 0.0
    return Spot(
        card=mine.machine.gpu,
        per_hour=per_hour,
        on_demand=on_demand,
        redeploy_seconds=seconds,
        fetch_seconds=fetch,
        lost=lost,
        effective=per_hour / (1 - lost),
        even_interruptions_a_day=max(saved, 0.0) * DAY_SECONDS / seconds,
    )


@dataclass(frozen=True, kw_only=True)
class Build:
    """An engine that several hosts load: dollars if each of them builds it, and if it is built once and copied."""

    engine: str
    hosts: int
    gpus: int
    each_dollars: float
    once_dollars: float


def builds(plan: Plan, per_hour: Mapping[str, float], minutes: float) -> tuple[Build, ...]:
    """A row for each engine of the plan; `per_hour` is dollars of a GPU by card. Copying is not priced."""
    rows = []
    for engine in plan.engines:
        holders = [part for part in plan.slices if engine.path in {own.path for own in part.engines} and not part.farm]
        if not holders:
            continue
        costs = [per_hour[part.machine.gpu] * engine.world_size * minutes / 60 for part in holders]
        rows.append(
            Build(
                engine=engine.name,
                hosts=len(holders),
                gpus=engine.world_size,
                each_dollars=sum(costs),
                once_dollars=min(costs),
            )
        )
    return tuple(rows)
