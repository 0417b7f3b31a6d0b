"""`enginehouse key`: keys are made, listed and revoked in a file of hashes, which the gateway reads."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.__main__ import main
from deploy.cli.knobs import knobs
from deploy.inventory.gateway_keys import FILE, GatewayKey, expiry, file_in, key_text, rows, text_of
from deploy.io.inventory import load_plan
from deploy.io.key_file import new_key
from deploy.refusals.errors import Refusal
from gateway.keys import Keys

NOW = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
LINE = {"sha256": "0" * 64, "prefix": "eh-aaaaaa", "tenant": "acme", "models": ["*"]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "secrets" / "gateway-keys.json"


def keys_in(text: str, file: str) -> tuple[GatewayKey, ...]:
    return file_in(text, file).keys


def key(file: Path, *words: str) -> Result:
    """`enginehouse key …` with this file."""
    return CliRunner().invoke(main, ["key", *words, "--file", str(file)])


def test_a_new_key_is_shown_once_and_stored_as_a_hash(file: Path) -> None:
    words = "--models llama,bge --tokens-per-minute 1000 --requests-per-minute 60 --concurrent 4 --expires 2099-01-01"
    made = key(file, "new", "acme", *words.split()).stdout.strip()
    keys = Keys(str(file))
    keys.refresh()
    held = keys.holder(f"Bearer {made}".encode())
    assert (held.tenant, held.models, held.prefix) == ("acme", {"llama", "bge"}, made[:9])
    assert (held.limits.requests_per_minute, held.limits.tokens_per_minute, held.limits.concurrent) == (60, 1000, 4)
    assert held.expires == datetime(2099, 1, 2, tzinfo=UTC).timestamp()
    assert made not in file.read_text() + key(file, "list").output


def test_a_key_has_tokens_of_a_day_and_a_month_that_the_gateway_reads(file: Path) -> None:
    made = key(file, "new", "acme", "--tokens-per-day", "5000000000", "--tokens-per-month", "90000000000").stdout
    keys = Keys(str(file))
    keys.refresh()
    limits = keys.holder(f"Bearer {made.strip()}".encode()).limits
    assert (limits.tokens_per_day, limits.tokens_per_month) == (5_000_000_000, 90_000_000_000)
    assert "5,000,000,000 tokens/day, 90,000,000,000 tokens/month" in " ".join(
        rows(keys_in(file.read_text(), ""), NOW)[0]
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--tokens-per-day", "0"], "--tokens-per-day lets nothing through"),
        (["--tokens-per-month", "-1"], "--tokens-per-month lets nothing through"),
        (["--tokens-per-month", str(10**15 + 1)], "--tokens-per-month is more than a gateway counts"),
        (
            ["--tokens-per-day", "11", "--tokens-per-month", "10"],
            "the budget of a day has more tokens than that of its month",
        ),
    ],
)
def test_a_budget_that_makes_no_sense_makes_no_key(file: Path, words: list[str], problem: str) -> None:
    made = key(file, "new", "acme", *words)
    assert (made.exit_code != 0, problem in made.stderr, file.exists()) == (True, True, False)


def test_a_day_above_its_month_in_the_file_is_refused() -> None:
    line = LINE | {"tokens_per_day": 11, "tokens_per_month": 10}
    with pytest.raises(Refusal):
        keys_in(json.dumps({"keys": [line]}), "keys.json")


@pytest.mark.parametrize(
    ("words", "concurrent", "shown"),
    [
        ([], 64, "up to 64 requests at once"),
        (["--concurrent", "3"], 3, "up to 3 requests at once"),
        (["--concurrent", "unlimited"], 0, "any number of requests at once"),
    ],
)
def test_a_new_key_has_a_number_of_requests_at_once_and_says_so(
    file: Path, words: list[str], concurrent: int, shown: str
) -> None:
    made = key(file, "new", "acme", *words)
    (line,) = keys_in(file.read_text(), "")
    assert (line.concurrent, shown in made.stderr) == (concurrent, True)


def test_the_file_is_its_owners_alone_and_nothing_else_is_left_beside_it(file: Path) -> None:
    key(file, "new", "acme")
    key(file, "new", "umbrella")
    assert (file.stat().st_mode & 0o777, os.listdir(file.parent)) == (0o600, [file.name])


def test_a_tenant_has_two_keys_until_one_is_revoked(file: Path) -> None:
    old = key(file, "new", "acme").stdout.strip()
    again = key(file, "new", "acme")
    assert f"enginehouse key revoke {old[:9]}" in again.stderr
    keys = Keys(str(file))
    keys.refresh()
    assert [keys.holder(f"Bearer {secret}".encode()).tenant for secret in (old, again.stdout.strip())] == [
        "acme",
        "acme",
    ]
    assert key(file, "revoke", old[:9]).exit_code == 0
    assert [entry.prefix for entry in keys_in(file.read_text(), "")] == [again.stdout[:9]]


def test_concurrent_key_creation_loses_no_key(file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: new_key(file, f"t{number}", ["*"], "never")[0], range(40)))
    assert {entry.prefix for entry in keys_in(file.read_text(), "")} == {text[:9] for text in made}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": {}}',
        '{"keys": [1]}',
        '{"keys": [], "more": 1}',
        json.dumps({"keys": [LINE | {"rights": "all"}]}),
        json.dumps({"keys": [LINE | {"expires": -1}]}),
        json.dumps({"keys": [LINE | {"concurrent": True}]}),
        json.dumps({"keys": [LINE | {"sha256": "x"}]}),
        json.dumps({"keys": [LINE | {"models": []}]}),
        json.dumps({"keys": [{"prefix": "eh-aaaaaa"}]}),
        json.dumps({"keys": [LINE, LINE]}),
    ],
)
@pytest.mark.parametrize("words", [("new", "acme"), ("revoke", "eh-aaaaaa"), ("list",)])
def test_a_file_that_is_not_understood_is_left_as_it_is(file: Path, text: str, words: tuple[str, ...]) -> None:
    file.parent.mkdir()
    file.write_text(text)
    done = key(file, *words)
    assert (done.exit_code, file.read_text()) == (1, text)
    assert "is not a file of keys" in done.stderr
    assert "the file of keys is as it was" in done.stderr


def test_a_write_that_fails_leaves_the_file_and_shows_no_key(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key(file, "new", "acme")
    before = file.read_text()

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = key(file, "new", "acme")
    assert (done.exit_code, done.stdout, file.read_text(), os.listdir(file.parent)) == (1, "", before, [file.name])
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (["a b"], "a b"),
        (["acme", "--models", "llama,,bge"], "wanted"),
        (["acme", "--models", "*,bge"], "*,bge"),
        (["acme", "--concurrent", "0"], "--concurrent"),
        (["acme", "--concurrent", "many"], "many"),
        (["acme", "--tokens-per-minute", "-5"], "--tokens-per-minute"),
        (["acme", "--expires", "soon"], "soon"),
        (["acme", "--expires", "2020-01-01"], "over"),
    ],
)
def test_rights_that_the_gateway_would_not_take_make_no_key(file: Path, words: list[str], seen: str) -> None:
    done = key(file, "new", *words)
    assert (done.exit_code, done.stdout, file.exists(), seen in done.stderr) == (1, "", False, True)


@pytest.mark.parametrize("prefix", ["eh-zzzzzz", "eh-a", "", "eh-aaaaaabbbbbb"])
def test_an_unknown_or_ambiguous_prefix_revokes_no_key(file: Path, prefix: str) -> None:
    file.parent.mkdir()
    ambiguous = LINE | {"sha256": "1" * 64, "prefix": "eh-ab2222"}
    file.write_text(json.dumps({"keys": [LINE, ambiguous]}))
    done = key(file, "revoke", prefix)
    assert (done.exit_code, len(keys_in(file.read_text(), ""))) == (1, 2)
    assert "bbbbbb" not in done.output


def test_the_list_is_sorted_by_tenant_and_marks_expired_keys() -> None:
    lines = [LINE | {"tenant": "b", "expires": 1, "models": ["m", "n"]}, LINE | {"sha256": "1" * 64, "prefix": "eh-b"}]
    lines[1] |= {"tokens_per_minute": 100000, "concurrent": 2}
    assert rows(keys_in(json.dumps({"keys": lines}), ""), NOW) == [
        ("eh-b", "acme", "*", "never", "100,000 tokens/min, 2 at once"),
        ("eh-aaaaaa", "b", "m,n", "1970-01-01 00:00 (over)", "none"),
    ]


def test_written_keys_are_read_back_unchanged() -> None:
    keys = keys_in(json.dumps({"keys": [LINE | {"created": 5, "concurrent": 2}]}), "")
    assert keys_in(text_of(keys), "") == keys
    assert keys_in(text_of(()), "") == ()


def test_expiry_is_given_as_a_time_or_a_day() -> None:
    """The day itself is included."""
    assert [expiry(word, NOW) - int(NOW.timestamp()) for word in ("12h", "1d", "2w", "2026-11-23")] == [
        43200, 86400, 1209600, 57600,
    ]  # fmt: skip
    with pytest.raises(Refusal):
        expiry("0d", NOW)


def test_no_two_keys_begin_alike() -> None:
    text = key_text(bytes(range(64)))
    assert len(text) == 43
    assert key_text(bytes(range(64)), {text[:9]}) == ""


INVENTORY = """
from deploy.spec import *
WEIGHTS = Weights.hub("meta-llama/Llama-3.1-8B-Instruct", "0" * 40)
MODEL = LLM(name="llama", checkpoint="llama-3.1-8b-instruct", weights=WEIGHTS)
h100 = ["gpu-1"], {
    "ssh_user": "ubuntu", "_sudo": True, "machine": Machine(os="ubuntu-24.04", gpu="h100-80"),
    "servers": (Server(name="main", models=(MODEL,)),), "gateway": Gateway(aliases={"gpt-4o": "llama"}),
}
"""


def test_a_new_key_is_for_models_that_the_inventory_s_gateways_serve(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models are named by name or alias; the refusal offers the nearest name, and no key is made."""
    monkeypatch.chdir(file.parent.parent)
    Path("mine.py").write_text(INVENTORY)
    refused = key(file, "new", "acme", "--models", "llma", "--inventory", "mine.py")
    assert (refused.exit_code, file.exists()) == (1, False)
    assert "no gateway of mine.py serves llma" in refused.output
    assert "did you mean `llama`?" in refused.output
    assert key(file, "new", "acme", "--models", "llama,gpt-4o", "--inventory", "mine.py").exit_code == 0


def test_a_plan_names_keys_for_models_that_no_gateway_serves(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan also notes a file of keys that a deploy would refuse."""
    monkeypatch.chdir(file.parent.parent)
    Path("mine.py").write_text(INVENTORY)
    key(file, "new", "acme", "--models", "llama,gtp-4o")
    (prefix,) = [line.prefix for line in keys_in(file.read_text(), "")]
    assert f"key {prefix} is for gtp-4o, which no gateway of this inventory serves: did you mean `gpt-4o`?" in planned()
    file.write_text("{")
    assert f"{FILE} is not a file of keys (no JSON" in planned()


def planned() -> str:
    """The notes of the plan of the inventory."""
    return "\n".join(load_plan("mine.py", (), (), knobs()).warnings)
