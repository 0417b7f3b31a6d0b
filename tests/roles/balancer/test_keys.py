"""Keys at KServe's ports: their files on the host, their transfer, and the behaviour of this machine's HAProxy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.inventory.gateway_keys import text_of
from roles import balancer
from roles._shipping.places import command
from roles._shipping.texts import HERE
from roles.balancer import keys
from roles.balancer.config import config, everything
from roles.balancer.keys import map_path, maps
from tests.roles.balancer.bench import balancer as host_balancer
from tests.roles.balancer.key_stories import KEYS, key
from tests.roles.balancer.slices import CHAT, a_balancer
from tests.roles.fake import Ran, run

ASKS = a_balancer(keys="file")
CHAT_MAP = map_path("chat")
ENDED = ("CANCELLED", "INTERNAL")
"""gRPC's statuses for a stream reset by HAProxy: INTERNAL for the code NO_ERROR, by the client's progress."""


@pytest.fixture(scope="module")
def story() -> dict[str, Any]:
    """The results of the story `key_stories`."""
    if not shutil.which("haproxy"):
        pytest.skip("no haproxy here: python -m rehearsal requirements --install --tests")
    argv = [sys.executable, "-m", "tests.roles.balancer.key_stories"]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(argv, cwd=HERE, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_both_ports_answer_allowed_keys_and_refuse_in_their_own_protocol(story: dict[str, Any]) -> None:
    refused, elsewhere, answered = [401, "UNAUTHENTICATED"], [403, "PERMISSION_DENIED"], [200, "h1"]
    assert story["found"] == {
        "None": refused,
        "nobody's": refused,
        "everything": answered,
        "both-models": answered,
        "one-model": elsewhere,
        "tokens": elsewhere,
        "over": refused,
        "later": answered,
    }
    assert (story["in KServe's shape"], story["over gRPC"]) == (["error"], "UNAUTHENTICATED: this key is")
    assert story["keys told to Triton"] == 0


def test_a_keys_request_limits_hold_over_both_ports_together(story: dict[str, Any]) -> None:
    assert story["a minute"] == [200, 200, 200, 429, "RESOURCE_EXHAUSTED: this key has"]
    assert story["at once"] == [429, "RESOURCE_EXHAUSTED: this key has"]


def test_a_stream_beyond_its_keys_limits_never_reaches_triton(story: dict[str, Any]) -> None:
    """Three streams were begun by keys with the right. HAProxy 2.6 resets a refused stream without a message."""
    running = story["running"]
    assert {*running["refused"]} <= {*ENDED, "PERMISSION_DENIED"}
    assert running["words"] in ([], [" use ModelInfer, HTTP, or the gateway"])
    assert running["streams at Triton"] == len(running["begun"]) == 3


def test_revoking_a_key_ends_its_requests_and_new_limits_end_its_streams(
    story: dict[str, Any],
) -> None:
    """A stream and an HTTP request of a revoked key end, and a stream of a key with a new limit; others continue."""
    running = story["running"]
    assert running["done"] == [f"keys updated: {Path(CHAT_MAP).name}", "requests ended whose key lost its right: 3"]
    assert {*running["after"]} == {"everything", "both-models", "later-limited"}
    assert running["after"]["both-models"] == "h1"
    assert {running["after"]["everything"], running["after"]["later-limited"]} <= {*ENDED}
    assert (running["cut"], running["goes on"]) == (True, True)


def test_a_revoked_keys_stream_ends_in_a_reloaded_process_too(story: dict[str, Any]) -> None:
    """The stream of another key continues in that process."""
    after = story["reloaded"]
    assert after["done"] == [
        "reloaded: another configuration",
        f"keys updated: {Path(CHAT_MAP).name}",
        "requests ended whose key lost its right: 1",
    ]
    revoked, valid = after["after"]
    assert (after["begun"], after["still"], valid) == (["h1", "h1"], ["h1", "h1"], "h1")
    assert revoked in ENDED


def test_keys_come_and_go_without_a_reload(story: dict[str, Any]) -> None:
    """500 keys are added at once; a second run changes nothing."""
    name = Path(CHAT_MAP).name
    assert (story["differs"], story["done"]) == ([f"changed keys: {name}"], [f"keys updated: {name}"])
    assert (story["revoked"], story["new"], story["other process"]) == (
        [401, "UNAUTHENTICATED"],
        [200, "h1"],
        False,
    )


def test_balancers_share_a_limit_and_only_hashes_are_written() -> None:
    """Three a minute are two for each of two balancers: rounded up, as for gateways."""
    (text,) = maps(replace(ASKS, sharing=2), [key("three-a-minute", requests_per_minute=3, expires=9)])
    assert text.content.splitlines()[1:] == [f"{key('three-a-minute').sha256} 9:2:0:yes"]
    assert "three" not in text.content


LIMIT = st.sampled_from([0, 1, 600])


@given(LIMIT, LIMIT, LIMIT, LIMIT, st.sampled_from([("*",), ("llama",), ("bge", "llama")]))
def test_a_stream_goes_on_only_under_a_key_without_limits_and_an_end(
    requests: int, tokens: int, concurrent: int, expires: int, models: tuple[str, ...]
) -> None:
    """The host's program reads every line of the file as written; a line of no key grants nothing."""
    limits = {"requests_per_minute": requests, "tokens_per_minute": tokens, "concurrent": concurrent}
    (text,) = maps(ASKS, [key("k", models, expires=expires, **limits)])
    rights = text.content.split()[-1]
    may = models != ("llama",) and not tokens
    assert host_balancer.covers(rights, streams=False) == may
    assert host_balancer.covers(rights, streams=True) == (may and not (requests or concurrent or expires))
    assert not host_balancer.covers("", streams=False)


