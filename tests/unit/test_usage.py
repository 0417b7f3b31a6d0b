"""`enginehouse usage` adds up the counters of the hosts, and names a host that did not answer."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deploy.cost.budgets import budgets_as_csv
from deploy.cost.usage import added_up, as_csv, groups_of, rows_of, table
from deploy.inventory.key_limits import MICRO
from deploy.io import usage
from deploy.io.usage import known_budgets, usage_rows
from deploy.refusals import on_one_line
from deploy.refusals.errors import Refusal
from deploy.spec import Gateway, Identity, Price
from gateway.fields import Fields
from gateway.identity import identity_of
from roles.gateway.settings import settings
from tests.unit.samples import plan, refusals
from tests.unit.test_balancing import EDGE, planned, serving

ROW: dict[str, Any] = {
    "day": "2026-11-26", "key": "eh-4k2pxt", "tenant": "search", "model": "llama", "currency": "USD", "requests": 100,
    "errors": 2, "prompt_tokens": 3000, "cached_tokens": 1000, "completion_tokens": 500, "cost": 1_250_000_000_000,
    "times": {"0.1": 98, "2.0": 2},
}  # fmt: skip
OTHER = ROW | {"tenant": "chat", "key": "eh-77aaaa", "currency": "", "cost": 0, "times": {"0.1": 100}}


def answered(*rows: dict[str, Any]) -> str:
    return json.dumps({"rows": rows})


def test_hosts_add_up_and_a_quantile_is_that_of_all_hosts() -> None:
    report = added_up(
        {"a": rows_of(answered(ROW)), "b": rows_of(answered(ROW, OTHER))}, ("tenant", "model"), "2026-11-01"
    )
    second, first = report.lines
    assert (first.group, first.counts["requests"], first.cost_text) == (("chat", "llama"), 100, "")
    assert (second.group, second.counts["requests"], second.cost_text) == (("search", "llama"), 200, "2.5000 USD")
    assert (second.quantile(0.5), second.quantile(0.99)) == (0.1, 2.0)


def test_who_cost_most_comes_first_and_days_after_the_last_one_do_not_count() -> None:
    """By day, the days stay in order. Without a price tokens decide."""
    dear, free = ROW | {"tenant": "dear", "cost": 9 * 10**12}, OTHER | {"tenant": "free", "prompt_tokens": 10**6}
    later = ROW | {"day": "2026-11-27", "tenant": "later", "cost": 99 * 10**12}
    rows = {"a": rows_of(answered(ROW, OTHER, free, dear, later))}
    assert [line.group[0] for line in added_up(rows, ("tenant",), "2026-11-01", "2026-11-26").lines] == [
        "dear", "search", "free", "chat",
    ]  # fmt: skip
    days = [line.group for line in added_up(rows, ("tenant", "day"), "2026-11-01").lines]
    assert (days[0], days[-1]) == (("dear", "2026-11-26"), ("later", "2026-11-27"))


def test_persons_named_by_a_proxy_are_counted_separately_within_one_key() -> None:
    """A gateway counts a person as `PREFIX/PERSON`; a model's own name may contain the same sign."""
    ann, bob = ({"key": f"eh-4k2pxt/{name}", "model": "org/llama"} for name in ("ann@example.com", "bob"))
    rows = rows_of(answered(ROW | ann, ROW | bob, ROW))
    persons = added_up({"a": rows}, ("key", "person"), "2026-11-01").lines
    keys = added_up({"a": rows}, ("key", "model"), "2026-11-01").lines
    assert [line.group for line in persons] == [("eh-4k2pxt", name) for name in ("", "ann@example.com", "bob")]
    assert [(line.group, line.counts["requests"]) for line in keys] == [
        (("eh-4k2pxt", "org/llama"), 200), (("eh-4k2pxt", "llama"), 100),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "absurd",
    [
        {"requests": -1},
        {"cost": 10**400},
        {"prompt_tokens": "1e999"},
        {"times": {"nan": 1}},
        {"times": {"inf": 1}},
        {"times": {"0.5": 10**400}},
        {"times": {"-1": 1}},
        {"times": [1]},
    ],
)
def test_a_host_with_absurd_numbers_is_named_and_the_others_are_counted(absurd: dict[str, Any]) -> None:
    rows = rows_of(answered(ROW | absurd).replace('"1e999"', "1e999"))
    report = added_up({"a": rows_of(answered(ROW)), "b": rows}, ("tenant",), "2026-11-01")
    assert (report.missing, report.lines[0].counts["requests"]) == (("b",), 100)


