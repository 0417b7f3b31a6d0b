"""`/usage`: a key's tenant sees the usage of its own keys on this host only."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.usage import PICO
from gateway.usage_page import COUNTS, GROUPS, figures, parts
from tests.gateway.asking import KEY, OTHER_KEY, RunningGateway, in_loop, key_line, running_gateway
from tests.gateway.test_page import FORM, text_of

SECOND_KEY = "eh-second-0123456789abcdef0123456789abcdef"
LINES = [key_line(KEY, "acme"), key_line(SECOND_KEY, "acme", ["bge"]), key_line(OTHER_KEY, "umbrella", ["bge"])]
RERANK = {"model": "bge", "query": "a", "documents": ["b"]}


@asynccontextmanager
async def used(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> AsyncIterator[RunningGateway]:
    """Yields a gateway that has counted requests of three keys of two tenants."""
    (folder / "state").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(folder / "state"))
    price = {"prompt": 1.0, "cached": 1.0, "completion": 1.0, "currency": "EUR"}
    async with running_gateway(folder, **{"usage_days": 30, "prices": {"llama": price}, **more}) as front:
        front.keys_file.write_text(json.dumps({"keys": LINES}))
        await front.gateway.refresh()
        await front.chat()
        await front.chat(max_tokens=-1)
        await front.ask("/v2/rerank", RERANK, key=SECOND_KEY)
        for _ in range(3):
            await front.ask("/v2/rerank", RERANK, key=OTHER_KEY)
        await asyncio.to_thread(front.gateway.usage.count, datetime.now(UTC))
        yield front


async def lines_of(front: RunningGateway, **fields: str) -> dict[str, list[str]]:
    """Returns the lines of the table by their names."""
    answer = await front.ask("/usage", urlencode({"key": KEY, **fields}).encode(), key=None, headers=FORM)
    assert answer.status == 200
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', answer.body.decode())
    return {html.unescape(name): re.findall(r"<td[^>]*>(.*?)</td>", cells) for name, cells in rows}


@in_loop
async def test_a_tenant_sees_its_keys_models_and_days_and_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with used(tmp_path, monkeypatch) as front:
        by_key, by_model, by_day = [await lines_of(front, by=group) for group in ("key", "model", "day")]
        of_second = await lines_of(front, by="key", key=SECOND_KEY)
        page = text_of((await front.ask("/usage")).body)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert {name: cells[:2] for name, cells in by_key.items()} == {
        KEY[:7]: ["2", "1"], SECOND_KEY[:7]: ["1", "0"], "all": ["3", "1"],
    }  # fmt: skip
    assert {name: cells[0] for name, cells in by_model.items()} == {"bge": "1", "llama": "2", "all": "3"}
    assert {name: cells[0] for name, cells in by_day.items()} == {today: "3", "all": "3"}
    assert re.fullmatch(r"0\.\d{4} EUR", by_model["llama"][5]) and by_model["bge"][5] == ""
    assert of_second == by_key
    assert "Usage of acme" in page and "umbrella" not in page and OTHER_KEY[:7] not in page


@in_loop
async def test_days_before_the_chosen_time_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with used(tmp_path, monkeypatch) as front:
        before = datetime.now(UTC) - timedelta(days=6)
        front.gateway.usage.add(before.timestamp(), KEY[:7], "acme", "llama", False, (1, 0, 1), 1.0)
        await asyncio.to_thread(front.gateway.usage.count, datetime.now(UTC))
        counts = {days: (await lines_of(front, days=days))["all"][0] for days in ("1", "7", "31", "366", "no number")}
    assert counts == {"1": "3", "7": "4", "31": "4", "366": "4", "no number": "4"}


@in_loop
async def test_the_usage_page_shows_no_number_without_a_valid_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with used(tmp_path, monkeypatch) as front:
        nobody = await front.ask("/usage", key=None)
        wrong = await front.ask("/usage", b"key=eh-nobody", key=None, headers=FORM)
    assert (nobody.status, wrong.status) == (200, 401)
    for answer in (nobody, wrong):
        assert "<table" not in answer.body.decode() and "acme" not in answer.body.decode()


@in_loop
async def test_the_usage_page_reports_missing_and_empty_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with used(tmp_path, monkeypatch, usage_days=0, hosts=3) as front:
        without = text_of((await front.ask("/usage")).body)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "empty"))
    async with running_gateway(tmp_path, usage_days=30) as front:
        fresh = text_of((await front.ask("/usage")).body)
    assert "This host keeps no counters of usage." in without and "Each of 3 hosts" in without
    assert "This host has counted no request of that time." in fresh and "Each of" not in fresh


def test_the_usage_page_sums_the_persons_of_a_key_and_names_none() -> None:
    """Holders of the tenant's other keys read the same page."""
    rows = [{"key": key} for key in ("eh-aaaaaa/ann@example.com", "eh-aaaaaa", "eh-bbbbbb/bob", "eh-aaaaaa/bob")]
    assert [(name, len(part)) for name, part in parts(rows, "key")] == [("eh-aaaaaa", 3), ("eh-bbbbbb", 1)]


ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.integers(0, 10**9) for name in (*COUNTS, "cost")}
        | {group: st.sampled_from(["", "a", "b", "c"]) for group in GROUPS}
        | {"currency": st.sampled_from(["", "EUR", "USD"]), "times": st.dictionaries(st.integers(0, 80), st.just(1))}
    ),
    max_size=12,
)


@given(ROWS, st.sampled_from(GROUPS))
def test_the_lines_of_a_table_sum_to_the_totals_of_its_rows(rows: list[dict[str, Any]], group: str) -> None:
    """Every row belongs to exactly one line."""
    lines = [figures(part) for _, part in parts(rows, group)]
    for place, name in enumerate(COUNTS):
        numbers = [int(line[place].replace(",", "")) for line in lines]
        assert sum(numbers) == sum(row[name] for row in rows)
    for currency in ("EUR", "USD"):
        wanted = sum(row["cost"] for row in rows if row["currency"] == currency) / PICO
        costs = [
            float(text.split()[0].replace(",", ""))
            for line in lines
            for text in line[5].split(", ")
            if currency in text
        ]
        assert sum(costs) == pytest.approx(wanted, abs=0.0001 * max(len(costs), 1))


@in_loop
async def test_pages_show_the_remaining_budgets_of_key_and_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenant's budget counts all its keys; a key without one shows only its tenant's."""
    async with used(tmp_path, monkeypatch, hosts=2) as front:
        first = key_line(KEY, "acme", tokens_per_day=2000)
        tenant = {"tenant": "acme", "cost_per_month": 10**9, "currency": "EUR"}
        front.keys_file.write_text(json.dumps({"keys": [first, *LINES[1:]], "tenants": [tenant]}))
        await front.gateway.refresh()
        pages = [text_of((await front.ask(path)).body) for path in ("/", "/usage")]
        second = text_of((await front.ask("/usage", key=SECOND_KEY)).body)
        unlimited = text_of((await front.ask("/usage", key=OTHER_KEY)).body)
    for page in pages:
        assert re.search(
            r"budget of this key for the day (\d+) of 1,000 tokens \d+ % (\d+) tokens left; renewed at", page
        )
        assert re.search(
            r"budget of this tenant for the month 0\.\d+ of 500 EUR 0 % 499\.\d+ EUR left; renewed at", page
        )
    assert "budget of this tenant" in second and "budget of this key" not in second and "budget of" not in unlimited
    assert "Each of 2 hosts has its part of a budget" in second