@pytest.mark.parametrize("limit", ["tokens_per_day", "tokens_per_month"])
def test_a_key_with_a_budget_has_no_uncounted_grpc(limit: str) -> None:
    (text,) = maps(ASKS, [replace(key("k"), **{limit: 5})])
    assert text.content.endswith(":no\n")


def test_each_pool_has_its_own_keys() -> None:
    """A key for llama, and two pools: the key covers the whole second pool, which serves only llama."""
    (member,) = CHAT.members[:1]
    alone = replace(CHAT, pool="alone", members=(replace(member, models=("llama",)),))
    both, single = maps(a_balancer(CHAT, alone, keys="file"), [key("k", ("llama",))])
    assert (both.content[-3:], single.content[-4:]) == ("no\n", "yes\n")


def test_no_keys_are_written_if_the_inventory_asks_for_none() -> None:
    assert maps(a_balancer(), KEYS) == []


def test_keys_of_a_removed_pool_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_balancer, "file", lambda: tmp_path / "haproxy.cfg")
    for pool in ("chat", "old"):
        (tmp_path / f"keys-{pool}.map").touch()
    mine = config(ASKS, everything(ASKS))
    assert [path.name for path in host_balancer.spare(mine)] == ["keys-old.map"]


def test_a_run_for_gateways_alone_sends_keys_and_lets_them_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(tmp_path, monkeypatch, text_of(KEYS))
    ran = send()
    written, keys_command = ran.commands
    (wanted,) = maps(ASKS, KEYS)
    assert f"cat > {CHAT_MAP}.enginehouse-new" in written
    assert wanted.content in [heard.stdin for heard in ran.shell["host"]]
    assert keys_command == f"{command('balancer')} keys"


def test_keys_are_there_before_haproxy_reads_that_it_has_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps(tmp_path, monkeypatch, text_of(KEYS))
    names = run(lambda: balancer.apply(ASKS), answers={}).changed
    assert names.index("Balancer | Write the keys") < names.index("Balancer | Write the configuration")


def test_keys_that_are_there_are_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(tmp_path, monkeypatch, text_of(KEYS))
    (wanted,) = maps(ASKS, KEYS)
    assert send(f"{wanted.wanted_fact} {wanted.path}").commands == ()


def test_a_machine_that_keeps_no_keys_leaves_those_of_the_balancer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "KEYS_HERE", tmp_path / "none.json")
    assert send(f"another 600 root {CHAT_MAP}").commands == ()
    (written, *_) = send().commands
    assert written.startswith("mkdir -p /etc/enginehouse/balancer")


def test_a_file_that_is_no_file_of_keys_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(tmp_path, monkeypatch, '{"keys": [{}]}\n')
    ran = send()
    assert ran.failed_hosts
    assert "is not a file of keys" in "".join(ran.log)


def keeps(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """This machine's file of keys."""
    kept = folder / "gateway-keys.json"
    kept.write_text(text)
    monkeypatch.setattr(keys, "KEYS_HERE", kept)
    return kept


def send(*there: str) -> Ran:
    """A run for only the gateways, on a balancer with these maps; a new map means that the process has other keys."""
    seen = [] if there else ["value\tdiffers\tchanged keys: keys-chat.map"]
    return run(lambda: balancer.send_keys(ASKS), answers={"dpkg-query": seen, "%n %a %U": "\n".join(there)})
