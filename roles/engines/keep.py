"""Stores of signed engines outside the hosts: the control machine's cache, and the inventory's store.

A directory of either is named `EngineSlice.name`. The signature is written last, so a directory without one does not
count. Every copy from elsewhere is verified by its signature to its last byte before a host gets it.
"""

import shutil
from pathlib import Path

from gevent import subprocess

from deploy.io.local_paths import local_path
from deploy.refusals import Refusal
from deploy.slices.host import EngineSlice
from deploy.spec import EngineStore, EngineTrust
from roles._pyinfra.turns import turn
from roles.engines.trust import is_believed, problem_of

CACHE = Path("~/.cache/enginehouse/engines")
SIGNATURE = "engine.json.sig"
RSYNC = ["rsync", "--recursive", "--times", "--checksum", "--mkpath", "--partial-dir=.rsync-partial"]
RCLONE = ["rclone", "copy", "--checksum"]
"""Arguments that make rclone compare content: a power cut at either end leaves files of the right size and time with
wrong bytes, and every machine would refuse a store with such a file for ever."""
STATE = "nothing was sent to a host; running servers are not affected"


class Kept:
    """The cache and the store that one host's inventory declares."""

    def __init__(self, store: EngineStore | None, trust: EngineTrust) -> None:
        self.store, self.trust = store, trust

    def cached(self, engine: EngineSlice) -> Path:
        return CACHE.expanduser() / engine.name

    def has(self, engine: EngineSlice) -> bool:
        return self.is_cached(engine) or self.is_stored(engine)

    def is_cached(self, engine: EngineSlice) -> bool:
        """True if the control machine has the engine, signed with a key of this inventory.

        All inventories of a user share the cache; an engine signed with another inventory's key does not count, and is
        replaced.
        """
        return is_believed(self.cached(engine), self.trust)

    def is_stored(self, engine: EngineSlice) -> bool:
        """True if the store has the engine, signed; False without a store."""
        if self.store is None:
            return False
        place = f"{self.store.place.rstrip('/')}/{engine.name}/{SIGNATURE}"
        if self.store.kind == "directory":
            return local_path(place).is_file()
        ask = ["rsync", "--list-only", place] if self.store.kind == "rsync" else ["rclone", "lsf", place]
        done = _run(ask)
        return done.returncode == 0 and bool(done.stdout.strip())

    def brought(self, engine: EngineSlice) -> Path:
        """The engine's verified directory in the cache, fetched from the store if necessary. Refuses a wrong copy."""
        target = self.cached(engine)
        with turn(target):
            if not self.is_cached(engine):
                staging = self.staging(engine)
                self._copy(f"{self._place(engine)}/", f"{staging}/")
                self.publish(engine)
        return target

    def staging(self, engine: EngineSlice) -> Path:
        """The directory in which a copy arrives; an interrupted copy stays there and is resumed."""
        place = self.cached(engine).with_name(f".{engine.name}.partial")
        place.mkdir(parents=True, exist_ok=True)
        return place

    def publish(self, engine: EngineSlice) -> None:
        """Moves the received copy into the cache.

        Raises: a Refusal if the copy does not match its signature; the copy is then deleted.
        """
        staging = self.staging(engine)
        shutil.rmtree(staging / ".rsync-partial", ignore_errors=True)
        if problem := problem_of(staging, self.trust):
            shutil.rmtree(staging)
            raise self._not_as_signed(engine, problem)
        self._forget(engine)
        staging.rename(self.cached(engine))

    def check_again(self, engine: EngineSlice) -> None:
        """Removes and refuses a cached copy that no longer matches its signature; the next run gets another one."""
        if problem := problem_of(self.cached(engine), self.trust):
            self._forget(engine)
            raise self._not_as_signed(engine, f"{problem}; it is removed")

    def _forget(self, engine: EngineSlice) -> None:
        """Removes the signature first, so that the rest of an interrupted removal is not trusted."""
        (self.cached(engine) / SIGNATURE).unlink(missing_ok=True)
        shutil.rmtree(self.cached(engine), ignore_errors=True)

    def put_away(self, engine: EngineSlice) -> None:
        """Copies the cached engine into the store."""
        if self.store is None or self.is_stored(engine):
            return
        source = self.cached(engine)
        self._copy(f"{source}/", f"{self._place(engine)}/", but=SIGNATURE)
        self._copy(f"{source}/", f"{self._place(engine)}/")

    def _place(self, engine: EngineSlice) -> str:
        assert self.store, "asked for the store of an inventory without one"
        place = str(local_path(self.store.place)) if self.store.kind == "directory" else self.store.place
        return f"{place.rstrip('/')}/{engine.name}"

    def _copy(self, source: str, target: str, but: str = "") -> None:
        assert self.store
        without = [f"--exclude={but}"] if but else []
        if self.store.kind == "directory":
            Path(target).mkdir(parents=True, exist_ok=True)
        program = RCLONE if self.store.kind == "rclone" else RSYNC
        done = _run([*program, *without, source, target])
        if done.returncode:
            raise self._store_refused(source, target, done.stderr)

    def _store_refused(self, source: str, target: str, output: str) -> Refusal:
        return Refusal(
            f"engine_store: {source} was not copied to {target}",
            facts={"said": (output.strip().splitlines() or ["nothing"])[-1]},
            attempt="correct the cause and run again: copied files are kept",
            state=STATE,
            kind="engine-store",
        )

    def _not_as_signed(self, engine: EngineSlice, problem: str) -> Refusal:
        return Refusal(
            f"{engine.name}: the received copy differs from the signed engine",
            facts={"found": problem, "from": self.store.place if self.store else "a host"},
            attempt="remove that copy, and run again: another copy is fetched, or a new engine built",
            state=STATE,
            kind="engine-not-as-signed",
        )


def _run(argv: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
