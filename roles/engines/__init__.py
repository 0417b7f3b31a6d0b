"""Brings every compiled engine to its hosts: built once in the fleet, judged, signed, and copied to the others.

A build takes an hour of a GPU, so it happens on one host per fingerprint, in a unit that outlives this run
(files/host/build). The control machine judges the engine's answers, signs it, and copies it to the hosts that need it.
Each step acts on all engines of all hosts before the next begins; a finished fleet needs one fact per host.
"""

from collections.abc import Callable, Iterable, Iterator
from shlex import quote

from pyinfra import host
from pyinfra import state as run_state
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.slices.host import EngineSlice, Slice
from roles._pyinfra import undo
from roles._pyinfra.settings import overridden
from roles._pyinfra.steps import Refuse, step
from roles.engines import ledger
from roles.engines.building import build as build_commands
from roles.engines.carrying import Collect, Fetch, cannot_check, left_by_builder
from roles.engines.defaults import Defaults
from roles.engines.facts import Present
from roles.engines.fleet import Asking, Board, board
from roles.engines.intent import Intent, builders, order_of
from roles.engines.keep import Kept
from roles.engines.programs import texts
from roles.engines.recording import Record
from roles.engines.signing import Sign, replay_missing
from roles.engines.trust import unusable

__all__ = ["apply", "build", "builders"]

Decide = Callable[[Present], Iterator[PyinfraCommand]]


def apply(mine: Slice, slices: Iterable[Slice]) -> None:
    """Brings every engine of the host to it, signed and complete. `slices` are those of all hosts of the run."""
    if mine.engines:
        work = _Work(mine, tuple(slices))
        work.made()
        work.brought()
        work.recorded()


def build(mine: Slice, slices: Iterable[Slice]) -> None:
    """Builds, signs and records this host's engines for other hosts; fetches nothing to serve."""
    if mine.engines:
        work = _Work(mine, tuple(slices), keeps_all=True)
        work.made()
        work.recorded()


class _Work:
    """The steps of one host, in pyinfra's order."""

    def __init__(self, mine: Slice, slices: tuple[Slice, ...], keeps_all: bool = False) -> None:
        assert mine.engine_trust, "an engine nobody signs passed the checks"
        self.mine, self.slices, self.trust = mine, slices, mine.engine_trust
        self.keeps_all = keeps_all or mine.farm
        self.name = host.name
        self.settings = overridden(host, "engines", Defaults())
        self.kept = Kept(mine.engine_store, self.trust)
        self.board: Board = board(slices)
        self.asking = Asking(self.board)

    def made(self) -> None:
        """Installs the programs; builds, judges and signs engines that no host has, and puts them into the store."""
        wanted = texts(self.trust)
        undo.put_texts("engines", wanted, name="Engines | Install programs and signers")
        step(self.asking, self._for_each_engine(self._build), name=f"Engines | Build {self._names()}")
        step(self.asking, self._for_each_engine(self._sign), name=f"Engines | Judge and sign {self._names()}")
        step(self.asking, self._for_each_engine(self._collect), name=f"Engines | Collect {self._names()}")

    def brought(self) -> None:
        step(self.asking, self._for_each_engine(self._fetch), name=f"Engines | Fetch {self._names()}")

    def recorded(self) -> None:
        step(self.asking, self._for_each_engine(self._record), name=f"Engines | Record {self._names()}")

    def _for_each_engine(self, decide: Callable[[EngineSlice, Intent], Iterator[PyinfraCommand]]) -> Decide:
        def all_of_them(_: Present) -> Iterator[PyinfraCommand]:
            for engine in self.mine.engines:
                yield from decide(engine, self.board.intent(engine, self.kept))

        return all_of_them

    def _build(self, engine: EngineSlice, intent: Intent) -> Iterator[PyinfraCommand]:
        facts = self.asking.now().engines.get(engine.path)
        if run_state.is_executing and facts and not facts.is_checked:
            yield Refuse(cannot_check(engine, facts.problem))
            return
        if run_state.is_executing and intent.is_new():
            self.board.promised[engine.fingerprint] = intent.source
        if not intent.builds(self.name):
            return
        if engine.lacks_replay:
            yield Refuse(replay_missing(engine))
            return
        if problem := unusable(self.trust):
            yield Refuse(problem)
            return
        if self.asking.now().kind(engine.path) == "broken":
            path, refused = quote(engine.path), quote(f"{engine.path}.refused")
            yield StringCommand(f"rm -rf {refused} && mv -T {path} {refused}")
        yield from build_commands(engine, self.mine, self.asking.now(), self.settings)

    def _sign(self, engine: EngineSlice, intent: Intent) -> Iterator[PyinfraCommand]:
        if intent.signs(self.name) and self._is_ready(engine):
            yield Sign(engine, self.trust)

    def _collect(self, engine: EngineSlice, intent: Intent) -> Iterator[PyinfraCommand]:
        if intent.source != self.name or not self._is_ready(engine, "signed"):
            return
        if self._is_wanted_elsewhere(engine, intent) and not self._is_put_away(engine):
            yield Collect(engine, self.kept, self.settings)

    def _fetch(self, engine: EngineSlice, intent: Intent) -> Iterator[PyinfraCommand]:
        if not intent.fetches(self.name):
            if run_state.is_executing and intent.source == self.name and not self._is_ready(engine, "signed"):
                yield Refuse(left_by_builder(engine, self.board.promised.get(engine.fingerprint, "")))
            return
        if run_state.is_executing and intent.source and intent.kinds.get(intent.source) != "signed":
            yield Refuse(left_by_builder(engine, self.board.promised.get(engine.fingerprint, intent.source)))
            return
        yield Fetch(engine, self.kept, self.settings)

    def _record(self, engine: EngineSlice, intent: Intent) -> Iterator[PyinfraCommand]:
        first = order_of(engine.fingerprint, self.slices)[0]
        if first == self.name and not ledger.is_recorded(engine, self.settings.ledger):
            yield Record(engine, self.settings.ledger)

    def _is_ready(self, engine: EngineSlice, kind: str = "unsigned") -> bool:
        """True if the engine exists; while the run is prepared, earlier steps count as done."""
        return not run_state.is_executing or self.asking.now().kind(engine.path) == kind

    def _is_wanted_elsewhere(self, engine: EngineSlice, intent: Intent) -> bool:
        others = any(intent.fetches(name) for name in intent.kinds)
        return others or self.keeps_all or self.mine.engine_store is not None

    def _is_put_away(self, engine: EngineSlice) -> bool:
        return self.kept.is_stored(engine) if self.mine.engine_store else self.kept.is_cached(engine)

    def _names(self) -> str:
        return ", ".join(f"{engine.model} {engine.fingerprint[:8]}" for engine in self.mine.engines)
