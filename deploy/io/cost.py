"""The cost of an inventory: reads prices, bench files, counters and audit lines, and hands them to `deploy.cost`."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deploy.cost.bill import floors, lines, months
from deploy.cost.measured import loads_of
from deploy.cost.prices import Prices, prices_of_file, typed_prices
from deploy.cost.report import Cost
from deploy.cost.share import RULES, shares, spent_by
from deploy.cost.spot import Interruptions, builds, recorded_of, spot
from deploy.io.prometheus import asker, window_of
from deploy.planning.plan import Plan
from deploy.refusals import json_fault, refuse

ROOT = Path(__file__).parents[2]
BY = ("tenant", "model", "engine")


def cost_asked(plan: Plan, options: dict[str, Any]) -> Cost:
    """The cost that a command line asks for; `options` holds its options by name."""
    prices, spot_prices = typed_prices(options["per_hour"], "--per-hour"), None
    if options["prices"]:
        prices, spot_prices = prices_of_file(read_json(options["prices"]), name_of(options["prices"]))
    if options["spot_per_hour"]:
        spot_prices = typed_prices(options["spot_per_hour"], "--spot-per-hour")
    by = tuple(word for word in options["by"].split(",") if word)
    if set(by) - set(BY) or ("tenant" in by and not (options["audit"] and options["from_prometheus"])):
        raise refuse(
            "no-such-group",
            f"--by {options['by']} cannot be answered",
            where="--by",
            seen=options["by"],
            wanted="tenant, model and engine; tenant with --from-prometheus and --audit, which name them",
            attempt="--by model,engine",
        )
    a_day = options["interruptions_per_day"]
    if (a_day is not None) != bool(spot_prices) and not options["prices"]:
        raise refuse(
            "half-a-spot",
            "a spot price and a rate of interruptions go together",
            where="--spot-per-hour, --interruptions-per-day",
            seen="one without the other",
            wanted="both: the saving depends on how often a host is taken away",
            attempt="--spot-per-hour DOLLARS --interruptions-per-day RATE",
        )
    interruptions = None
    if a_day is not None:
        interruptions = Interruptions(
            a_day=a_day,
            boot_seconds=options["boot_seconds"],
            fetch_mib_s=options["fetch_mib_s"],
            build_minutes=options["build_minutes"],
        )
    return cost_of(
        plan,
        prices,
        spot_prices=spot_prices,
        bench=options["bench"],
        prometheus=options["from_prometheus"],
        window=options["window"],
        audit=options["audit"],
        by=by,
        output_weight=options["output_weight"],
        utilisation=options["utilisation"] / 100 if options["utilisation"] else None,
        interruptions=interruptions,
        record=options["deploy_record"],
        build_minutes=options["build_minutes"],
    )


def cost_of(
    plan: Plan,
    prices: Prices,
    *,
    spot_prices: Prices | None = None,
    bench: Sequence[Path] = (),
    prometheus: str = "",
    window: str = "30d",
    audit: Path | None = None,
    by: Sequence[str] = ("model",),
    output_weight: float = 4.0,
    utilisation: float | None = None,
    interruptions: Interruptions | None = None,
    record: Path | None = None,
    build_minutes: float = 0.0,
) -> Cost:
    """The cost of the plan. Raises: a Refusal for a file that cannot be read, or a query without an answer."""
    options: dict[str, Any] = {"months": months(plan, prices), "price_source": prices.source}
    options |= {"output_weight": output_weight, "by": tuple(by), "utilisation": utilisation}
    notes = [f"prices: {prices.source}; for one GPU and hour, its share of the host included"]
    notes += [f"{len(plan.balancers)} balancers are not in it"] if plan.balancers else []
    if bench:
        loads = [load for file in bench for load in loads_of(read_json(file), name_of(file))]
        options["floors"] = floors(plan, loads, prices, output_weight)
        sources = sorted({row.load.source for row in options["floors"] if row.load})
        notes += [f"measured: {source}" for source in sources]
        notes += [] if utilisation else ["a floor is not a bill: a card that is idle half the day doubles every figure"]
    if prometheus:
        counted = window_of(asker(prometheus), window)
        shared = shares(plan, counted, output_weight)
        spent = spent_by(audit_lines(audit)) if audit else ()
        options["lines"] = lines(shared, prices, by, output_weight, spent)
        options["window_seconds"] = counted.seconds
        known = [share for share in shared if share.is_busy_known]
        paid = sum(share.paid_seconds for share in known)
        options["utilisation"] = sum(share.gpu_seconds for share in known) / paid if paid else None
        utilisation_text = f"{options['utilisation']:.1%}" if paid else "not measured: no DCGM_FI_PROF_GR_ENGINE_ACTIVE"
        notes += [f"window: the last {window}; utilisation {utilisation_text}", *RULES[:-1]]
    if bench or prometheus:
        notes.append(RULES[-1].format(output_weight=output_weight))
    if spot_prices and interruptions:
        recorded = recorded_of(read_json(record or ROOT / "benchmarks/results/h100-deploy.json"), "recorded deploy")
        first = {slice_.machine.gpu: slice_.host for slice_ in reversed(plan.slices)}
        options |= {"recorded": recorded, "interruptions_a_day": interruptions.a_day}
        options["spots"] = tuple(
            spot(plan, host, spot_prices.of(card), prices.of(card), recorded, interruptions)
            for card, host in sorted(first.items())
        )
        fetched = f"{recorded.fetched_mib:,} MiB in {recorded.fetching_seconds:g} s"
        notes.append(
            f"{recorded.source}: {recorded.seconds:g} s, {fetched} of them from the same machine (--fetch-mib-s: your "
            f"network); {interruptions.boot_seconds:g} s until the provider has the machine up, as typed"
        )
    if plan.engines:
        if build_minutes:
            options["builds"] = builds(plan, {month.card: month.per_hour for month in options["months"]}, build_minutes)
        notes.append(
            f"a build takes {build_minutes:g} minutes, as typed"
            if build_minutes
            else "builds: not measured here; --build-minutes says how long one takes"
        )
    return Cost(**options, notes=tuple(notes))


def read_json(file: Path) -> Any:
    """The content of a JSON file, with or without a byte order mark. Raises: a Refusal that names its fault."""
    text = ""
    try:
        text = file.read_text("utf-8-sig")
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise refuse(
            "no-json",
            f"{name_of(file)} cannot be read",
            where=str(file),
            seen="a directory"
            if isinstance(error, IsADirectoryError)
            else f"{type(error).__name__}: {error}"
            if isinstance(error, (OSError, UnicodeDecodeError, RecursionError))
            else json_fault(text, error),
            wanted="a JSON file",
            attempt=f"ls -ld {shlex.quote(str(file))}"
            if isinstance(error, OSError)
            else f"python3 -m json.tool {shlex.quote(str(file))}",
        ) from None


def audit_lines(file: Path) -> Iterator[dict[str, object]]:
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            for line in text:
                if line.startswith("{") and '"tenant"' in line:
                    try:
                        yield json.loads(line)
                    except (ValueError, RecursionError):
                        continue
    except OSError as error:
        raise refuse(
            "no-audit",
            f"{name_of(file)} cannot be read",
            where="--audit",
            seen=f"{type(error).__name__}: {error}",
            wanted="the gateways' audit lines, one JSON object a line",
            attempt="journalctl -u 'enginehouse-gateway@*' -o cat --since -30d > audit.jsonl",
        ) from None


def name_of(file: Path) -> str:
    """The file's name as a person types it in a clone of this repository."""
    file = file.resolve()
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)
