"""Budgets of keys and tenants for clients: refusals, waits, headers, and persons that a proxy names."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.fields import FieldError, Fields
from gateway.identity import identity_of
from gateway.keys import keys_of
from gateway.usage import Counters
from tests.gateway.asking import CHAT, KEY, OTHER_KEY, RunningGateway, chat, in_loop, key_line, running_gateway

LATE = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
"""A second before the end of a day and a month; code that reads another clock is already in the next ones."""


async def limited(front: RunningGateway, limit: str, tenant: bool = False) -> None:
    """Gives `KEY` or its tenant a budget of one token, or of a millionth of a euro."""
    limits = {limit: 1} | ({"currency": "EUR"} if limit.startswith("cost") else {})
    own, shared = ({}, [{"tenant": "acme", **limits}]) if tenant else (limits, [])
    keys = [key_line(KEY, "acme", **own), key_line(OTHER_KEY, "umbrella")]
    front.keys_file.write_text(json.dumps({"keys": keys, "tenants": shared}))
    await front.gateway.refresh()


@pytest.mark.parametrize("tenant", [False, True], ids=["key", "tenant"])
@pytest.mark.parametrize("limit", ["tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month"])
@in_loop
async def test_a_used_budget_is_refused_as_openai_does_and_survives_a_restart(
    limit: str, tenant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, at = tmp_path / "state", LATE - timedelta(hours=12)
    state.mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    monkeypatch.setattr("gateway.clock.now", lambda: at)
    refused, price = [], {"prompt": 1.0, "cached": 1.0, "completion": 1.0, "currency": "EUR"}
    for expected in (200, 429):
        async with running_gateway(tmp_path, usage_days=31, prices={"llama": price}) as front:
            await limited(front, limit, tenant)
            assert (await front.chat()).status == expected
            refused.append(await front.chat())
            reached = len(front.triton.requests)
            assert (await front.ask("/v1/models")).status == 200
            assert (await front.ask(CHAT, chat(), key=OTHER_KEY)).status == 200
    assert reached == 0
    has = "the tenant of this key has" if tenant else "this key has"
    budget = "1 tokens" if limit.startswith("tokens") else "0.000001 EUR"
    for answer in refused:
        shape = {name: answer.error[name] for name in ("type", "param", "code")}
        assert shape == {"type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
        assert (answer.status, answer.headers["x-should-retry"]) == (429, "false")
        assert "retry-after" not in answer.headers
        assert f"{has} {budget} a {limit.rpartition('_')[2]}, and used " in answer.error["message"]
        assert answer.error["message"].endswith("ends at 2026-12-01 00:00 UTC")


@in_loop
async def test_a_budget_that_renews_within_a_minute_is_refused_with_retry_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.clock.now", lambda: LATE)
    async with running_gateway(tmp_path, usage_days=31) as front:
        await limited(front, "tokens_per_day")
        assert (await front.chat()).status == 200
        refused = await front.chat()
        monkeypatch.setattr("gateway.clock.now", lambda: LATE + timedelta(seconds=1))
        again = await front.chat()
    assert (refused.status, refused.headers["retry-after"], again.status) == (429, "1", 200)
    assert "x-should-retry" not in refused.headers


@in_loop
async def test_answers_tell_the_tightest_budget_of_tokens_of_key_and_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.clock.now", lambda: LATE)
    async with running_gateway(tmp_path, usage_days=31) as front:
        keys = [key_line(KEY, "acme", tokens_per_day=1000), key_line(OTHER_KEY, "acme")]
        tenant = {"tenant": "acme", "tokens_per_day": 1010, "tokens_per_month": 5000}
        front.keys_file.write_text(json.dumps({"keys": keys, "tenants": [tenant]}))
        await front.gateway.refresh()
        used = (await front.ask(CHAT, chat(), key=OTHER_KEY)).json()["usage"]["total_tokens"]
        answer = await front.chat()
    assert used > 10
    limits = {name[12:]: value for name, value in answer.headers.items() if name.startswith("x-ratelimit-")}
    assert limits == {
        "limit-tokens-day": "1010", "remaining-tokens-day": str(1010 - used), "reset-tokens-day": "1s",
        "limit-tokens-month": "5000", "remaining-tokens-month": str(5000 - used), "reset-tokens-month": "1s",
    }  # fmt: skip


@pytest.mark.parametrize(
    "tenants",
    [
        [{"tenant": "acme"}, {"tenant": "acme"}],
        [{"tenant": "acme", "requests_per_minute": 3}],
        [{"tenant": "acme", "cost_per_day": 5}],
        [{"tenant": "acme", "tokens_per_day": 5, "currency": "EUR"}],
        [{"tenant": "acme", "cost_per_day": 5, "currency": "euro"}],
        {"acme": {}},
    ],
)
def test_a_tenant_s_line_that_is_not_understood_grants_no_key(tenants: object) -> None:
    with pytest.raises(FieldError):
        keys_of({"keys": [key_line(KEY, "acme")], "tenants": tenants})


IDENTITY = {"header": "x-forwarded-email", "proxies": ["127.0.0.1"]}


@pytest.mark.parametrize(
    ("client", "sent", "holder"),
    [
        ("127.0.0.1", ["ann@example.com"], f"{KEY[:7]}/ann@example.com"),
        ("127.0.0.1", [], KEY[:7]),
        ("10.0.0.9", ["ann@example.com"], KEY[:7]),
        ("10.0.0.9", ["ann@example.com", "bob"], KEY[:7]),
    ],
)
@in_loop
async def test_usage_counts_the_person_that_a_declared_proxy_names_and_no_other(
    client: str, sent: list[str], holder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other clients can forge the header; a budget of the key counts all its persons."""
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    monkeypatch.setattr("gateway.clock.now", lambda: LATE - timedelta(hours=12))
    async with running_gateway(tmp_path, usage_days=31, identity=IDENTITY) as front:
        await limited(front, "tokens_per_day")
        statuses = []
        for _ in range(2):
            talk = front.opened(CHAT, chat())
            talk.scope["client"] = (client, 4242)
            talk.scope["headers"] += [(b"x-forwarded-email", name.encode()) for name in sent]
            statuses.append((await talk.run()).status)
    counters = Counters(state)
    rows: Counter[str] = Counter()
    for row in counters.rows():
        rows[row["key"]] += row["requests"]
    own = list(counters.rows("", KEY[:7]))
    counters.close()
    assert (statuses, rows, len(own) > 0) == ([200, 429], {holder: 2}, True)


@pytest.mark.parametrize("sent", [["ann", "bob"], ["ann bob"], ["x" * 129], ["\xe4nn"]])
@in_loop
async def test_a_proxy_s_header_that_is_no_single_name_is_refused(sent: list[str], tmp_path: Path) -> None:
    """If a proxy appended its header to the client's header, the client could name any person."""
    async with running_gateway(tmp_path, identity=IDENTITY) as front:
        talk = front.opened(CHAT, chat())
        talk.scope["client"] = ("127.0.0.1", 4242)
        talk.scope["headers"] += [(b"x-forwarded-email", name.encode("latin-1")) for name in sent]
        answer = await talk.run()
        reached = len(front.triton.requests)
    assert (answer.status, reached) == (400, 0)
    assert not any(name in answer.error["message"] for name in sent)


@pytest.mark.parametrize(
    "change", [{"header": "X-Email"}, {"proxies": ["proxy.example"]}, {"proxies": []}, {"more": 1}]
)
def test_an_identity_that_is_not_understood_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FieldError):
        identity_of(Fields(IDENTITY | change))
