"""Facts about engines of all hosts of a run, asked once a phase, and again on a host after a change.

An engine that one host has is not built by another, so a step on one host needs the answers of the others. pyinfra
prepares hosts in parallel: the first one asks all hosts, the others wait for it and read.
"""

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import gevent
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool
from pyinfra import host, state
from pyinfra.api import State
from pyinfra.context import ctx_host

from deploy.slices.host import EngineSlice, Slice
from roles._pyinfra import fact_batch
from roles._pyinfra.steps import ask
from roles.engines.facts import Having, Present
from roles.engines.intent import Intent, intend, order_of
from roles.engines.keep import Kept

AT_ONCE = 32


class Board:
    """A run's answers, cached as in `CachedFact`: fresh in each phase, asked again after `forget`."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        self.slices = slices
        self.promised: dict[str, str] = {}
        """Host that builds in this run, by fingerprint."""
        self._answers: dict[str, Present] = {}
        self._was_executing: dict[str, bool] = {}
        self._kept: dict[str, bool] = {}
        self._lock = BoundedSemaphore()

    def now(self) -> Mapping[str, Present]:
        """The answer of every host with planned engines that has not failed, by its name."""
        here = {peer.name for peer in state.active_hosts}
        wanted = [planned for planned in self.slices if planned.engines and planned.host in here]
        with self._lock:
            missing = [
                planned for planned in wanted if self._was_executing.get(planned.host) != bool(state.is_executing)
            ]
            pool = Pool(AT_ONCE)
            gevent.joinall([pool.spawn(self._ask, planned) for planned in missing], raise_error=True)
        return {planned.host: self._answers[planned.host] for planned in wanted}

    def forget(self, name: str) -> None:
        """Drops the answers of this host and the stores, so that the next use asks again."""
        self._was_executing.pop(name, None)
        self._kept.clear()

    def intent(self, engine: EngineSlice, kept: Kept) -> Intent:
        """The current intent for one engine."""
        facts = self.now()
        order = order_of(engine.fingerprint, self.slices)
        has_it = any(name in facts and facts[name].kind(engine.path) == "signed" for name in order)
        return intend(engine, order, facts, not has_it and self._is_kept(engine, kept))

    def _is_kept(self, engine: EngineSlice, kept: Kept) -> bool:
        if engine.fingerprint not in self._kept:
            self._kept[engine.fingerprint] = kept.has(engine)
        return self._kept[engine.fingerprint]

    def _ask(self, planned: Slice) -> None:
        planned_host = state.inventory.get_host(planned.host)
        with ctx_host.use(planned_host):
            self._answers[planned.host] = ask(planned_host, Having, **about(planned)) or Present()
        self._was_executing[planned.host] = bool(state.is_executing)


class Asking:
    """The fleet's board of cached engines, in the form of a host's `CachedFact`."""

    def __init__(self, board: Board) -> None:
        self.board, self.name = board, host.name
        for planned in board.slices:
            if planned.host == host.name:
                fact_batch.note(Having, **about(planned))

    def now(self) -> Present:
        return self.board.now().get(self.name, Present())

    def forget(self) -> None:
        self.board.forget(self.name)


def about(planned: Slice) -> dict[str, tuple[str, ...]]:
    """Arguments of the fact `Having` for a host."""
    models = dict.fromkeys(engine.model for engine in planned.engines)
    return {"paths": tuple(engine.path for engine in planned.engines), "models": tuple(models)}


def board(slices: tuple[Slice, ...]) -> Board:
    """The board of this run: which host has which engine."""
    if host.state not in _boards:
        _boards[host.state] = Board(slices)
    return _boards[host.state]


_boards: WeakKeyDictionary[State, Board] = WeakKeyDictionary()
