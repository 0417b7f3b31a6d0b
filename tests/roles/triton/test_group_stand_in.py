"""Ranks of the rehearsal's vLLM: the answer is right only with all ranks in order."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGES = Path(__file__).parents[3] / "rehearsal/runtimes/packages"


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the stand-in, as its container imports it."""
    monkeypatch.syspath_prepend(str(PACKAGES))
    import llm_stand_in.ranks

    yield llm_stand_in.ranks
    for name in [name for name in sys.modules if name.startswith("llm_stand_in")]:
        del sys.modules[name]


def exchanged(ranks: Any, parts: list[tuple[int, int, int]]) -> bool:
    """The leader's verdict on a token that went through these (first, last, world) parts, the leader's first."""
    leader = ranks.Ranks(*parts[0])
    for part in parts[1:]:
        here, there = socket.socketpair()
        leader.hosts.append(here)
        follower = ranks.Ranks(*part, [there])
        threading.Thread(target=follower_answers, args=(ranks, follower), daemon=True).start()
    try:
        return bool(leader.exchange(5))
    finally:
        for connection in leader.hosts:
            connection.close()


def follower_answers(ranks: Any, follower: Any) -> None:
    """Answers the leader once, as the follower."""
    (leader,) = follower.hosts
    with leader:
        leader.sendall(f"{follower.through(int(ranks.line(leader)))}\n".encode())


def test_all_ranks_in_their_order_give_the_right_answer(ranks: Any) -> None:
    assert exchanged(ranks, [(0, 1, 4), (2, 3, 4)])
    assert exchanged(ranks, [(0, 0, 3), (1, 1, 3), (2, 2, 3)])


@pytest.mark.parametrize(
    "parts",
    [[(0, 1, 4)], [(0, 1, 4), (2, 2, 4)], [(2, 3, 4), (0, 1, 4)], [(0, 1, 4), (0, 1, 4)], [(0, 0, 2), (1, 1, 3)]],
    ids=["a host is missing", "a rank is missing", "the order is another", "a rank is there twice", "another world"],
)
def test_ranks_that_are_missing_doubled_or_out_of_order_change_the_answer(
    ranks: Any, parts: list[tuple[int, int, int]]
) -> None:
    assert not exchanged(ranks, parts)


class World:
    """A world of MPI in which the other ranks, each with its number, have passed on the data of rank 0."""

    def __init__(self, ranks: Any, numbers: list[int]) -> None:
        self.ranks, self.numbers, self.state = ranks, numbers, 0

    def Get_size(self) -> int:
        """The ranks that mpirun started."""
        return len(self.numbers) + 1

    def send(self, state: int, dest: int) -> None:
        """Rank 0 hands its state on."""
        for number in self.numbers:
            state = self.ranks.after(state, number, self.Get_size())
        self.state = state

    def recv(self, source: int) -> int:
        """The state of the last rank."""
        return self.state


@pytest.mark.parametrize(
    ("numbers", "is_right"), [([1, 2, 3], True), ([1, 2], False), ([1, 3, 2], False), ([1, 1, 3], False)]
)
def test_ranks_of_open_mpi_answer_right_in_their_number_and_order_alone(
    ranks: Any, numbers: list[int], is_right: bool
) -> None:
    import llm_stand_in.launcher as launcher

    key = "a key"
    with launcher.listening() as listener:
        serves = threading.Thread(
            target=hands_around, args=(launcher, listener, key, World(ranks, numbers)), daemon=True
        )
        serves.start()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        launched = ranks.Launched(address, key, 4)
        assert launched.exchange(5) is is_right
        launched.launcher.close()
        serves.join(10)


def hands_around(launcher: Any, listener: socket.socket, key: str, world: World) -> None:
    """Answers one connection to its end."""
    with contextlib.suppress(OSError):
        launcher.answer(listener.accept()[0], key, world)
