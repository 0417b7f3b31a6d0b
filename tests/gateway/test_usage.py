"""Usage: each ended request counts once in spite of killed processes, and no request text is kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.usage import FILE, Counters, Price, Usage, bucket_of, quantile
from tests.gateway.asking import CHAT, KEY, OTHER_KEY, chat, in_loop, key_line, running_gateway
from tests.gateway.asking import settings as settings_of
from tests.gateway.triton import Triton, serving
from tests.gateway.weights import written
from tests.ports import free_ports

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def counting(folder: Path) -> Usage:
    usage = Usage(str(folder))
    usage.days = 30
    return usage


def add(usage: Usage, key: str = "eh-a", day: datetime = NOON, seconds: float = 0.5) -> None:
    usage.add(day.timestamp(), key, "acme", "llama", False, (10, 4, 3), seconds)


def total(folder: Path, name: str = "requests") -> int:
    counters = Counters(folder)
    try:
        counters.count_all()
        return sum(row[name] for row in counters.rows())
    finally:
        counters.close()


@dataclass
class World:
    """Processes of a host that are killed at any moment; the disk keeps what was written."""

    folder: Path
    processes: list[Usage] = field(default_factory=list)
    ended: int = 0

    def ends(self, number: int) -> None:
        add(self.processes[number % len(self.processes)])
        self.ended += 1

    def counts(self, number: int) -> None:
        self.processes[number % len(self.processes)].count(NOON)

    def dies(self, number: int) -> None:
        killed = self.processes[number % len(self.processes)]
        if killed._log:
            killed._log.close()
            killed._log = None
        if killed._counters:
            killed._counters.close()
        self.processes[number % len(self.processes)] = counting(self.folder)

    def dies_while_it_counts(self, number: int) -> None:
        """Writes the counters without ending the transaction."""
        place = number % len(self.processes)
        usage = self.processes[place]
        usage._counters = usage._counters or Counters(self.folder)
        if usage._log:
            usage._counters._file.execute("BEGIN IMMEDIATE")
            usage._counters._add((self.folder / usage._log.name).read_bytes())
        self.dies(number)

    def renews(self, number: int) -> None:
        usage = self.processes[number % len(self.processes)]
        if usage._log:
            usage._log.renew()

    def reports(self, _number: int) -> None:
        assert total(self.folder) == self.ended


@contextmanager
def world(processes: int) -> Iterator[World]:
    folder = Path(tempfile.mkdtemp())
    made = World(folder, [counting(folder) for _ in range(processes)])
    try:
        yield made
    finally:
        for usage in made.processes:
            usage.close()
        shutil.rmtree(folder)


WORDS = ("ends", "ends", "counts", "dies", "dies_while_it_counts", "renews", "reports")


@settings(max_examples=60, deadline=None)
@given(processes=st.integers(1, 3), steps=st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 2)), max_size=30))
def test_killed_processes_count_every_ended_request_once(processes: int, steps: list[tuple[str, int]]) -> None:
    with world(processes) as made:
        for word, number in steps:
            getattr(made, word)(number)
        assert total(made.folder) == made.ended
        assert total(made.folder, "completion_tokens") == 3 * made.ended


def test_a_dead_process_leaves_no_log_behind(tmp_path: Path) -> None:
    with world(1) as made:
        made.ends(0)
        made.dies(0)
        assert total(made.folder) == 1
        assert [path.name for path in made.folder.glob("*.log")] == []
        assert Counters(made.folder)._file.execute("SELECT * FROM logs").fetchall() == []


def test_a_line_that_power_cut_in_two_costs_no_other_line(tmp_path: Path) -> None:
    usage = counting(tmp_path)
    add(usage)
    assert usage._log
    with (tmp_path / usage._log.name).open("ab") as log:
        log.write(b'\0\0\0["2026-11\n')
    add(usage)
    assert total(tmp_path) == 2
    usage.close()


def test_a_key_sees_nothing_of_another_tenants_key_with_its_prefix(tmp_path: Path) -> None:
    """A file of keys that a person edited may have two keys with one prefix."""
    usage = Usage(str(tmp_path))
    usage.days = 9
    for tenant, tokens in (("acme", 3), ("umbrella", 4)):
        usage.add(1e9, "eh-test", tenant, "llama", False, (tokens, 0, 0), 1.0)
    usage.count(datetime.fromtimestamp(1e9, UTC))
    assert [row["prompt_tokens"] for row in usage.of_key("eh-test", "acme", "2001-01-01")] == [3]
    usage.close()


def test_counters_of_expired_days_are_deleted(tmp_path: Path) -> None:
    usage = counting(tmp_path)
    add(usage, day=datetime(2026, 10, 26, tzinfo=UTC))
    add(usage, day=datetime(2026, 10, 27, tzinfo=UTC))
    usage.count(NOON)
    counters = Counters(tmp_path)
    assert [row["day"] for row in counters.rows()] == ["2026-10-27"]
    counters.close()
    usage.close()


def test_prices_are_per_million_tokens_and_separate_for_cached_ones() -> None:
    price = Price(prompt=0.5, cached=0.1, completion=1.5, currency="USD")
    assert price.cost(1_000_000, 200_000, 100_000) == 570_000_000_000  # 0.8 · 0.5 + 0.2 · 0.1 + 0.1 · 1.5 = 0.57


@given(seconds=st.lists(st.floats(0.001, 900), min_size=1, max_size=200), share=st.sampled_from([0.5, 0.99]))
def test_a_quantile_is_right_within_nine_percent(seconds: list[float], share: float) -> None:
    times: dict[int, int] = {}
    for value in seconds:
        times[bucket_of(value)] = times.get(bucket_of(value), 0) + 1
    exact = sorted(seconds)[-(-len(seconds) * int(share * 100) // 100) - 1]
    assert quantile(times, share) == pytest.approx(exact, rel=0.1)


@in_loop
async def test_requests_are_counted_by_key_without_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    price = {"prompt": 1.0, "cached": 1.0, "completion": 1.0, "currency": "EUR"}
    async with running_gateway(tmp_path, usage_days=30, prices={"llama": price}) as front:
        answer = await front.chat("tulips and violets")
        await front.chat("tulips", stream=True)
        await front.chat("tulips", max_tokens=-1)
        await front.ask("/v2/rerank", {"model": "bge", "query": "violets", "documents": ["tulips"]}, key=OTHER_KEY)
        await front.ask(CHAT, chat("tulips"), key="eh-nobody")
        await front.ask("/v1/models")
        await asyncio.to_thread(front.gateway.usage.count, datetime.now(UTC))
        page = (await front.ask("/")).body.decode()
    usage = answer.json()["usage"]
    counters = Counters(state)
    rows = {(row["key"], row["tenant"], row["model"]): row for row in counters.rows()}
    counters.close()
    assert set(rows) == {(KEY[:7], "acme", "llama"), (OTHER_KEY[:7], "umbrella", "bge")}
    counted = rows[KEY[:7], "acme", "llama"]
    assert (counted["requests"], counted["errors"], counted["currency"]) == (3, 1, "EUR")
    assert counted["completion_tokens"] == 2 * usage["completion_tokens"]
    assert counted["cost"] == (counted["prompt_tokens"] + counted["completion_tokens"]) * 10**6
    assert sum(counted["times"].values()) == 3
    assert "requests this month (UTC)" in page and "1 errors" in page and "EUR" in page
    kept = b"".join(path.read_bytes() for path in state.iterdir())
    assert b"tulips" not in kept and b"violets" not in kept and KEY.encode() not in kept


@in_loop
async def test_a_gateway_without_a_folder_answers_without_counting(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, usage_days=30) as front:
        front.gateway.usage.folder = str(tmp_path / "gone")
        assert (await front.chat()).status == 200
    assert not (tmp_path / "gone").exists()


def test_usage_run_by_root_leaves_only_files_of_the_folders_owner(tmp_path: Path) -> None:
    """`python -m gateway usage` runs in the host's own Python and prints JSON."""
    usage = counting(tmp_path)
    add(usage)
    files = Path(__file__).parents[2] / "files"
    words = [sys.executable, "-s", "-m", "gateway", "usage", str(tmp_path), "2026-11-26"]
    done = subprocess.run(words, cwd=files, capture_output=True, text=True, check=False)
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["requests"], row["times"]) == (1, {"0.469506": 1})
    assert {path.stat().st_uid for path in tmp_path.iterdir()} == {os.stat(tmp_path).st_uid}
    assert (tmp_path / FILE).exists()
    usage.close()


