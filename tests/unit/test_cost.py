"""`enginehouse cost`: figures calculated by hand, from the encoders of a real H100 and from counters of an hour."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.cost.bill import Floor, Unit, floors, lines, months, unit
from deploy.cost.measured import loads_of
from deploy.cost.prices import Prices, prices_of_file, typed_prices
from deploy.cost.report import money
from deploy.cost.share import Counted, Spent, Window, shares, spent_by
from deploy.cost.spot import Interruptions, builds, recorded_of, spot
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.spec import EngineTrust, KVCache, Machine
from tests.unit.samples import EMBEDDER, GPT_OSS, LLAMA, MAIN, RERANKER, main, sources
from tests.unit.samples import plan as plan_of

ROOT = Path(__file__).parents[2]
ENCODERS = "benchmarks/results/h100-encoders.json"
H100 = Prices(rest=2.49)
SERVED = {"servers": (MAIN,)}
HOUR = Window(
    seconds=3600,
    counted={
        ("h", "bge"): Counted(documents=60_000, device_seconds=300),
        ("h", "nomic"): Counted(documents=10_000, device_seconds=100),
        ("h", "gpt-oss-20b"): Counted(prompt_tokens=1_000_000, completion_tokens=250_000),
    },
    worked={("h", 0): 1800.0},
)
"""The GPU worked half of the hour: 300 s for the reranker, 100 s for the embedder, so 1,400 s for the LLM."""


def plan(*names: str, **data: Any) -> Plan:
    """The plan of hosts with these names, or of a host `h`."""
    return plan_of(*sources(*(names or ("h",)), **data))


def loads(file: str = ENCODERS) -> Any:
    """Loads of a bench file of the repository."""
    return loads_of(json.loads((ROOT / file).read_text("utf-8")), file)


def floor_of(model: str, load: str, **changes: Any) -> Unit | None:
    """Unit prices at saturation, for 2.49 $ an hour."""
    rows = floors(plan(**SERVED | changes), loads(), H100, 4)
    return next(row.unit for row in rows if row.model == model and row.load and row.load.name.startswith(load))


@pytest.mark.parametrize(
    ("model", "load", "thousand", "million"),
    [
        # 2.49 $ / 3,600 s = 0.00069167 $ per second; per 1,000 documents at 6,740.7618/s; per million tokens at
        # 862,818/s.
        ("bge", "rerank 128", 0.00010261, 0.00080164),
        # The same at 1,573.022 documents/s and 805,387 tokens/s.
        ("bge", "rerank 512", 0.00043971, 0.00085880),
        # The same at 14,812.9 documents/s and 1,896,051 tokens/s.
        ("nomic", "embed 128", 0.00004669, 0.00036479),
    ],
)
def test_the_floor_of_encoders_agrees_with_a_hand_calculation(
    model: str, load: str, thousand: float, million: float
) -> None:
    """The figures are of a real H100 (2026-11-22), fp16."""
    floor = floor_of(model, load)
    assert floor is not None and floor.output_million is None
    assert floor.documents_thousand == pytest.approx(thousand, rel=1e-3)
    assert floor.input_million == pytest.approx(million, rel=1e-3)


def test_an_encoder_that_is_served_in_8_bits_is_priced_by_its_own_figures() -> None:
    """Dollars per 1,000 documents: 2.49 / 3,600 / 10,444.2991 documents/s x 1,000."""
    floor = floor_of("bge", "rerank 128", **main(replace(RERANKER, products="fp8"), EMBEDDER))
    assert floor is not None and floor.documents_thousand == pytest.approx(0.000066224, rel=1e-4)


def rows_of(**data: Any) -> list[tuple[str, bool]]:
    """Models of a plan, and True if a figure covers them."""
    rows: tuple[Floor, ...] = floors(plan(**data), loads(), H100, 4)
    return sorted({(row.model, row.load is not None) for row in rows})


def test_a_model_that_no_bench_covers_is_not_measured() -> None:
    """Examples are an LLM, and any model on another card."""
    assert rows_of(**SERVED) == [("bge", True), ("gpt-oss-20b", False), ("nomic", True)]
    other_card = {"machine": Machine(os="ubuntu-24.04", gpu="l40s-48")}
    assert rows_of(**main(RERANKER), **other_card) == [("bge", False)]


def test_one_slow_query_at_a_time_is_no_saturation() -> None:
    """Only 5 of the file's 6 loads keep the card busy."""
    assert sorted(load.saturated for load in loads() if load.products == "fp16") == [False, *[True] * 5]