@pytest.mark.parametrize("piece", ["[],", "{},"])
def test_brackets_without_content_are_no_usage_and_are_not_parsed(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 MiB of them took a control machine 6 GiB (2026-11-28). Rows of any number are read."""
    assert len(rows_of(json.dumps({"rows": [json.loads(answered(ROW))["rows"][0] | {"times": {}}] * 500})) or ()) == 500
    monkeypatch.setattr(json, "loads", None)
    assert rows_of('{"rows":[' + piece * 1000 + "0]}") is None


def test_a_host_that_is_down_is_named_and_the_others_are_counted() -> None:
    report = added_up({"a": rows_of(answered(ROW)), "b": None}, ("tenant",), "2026-11-01")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(report))
    assert "b did not answer: its numbers are missing here" in console.export_text()
    assert (report.missing, report.to_json()["usage"][0]["requests"]) == (("b",), 100)


def test_csv_has_a_line_for_each_group_and_no_formula() -> None:
    report = added_up({"a": rows_of(answered(ROW | {"model": "=1+1"}))}, ("tenant", "model"), "2026-11-01")
    assert as_csv(report) == (
        "tenant,model,requests,errors,prompt_tokens,cached_tokens,completion_tokens,cost,p50_seconds,p99_seconds\n"
        "search,'=1+1,100,2,3000,1000,500,1.2500 USD,0.1,2.0\n"
    )


@pytest.mark.parametrize("model", ["=1", " =1", "-1", "a;=1", "\uff1d1", '"=1', "'+1"])
def test_a_spreadsheet_takes_no_name_for_a_formula(model: str) -> None:
    """A spreadsheet of another language splits lines by semicolons, and removes quotes and blanks."""
    report = added_up({"a": rows_of(answered(ROW | {"model": model}))}, ("model",), "2026-11-01")
    ((name, *_),) = list(csv.reader(io.StringIO(as_csv(report))))[1:]
    assert name[0] == "'" and name[1:] == on_one_line(model)


@pytest.mark.parametrize("text", [None, "", "[]", '{"rows": [{}]}', '{"rows": [{"times": 3}]}', "[" * 100_000])
def test_words_of_a_host_that_are_no_counters_are_a_host_that_did_not_answer(text: str | None) -> None:
    assert rows_of(text) is None


def test_an_unknown_group_is_refused_by_its_name() -> None:
    with pytest.raises(Refusal, match="usage is not counted by colour"):
        groups_of("tenant,colour")


NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
PATH = "secrets/gateway-keys.json"


def with_keys(*rows: dict[str, Any], keys: str = "file", hosts: str = "ab") -> tuple[Any, usage.Rows]:
    """Returns a plan of two hosts with gateways, and what each of `hosts` counted."""
    gateways = {
        name: serving(f"10.0.0.1{place}") | {"gateway": Gateway(keys=keys or None)} for place, name in enumerate("ab")
    }
    return planned(edge={"balancer": EDGE}, **gateways).only(hosts), {name: rows_of(answered(*rows)) for name in hosts}


def test_an_operator_sees_how_much_of_each_budget_is_left_and_who_is_refused_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier days count only for the month, other keys for the tenant, and other currencies not at all."""
    monkeypatch.chdir(tmp_path)
    budget = {"tokens_per_day": 10_000, "cost_per_month": 100 * MICRO, "currency": "USD"}
    line = {"sha256": "a" * 64, "prefix": ROW["key"], "tenant": "search", "models": ["*"], **budget}
    Path("secrets").mkdir()
    Path(PATH).write_text(json.dumps({"keys": [line], "tenants": [{"tenant": "search", "tokens_per_month": 10**6}]}))
    before, in_euros = ROW | {"day": "2026-11-02"}, ROW | {"key": "eh-99cccc", "currency": "EUR"}
    budgets, notes = known_budgets(*with_keys(ROW, before, in_euros, ROW | {"day": "2026-10-31"}), NOW)
    tomorrow, december = datetime(2026, 11, 27, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    assert [(b.key, b.period, b.text(b.used), b.text(b.left), b.renewed, b.used_up_on) for b in budgets] == [
        (ROW["key"], "day", "7,000 tokens", "3,000 tokens", tomorrow, ()),
        (ROW["key"], "month", "5.0000 USD", "95.0000 USD", december, ()),
        ("", "month", "21,000 tokens", "979,000 tokens", december, ()),
    ]
    plan_, rows = with_keys(ROW)
    (day, *_), _ = known_budgets(plan_, {**rows, "a": rows_of(answered(ROW, ROW))}, NOW)
    assert (day.text(day.left), day.used_up_on, notes) == ("0 tokens", ("a",), ())


def test_budgets_stand_below_the_usage_and_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secrets").mkdir()
    Path(PATH).write_text(
        json.dumps({"keys": [], "tenants": [{"tenant": "search", "cost_per_day": 5 * MICRO, "currency": "USD"}]})
    )
    plan_, rows = with_keys(ROW)
    budgets, notes = known_budgets(plan_, rows, NOW)
    report = replace(added_up(rows, ("tenant",), "2026-11-27"), budgets=budgets, notes=notes)
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(table(report))
    line = next(line for line in console.export_text().splitlines() if line.startswith("search"))
    assert line.split() == [
        "search", "all", "keys", "day", "5.0000", "USD", "2.5000", "USD", "2.5000", "USD", "2026-11-27", "00:00", "-",
    ]  # fmt: skip
    assert report.lines == ()
    assert report.to_json()["budgets"] == [{
        "tenant": "search", "key": "", "period": "day", "unit": "USD", "most": 5, "used": 2.5, "left": 2.5,
        "renewed": "2026-11-27T00:00Z", "used_up_on": [],
    }]  # fmt: skip


def test_budgets_are_a_csv_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secrets").mkdir()
    Path(PATH).write_text(json.dumps({"keys": [], "tenants": [{"tenant": "search", "tokens_per_day": 3000}]}))
    budgets, _ = known_budgets(*with_keys(ROW), NOW)
    assert budgets_as_csv(budgets) == (
        "tenant,key,period,unit,most,used,renewed,used_up_on,left\n"
        "search,,day,tokens,3000,7000,2026-11-27T00:00Z,a b,0\n"
    )
    assert budgets_as_csv(()).count("\n") == 1


def test_budgets_that_cannot_be_known_are_a_sentence_and_the_usage_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert known_budgets(*with_keys(ROW), NOW) == ((), ())
    Path("secrets").mkdir()
    Path(PATH).write_text("{")
    (unread,), (in_part,) = known_budgets(*with_keys(ROW), NOW)[1], known_budgets(*with_keys(ROW, hosts="a"), NOW)[1]
    assert unread.startswith(f"budgets are not shown: {PATH} is not a file of keys")
    assert in_part == "budgets are not shown: 1 of 2 hosts were asked; without --limit all are"
    assert known_budgets(*with_keys(ROW, keys=""), NOW) == ((), ())


def test_only_hosts_with_a_gateway_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = planned(
        a=serving("10.0.0.11") | {"gateway": Gateway(keys=None)}, b=serving("10.0.0.12"), edge={"balancer": EDGE}
    )
    commands: list[tuple[str, str]] = []

    def printed(ssh: list[str], since: str) -> str:
        commands.append((ssh[-1], since))
        return answered(ROW)

    monkeypatch.setattr(usage, "printed", printed)
    rows = usage_rows(hosts, {"a": {}, "b": {}}, "2026-11-01")
    assert (commands, [row["requests"] for row in rows["a"] or ()]) == ([("a", "2026-11-01")], [100])


def test_a_price_reaches_the_gateway_and_its_cached_part_costs_the_same_if_nothing_else_is_set() -> None:
    (mine,) = plan(gateway=Gateway(prices={"bge": Price(prompt=0.5, completion=1.5)})).slices
    assert mine.gateway
    price = {"prompt": 0.5, "cached": 0.5, "completion": 1.5, "currency": "USD"}
    assert settings(mine, mine.gateway)["prices"] == {"bge": price}
    assert "usage_days" not in settings(mine, mine.gateway)
    assert settings(mine, replace(mine.gateway, usage_days=0))["usage_days"] == 0


def test_the_header_of_persons_reaches_the_gateway_as_it_reads_it_and_stands_nowhere_else() -> None:
    (mine,) = plan(gateway=Gateway(identity=Identity(header="x-forwarded-email"))).slices
    assert mine.gateway
    read = identity_of(Fields(json.loads(json.dumps(settings(mine, mine.gateway)))["identity"]))
    assert (read.header, read.proxies) == (b"x-forwarded-email", {"127.0.0.1"})
    assert "identity" not in settings(mine, replace(mine.gateway, identity=None))


@pytest.mark.parametrize(
    ("prices", "kind"),
    [
        ({"nobody": Price(prompt=1, completion=1)}, "price-of-nothing"),
        ({"bge": Price(prompt=-1, completion=1)}, "not-a-price"),
        ({"bge": Price(prompt=1, completion=float("nan"))}, "not-a-price"),
        ({"bge": Price(prompt=1, completion=1, currency="dollars")}, "not-a-currency"),
    ],
)
def test_an_invalid_price_is_refused(prices: dict[str, Price], kind: str) -> None:
    assert [refusal.kind for refusal in refusals(gateway=Gateway(prices=prices))] == [kind]