async def whole_answer(port: int) -> bool:
    """Returns True if the gateway answered a chat to its end."""
    body = json.dumps(chat()).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.read()
        finally:
            writer.close()
        return answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"}")
    return False


@in_loop
async def test_gateways_killed_under_load_lose_only_running_requests(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is missing: make .venv/.ready-test")
    state, keys, clients, kills, answered = tmp_path / "state", tmp_path / "keys.json", 4, 3, 0
    state.mkdir()
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme")]}))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "files"), "STATE_DIRECTORY": str(state)}
    async with serving(Triton()) as triton:
        (port,) = free_ports(1)
        gateway_settings = settings_of([triton.address], written(tmp_path / "weights"), keys, listen={"ports": [port]})
        (tmp_path / "settings.json").write_text(json.dumps(gateway_settings | {"usage_days": 30}))
        words = [sys.executable, "-m", "gateway", "serve", str(tmp_path / "settings.json")]

        async def client(until: int) -> None:
            nonlocal answered
            while answered < until:
                is_whole = await whole_answer(port)  # first: other clients count meanwhile
                answered += is_whole
                await asyncio.sleep(0 if is_whole else 0.02)

        for _ in range(kills):
            process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.DEVNULL)
            working = asyncio.gather(*(client(answered + 25) for _ in range(clients)))
            await working_to(lambda goal=answered + 20: answered >= goal)
            process.kill()
            await process.wait()
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
    assert answered >= 60
    assert answered - kills * clients <= total(state) <= answered + kills * clients
    assert total(state) == total(state)


async def working_to(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)