def test_models_pay_the_gpu_by_the_seconds_it_worked_for_them() -> None:
    """An hour at 3.60 $: 300, 100 and 1,400 of 1,800 s, with idle time in the same proportion."""
    rows = lines(shares(plan(**SERVED), HOUR, 4), Prices(rest=3.6), ("model",), 4)
    assert {row.key[0]: round(row.dollars, 6) for row in rows} == {"bge": 0.6, "nomic": 0.2, "gpt-oss-20b": 2.8}


def test_units_of_the_real_load_agree_with_a_hand_calculation() -> None:
    """2.80 $ for 1 M tokens in and 0.25 M out, which weigh 1 M: 1.40 in, 5.60 out, 2.24 together."""
    units = {row.key: row.unit for row in lines(shares(plan(**SERVED), HOUR, 4), Prices(rest=3.6), ("model",), 4)}
    llm = units["gpt-oss-20b",]
    assert (llm.input_million, llm.output_million, llm.total_million) == pytest.approx((1.4, 5.6, 2.24))
    assert units["bge",].documents_thousand == pytest.approx(0.01)


def test_without_the_gpus_own_seconds_the_llm_pays_what_encoders_leave() -> None:
    """The LLM pays for 3,200 of 3,600 s, and no utilisation is reported."""
    paid = shares(plan(**SERVED), replace(HOUR, worked={}), 4)
    assert {share.model: share.gpu_seconds for share in paid}["gpt-oss-20b"] == 3200
    assert not any(share.is_busy_known for share in paid)


def test_two_llms_of_a_card_divide_its_rest_by_weighted_tokens() -> None:
    """Prompts of 100 with answers of 25 weigh 200, prompts of 600 weigh 600: a quarter and three quarters."""
    small = KVCache(tokens=65_536)
    data = main(replace(GPT_OSS, name="a", kv_cache=small), replace(GPT_OSS, name="b", kv_cache=small))
    counted = {
        ("h", "a"): Counted(prompt_tokens=100, completion_tokens=25),
        ("h", "b"): Counted(prompt_tokens=600),
    }
    window = Window(seconds=100, counted=counted, worked={("h", 0): 80.0})
    assert [(share.gpu_seconds, share.paid_seconds) for share in shares(plan(**data), window, 4)] == [
        (20.0, 25.0),
        (60.0, 75.0),
    ]


