"""Budgets of tenants and of money in the file of keys: typed, stored, and refused if they could not be enforced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.inventory.gateway_keys import file_in
from deploy.inventory.key_budgets import check_budgets
from deploy.inventory.key_limits import MOST_COST, money, money_text
from deploy.refusals.errors import Refusal
from gateway.keys import Keys
from tests.unit.test_gateway_keys import LINE, key


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "secrets" / "gateway-keys.json"


def test_a_tenant_s_budgets_stand_in_the_file_that_the_gateway_reads_and_outlive_new_keys(file: Path) -> None:
    budgets = "--tokens-per-day 5000 --cost-per-month 12.50 --currency EUR"
    assert key(file, "tenant", "acme", *budgets.split()).exit_code == 0
    made = [key(file, "new", tenant).stdout.strip() for tenant in ("acme", "acme", "umbrella")]
    key(file, "revoke", made[0][:9])
    keys = Keys(str(file))
    keys.refresh()
    shared, none = (keys.holder(f"Bearer {secret}".encode()).tenant_limits for secret in made[1:])
    assert (shared.tokens_per_day, shared.cost_per_month, shared.currency) == (5000, 12_500_000, "EUR")
    assert (none.has_periods, file_in(file.read_text(), "").budgeted_tenants) == (False, {"acme"})
    assert "all keys of acme together: 5,000 tokens/day, 12.5 EUR/month" in key(file, "list").output
    assert key(file, "tenant", "acme").exit_code == 1
    assert key(file, "tenant", "acme", "--none", "--tokens-per-day", "5").exit_code == 1
    assert file_in(file.read_text(), "").budgeted_tenants == {"acme"}
    assert key(file, "tenant", "acme", "--none").exit_code == 0
    assert '"tenants"' not in file.read_text()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["a b", "--tokens-per-day", "5"], "a tenant's name"),
        (["acme", "--cost-per-day", "many"], "--cost-per-day is not an amount of money"),
        (["acme", "--cost-per-day", "0.0000001"], "--cost-per-day is not an amount of money"),
        (["acme", "--cost-per-day", "-0.5"], "--cost-per-day lets nothing through"),
        (["acme", "--cost-per-day", "1000000000001"], "--cost-per-day is more than a gateway counts"),
        (
            ["acme", "--cost-per-day", "2", "--cost-per-month", "1.5"],
            "the budget of a day has more money than that of its month",
        ),
        (["acme", "--cost-per-day", "2", "--currency", "euro"], "no currency of three capital letters"),
    ],
)
def test_a_tenant_s_budget_that_makes_no_sense_is_not_written(file: Path, words: list[str], problem: str) -> None:
    done = key(file, "tenant", *words)
    assert (done.exit_code, problem in done.stderr, file.exists()) == (1, True, False)
    assert "enginehouse key new --help" in done.stderr


@given(micro=st.integers(1, MOST_COST))
def test_money_is_read_as_it_is_shown(micro: int) -> None:
    assert money("--cost-per-day", money_text(micro)) == micro


@pytest.mark.parametrize(
    "tenants",
    [
        {},
        [1],
        [{}],
        [{"tenant": "acme", "concurrent": 1}],
        [{"tenant": "acme", "cost_per_day": 1}],
        [{"tenant": "acme", "cost_per_day": 3, "cost_per_month": 2, "currency": "EUR"}],
        [{"tenant": "acme"}, {"tenant": "acme"}],
    ],
)
def test_tenants_that_are_not_understood_are_not_lost_in_writing(file: Path, tenants: object) -> None:
    text = json.dumps({"keys": [], "tenants": tenants})
    file.parent.mkdir()
    file.write_text(text)
    done = key(file, "new", "acme")
    assert (done.exit_code, file.read_text()) == (1, text)


EURO = {"cost_per_day": 5, "currency": "EUR"}


@pytest.mark.parametrize(
    ("line", "tenant", "kind"),
    [
        ({"tokens_per_month": 5}, {}, "budget-without-usage"),
        ({}, {"tokens_per_month": 5}, "budget-without-usage"),
        ({"tokens_per_day": 5}, {}, ""),
        (EURO, {}, "budget-without-price"),
        ({}, EURO, "budget-without-price"),
        (EURO | {"models": ["llama"]}, {}, ""),
        (EURO | {"models": ["chat"]}, {}, ""),
        (EURO | {"models": ["chat", "bge"]}, {}, "budget-without-price"),
        (EURO | {"models": ["llama"], "currency": "USD"}, {}, "budget-without-price"),
        ({"models": ["llama"]}, EURO, ""),
    ],
)
def test_a_budget_that_the_gateway_could_not_keep_is_refused(
    line: dict[str, object], tenant: dict[str, object], kind: str
) -> None:
    """Usage is kept for a day; llama, of the alias `chat`, has a price in euro, and bge has none."""
    lines = {"keys": [LINE | line], "tenants": [{"tenant": "acme"} | tenant]}
    seen = ""
    try:
        check_budgets(file_in(json.dumps(lines), ""), 1, {"llama": "EUR", "bge": ""}, {"chat": ("llama", "")})
    except Refusal as refusal:
        seen = refusal.kind
    assert seen == kind


def changed(file: Path, made: str) -> tuple[object, str]:
    """The key as the gateway reads it, and its line in the list."""
    keys = Keys(str(file))
    keys.refresh()
    return keys.holder(f"Bearer {made}".encode()), key(file, "list").output


def test_a_key_keeps_its_text_and_every_right_that_is_not_changed(file: Path) -> None:
    made = key(file, "new", "anna", "--models", "llama,bge", "--requests-per-minute", "60").stdout.strip()
    words = ["--cost-per-day", "5", "--currency", "EUR", "--expires", "2098-12-31"]
    assert key(file, "change", made[:9], *words).exit_code == 0
    held, listed = changed(file, made)
    assert (held.limits.cost_per_day, held.limits.currency) == (5_000_000, "EUR")
    assert (held.limits.requests_per_minute, held.limits.concurrent, held.models) == (60, 64, {"llama", "bge"})
    assert "2099-01-01" in listed and "5 EUR/day" in listed
    assert key(file, "change", made[:9], "--cost-per-day", "7").exit_code == 0
    assert (
        key(file, "change", made[:9], "--models", "*", "--expires", "never", "--concurrent", "unlimited").exit_code == 0
    )
    held, listed = changed(file, made)
    assert (held.limits.cost_per_day, held.limits.currency, held.limits.concurrent) == (7_000_000, "EUR", 0)
    assert (held.models, held.expires) == (frozenset(), 0)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "no right of the key is to be changed"),
        (("--expires", "2020-01-01"), "--expires is over"),
        (("--concurrent", "0"), "--concurrent lets nothing through"),
        (("--cost-per-month", "100", "--currency", "USD"), "the key's other budget is in another currency"),
        (("--models", "a b;c"), "this is not a model's name"),
    ],
)
def test_a_change_that_makes_no_sense_is_not_written(file: Path, words: tuple[str, ...], problem: str) -> None:
    made = key(file, "new", "anna", "--cost-per-day", "5", "--currency", "EUR").stdout.strip()
    before = file.read_text()
    done = key(file, "change", made[:9], *words)
    assert (done.exit_code, problem in done.stderr, file.read_text() == before) == (1, True, True), done.stderr


def test_an_unknown_key_is_not_changed(file: Path) -> None:
    key(file, "new", "anna")
    done = key(file, "change", "eh-zzzzzz", "--expires", "90d")
    assert done.exit_code == 1 and "no key begins with eh-zzzzzz" in done.stderr
