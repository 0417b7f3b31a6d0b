"""The gateway's benchmark: one core per process, the ends of held streams, and wheels split into portable parts."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gateway import held
from benchmarks.gateway.cores import WANTED, shares, usable
from benchmarks.gateway.hold import verdict
from benchmarks.gateway.load import Load
from benchmarks.gateway.wheels import chosen, packed


def test_each_process_has_a_core_of_its_own_where_there_are_enough() -> None:
    """Without enough cores, every process may use all of them."""
    cores_of = shares(range(16))
    taken = [core for cores in cores_of.values() for core in cores]
    assert {kind: len(cores) for kind, cores in cores_of.items()} == WANTED
    assert len(taken) == len(set(taken)) == 8
    assert shares([0, 1]) == {}


def test_second_threads_of_a_core_are_taken_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes on one physical core would slow each other."""
    for core, siblings in enumerate(["0-1", "0-1", "2,3", "2,3"]):
        (tmp_path / f"cpu{core}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list").write_text(f"{siblings}\n")
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    assert usable(tmp_path) == [0, 2, 1, 3]


def test_a_load_split_over_processes_has_all_its_streams() -> None:
    """No process is left without a stream."""
    assert [part.streams for part in Load("chat", ("1",), 256, 5.0).split(3)] == [86, 85, 85]
    assert [part.streams for part in Load("chat", ("1",), 1, 5.0).split(3)] == [1]


def ended(**more: Any) -> dict[str, Any]:
    """Returns the client's record of a killed gateway; the signal was sent at 100 s."""
    return {
        "streams": 2,
        "ends": {"broken connection": 2},
        "out_of_order": 0,
        "first_end": 100.1,
        "last_end": 101.0,
    } | more


@pytest.mark.parametrize(
    ("sent", "answer", "passes"),
    [
        (signal.SIGKILL, ended(), True),
        (signal.SIGTERM, ended(ends={"error event": 2}), True),
        (signal.SIGTERM, ended(), False),
        (signal.SIGKILL, ended(ends={"broken connection": 1, "done": 1}), False),
        (signal.SIGKILL, ended(first_end=99.0), False),
        (signal.SIGKILL, ended(out_of_order=1), False),
    ],
)
def test_a_kill_passes_only_if_its_streams_end_as_expected(
    sent: signal.Signals, answer: dict[str, Any], passes: bool
) -> None:
    """A stream may not end before the kill or in another way, and may lose no token until then."""
    assert verdict(sent, answer, killed=100.0, began=40.0)["passes"] is passes


def event(text: str) -> bytes:
    """Returns a token's event."""
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()


@pytest.mark.parametrize(
    ("sent", "end", "code", "in_order"),
    [
        ([event(" w0"), event(" w1"), b"data: [DONE]\n\n"], "done", "", True),
        ([event(" w0"), event(" w1"), b'data: {"error":{"code":"cut"}}\n\n'], "error event", "cut", True),
        ([event(" w0"), event(" w1")], "broken connection", "", True),
        ([event(" w0"), event(" w2"), b"data: [DONE]\n\n"], "done", "", False),
    ],
)
def test_a_held_stream_is_reported_with_its_end(sent: list[bytes], end: str, code: str, in_order: bool) -> None:
    """A stream ends by its end mark, by an event with an error, or by a closed connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.writelines(b"%x\r\n%b\r\n" % (len(part), part) for part in sent)
        writer.close()

    stream = asyncio.run(held_stream(answer))
    assert (stream.end, stream.code, stream.tokens, stream.in_order) == (end, code, 2, in_order)


async def held_stream(answer: Callable[..., Any]) -> held.Held:
    """Returns a stream of a server that gives this answer."""
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        began = asyncio.Barrier(1)
        return await asyncio.wait_for(held.held(port, 2, began), 10)


def test_wheels_are_packed_into_parts_that_can_travel(tmp_path: Path) -> None:
    """Each wheel is in one part, and no part exceeds the limit."""
    wheels = []
    for number, size in enumerate([50, 40, 30, 20, 10]):
        wheels.append(tmp_path / f"{number}.whl")
        wheels[-1].write_bytes(b"x" * size)
    parts = packed(wheels, most=80)
    assert sorted(wheel for part in parts for wheel in part) == wheels
    assert [sum(wheel.stat().st_size for wheel in part) for part in parts] == [80, 70]


def test_chosen_requirements_keep_their_hashes() -> None:
    """Without the hashes pip would refuse the whole list."""
    listed = "a==1 \\\n    --hash=sha256:aa\nb[c]==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    assert chosen(listed, lambda name: name == "b") == "b[c]==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