def test_every_second_of_every_gpu_is_paid_by_somebody() -> None:
    """GPUs without a server, and GPUs that served no request, have their own rows."""
    data = main(LLAMA) | {"machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=4)}
    paid = shares(plan(**data), Window(seconds=50), 4)
    assert [(share.model, share.paid_seconds) for share in paid] == [("", 50), ("", 150)]


def test_passes_that_overlap_are_no_more_than_the_card_worked() -> None:
    """Two streams of 300 s each share 200 s of the card's work."""
    counted = {("h", "bge"): Counted(device_seconds=300), ("h", "nomic"): Counted(device_seconds=300)}
    paid = shares(plan(**SERVED), Window(seconds=400, counted=counted, worked={("h", 0): 200.0}), 4)
    assert [share.gpu_seconds for share in paid] == [100, 100, 0]


def test_tenants_divide_a_model_by_weighted_tokens() -> None:
    """500 in weigh 500, 500 in and 250 out weigh 1,500; usage without an audit line has its own row."""
    audit = [
        {"tenant": "a", "model": "gpt-oss-20b", "prompt_tokens": 500, "completion_tokens": 0},
        {"tenant": "b", "model": "gpt-oss-20b", "prompt_tokens": 400, "completion_tokens": 250},
        {"tenant": "b", "model": "gpt-oss-20b", "prompt_tokens": 100, "completion_tokens": 0},
        {"tenant": "c", "model": "", "prompt_tokens": 9},
    ]
    spent = spent_by(audit)
    assert spent[1] == Spent(tenant="b", model="gpt-oss-20b", requests=2, prompt_tokens=500, completion_tokens=250)
    rows = lines(shares(plan(**SERVED), HOUR, 4), Prices(rest=3.6), ("tenant",), 4, spent)
    assert {row.key[0]: (round(row.dollars, 6), row.requests) for row in rows} == {
        "a": (0.7, 1),
        "b": (2.1, 2),
        "(no audit line)": (0.8, 0),
    }


def test_the_bill_of_a_month_counts_every_gpu() -> None:
    """The month has 730 hours, and each of the four cards costs 2.49 $ an hour."""
    data = main(LLAMA) | {"machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=4)}
    (month,) = months(plan(**data), H100)
    assert (month.gpus, month.dollars) == (4, pytest.approx(7270.8))


def test_spot_pays_for_the_time_until_a_host_serves_again() -> None:
    """The recorded deploy took 165.8 s, of which 61.2 were downloads; the test has 30,617 MiB at 500 MiB/s, and 60 s
    for the machine."""
    recorded = recorded_of(json.loads((ROOT / "benchmarks/results/h100-deploy.json").read_text("utf-8")), "h100")
    mine = plan(**SERVED)
    assert mine.slices[0].image.size_mib + sum(weights.size_mib for weights in mine.slices[0].weights) == 30_617
    cost = spot(mine, "h", 1.0, 2.0, recorded, Interruptions(a_day=10, boot_seconds=60, fetch_mib_s=500))
    # 165.8 - 61.2 + 61.234 + 60 = 225.834 s; ten times a day: 2.6138 %
    assert cost.redeploy_seconds == pytest.approx(225.834)
    assert cost.effective == pytest.approx(1.0 / (1 - 0.026138), rel=1e-5)
    # Half the price is wasted when interruptions take half the day: 43,200 s / 225.834 s.
    assert cost.even_interruptions_a_day == pytest.approx(191.29, rel=1e-4)


def test_a_host_that_is_always_interrupted_is_refused() -> None:
    """The host's restarts take more seconds than a day has."""
    recorded = recorded_of(json.loads((ROOT / "benchmarks/results/h100-deploy.json").read_text("utf-8")), "h100")
    with pytest.raises(Refusal, match="interrupted before it serves"):
        spot(plan(**SERVED), "h", 1.0, 2.0, recorded, Interruptions(a_day=1000))


def test_an_engine_built_once_is_paid_once() -> None:
    """30 minutes at 2 $ on each of two hosts, or on one."""
    mine = plan("a", "b", **main(replace(LLAMA, path="engine")), engine_trust=EngineTrust(key="keys/engines"))
    (build,) = builds(mine, {"h100-80": 2.0}, 30)
    assert (build.hosts, build.each_dollars, build.once_dollars) == (2, 2.0, 1.0)


@pytest.mark.parametrize("words", [["2.49", "l40s=0.9"], ["L40S=0.9", "2.49"]])
def test_cards_have_prices_of_their_own(words: list[str]) -> None:
    """Cards are named as for `fit`; a bare number is for every other card."""
    prices = typed_prices(words, "--per-hour")
    assert (prices.of("l40s-48"), prices.of("h100-80")) == (0.9, 2.49)


@pytest.mark.parametrize("word", ["cheap", "-1", "nan", "h900=2", "h100="])
def test_a_malformed_price_is_refused(word: str) -> None:
    """The refusal comes instead of a guessed price."""
    with pytest.raises(Refusal, match="is not a price"):
        typed_prices([word], "--per-hour")


def test_a_file_of_prices_says_when_they_were_read() -> None:
    """A file without a date is refused."""
    content = {"date": "2026-11-01", "source": "an offer", "per_hour": {"h100-80": 2.5}, "spot_per_hour": {"h100": 1}}
    on_demand, on_spot = prices_of_file(content, "prices.json")
    assert (on_demand.of("h100-80"), on_spot.of("h100-80")) == (2.5, 1)
    assert on_demand.source == "prices.json: an offer, 2026-11-01"
    with pytest.raises(Refusal, match="is not a price"):
        prices_of_file({"per_hour": {"h100-80": 2.5}}, "prices.json")


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(None, ""), (0.0, "0.00"), (1817.7, "1,818"), (2.49, "2.49"), (0.0001026, "0.000103"), (0.25, "0.250")],
)
def test_money_keeps_three_figures(dollars: float | None, text: str) -> None:
    """Amounts below a cent also have three figures."""
    assert money(dollars) == text


def test_an_output_token_costs_its_weight_in_input_tokens() -> None:
    """Input and output together make the bill."""
    price = unit(10.0, 1000, 500, 0, 3)
    assert price.input_million is not None and price.output_million is not None
    assert (price.input_million * 1000 + price.output_million * 500) / 1e6 == pytest.approx(10)
    assert price.output_million == pytest.approx(3 * price.input_million)
