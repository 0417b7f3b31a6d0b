"""Peer-to-peer file sharing between the hosts of a run, for a bounded time.

A host that needs files starts the sending hosts, over the run's connections to them, because a finished host has no
step of its own. Each host has noted its facts on the board of the run. The program that sends and receives is
files/host/peers; if it fails, the files are fetched from their source.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import gevent
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, ConnectorArguments, pop_global_arguments
from pyinfra.api.command import PyinfraCommand

from deploy.models.files import ROOT, blobs_path, weights_path
from deploy.slices.host import Slice, WeightsSlice
from deploy.slices.image import ImageSlice
from deploy.slices.sharing import SharedSlice
from roles._pyinfra.steps import write
from roles._pyinfra.undo import NO_LINE
from roles._shipping import units
from roles._shipping.places import RUNTIME

MOST_GIVERS, AT_ONCE = 8, 32
NOT_DELIVERED = "3"
"""Exit status of host.peers.main if the files are to be fetched directly."""
UNITS_OF_BYTES = {"": 1 << 10, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
"""Factors of the suffixes that rsync reads in --bwlimit."""
LOOK_SECONDS = 1.0
Key = tuple[str, str]
_arguments = cast(Callable[..., tuple[dict[str, Any], list[str]]], pop_global_arguments)


class Patience(Protocol):
    """Settings of a role for the transfer of its files, explained in `roles.model_store.defaults`."""

    @property
    def fetch_seconds(self) -> int: ...
    @property
    def give_seconds(self) -> int: ...
    @property
    def patience_seconds(self) -> int: ...
    @property
    def offer_seconds(self) -> int: ...
    @property
    def bandwidth_limit(self) -> str: ...


@dataclass(frozen=True)
class Files:
    """A set of files: the directory `path` on every host."""

    name: str
    revision: str
    path: str
    what: str
    """The files' name in messages."""

    @classmethod
    def of(cls, planned: WeightsSlice | ImageSlice) -> Files:
        """The files of a planned model, or the blobs of a planned image."""
        if isinstance(planned, WeightsSlice):
            return cls(planned.model, planned.revision, weights_path(planned), f"weights of {planned.model}")
        return cls(planned.files_name, planned.digest, blobs_path(planned.digest), f"image {planned.digest[:19]}")

    @property
    def unit(self) -> str:
        return f"enginehouse-share@{self.name}.service"

    @property
    def key(self) -> Key:
        return self.name, self.revision


class Board:
    """State of sharing in a run: the hosts that have each set of files, and the offers of those that share them."""

    def __init__(self) -> None:
        self.having: defaultdict[Key, set[str]] = defaultdict(set)
        self._offers: dict[Key, dict[str, Any] | None] = {}
        self._turns: defaultdict[Key, BoundedSemaphore] = defaultdict(BoundedSemaphore)

    def note(self, name: str, files: Files, has_it: bool) -> None:
        (set.add if has_it else set.discard)(self.having[files.key], name)

    def offer(self, sharing: Sharing, state: State) -> dict[str, Any] | None:
        """The offer of the sharing hosts; None without sharing hosts. The first call starts them."""
        key = sharing.files.key
        with self._turns[key]:
            if key not in self._offers:
                self._offers[key] = SharingHosts(sharing, state, self).begun()
            return self._offers[key]


def board(state: State) -> Board:
    return _boards.setdefault(state, Board())


_boards: WeakKeyDictionary[State, Board] = WeakKeyDictionary()


@dataclass(frozen=True)
class Sharing:
    """A set of files that a host of the run shares."""

    name: str
    files: Files
    shared: SharedSlice
    settings: Patience

    @classmethod
    def of(cls, mine: Slice, files: Files, settings: Patience, state: State) -> Sharing | None:
        """The sharing of these files; None if no other host of the run shares them."""
        shared = mine.sharing.of(*files.key) if mine.sharing else None
        sharing = cls(mine.host, files, shared, settings) if shared else None
        return sharing if sharing and len(sharing.hosts(state)) > 1 else None

    def hosts(self, state: State) -> list[str]:
        """The hosts of the run that need or have the files; their order differs from set to set."""
        active = {peer.name for peer in state.active_hosts}
        names = {self.name, *(peer.host for peer in self.shared.peers)} & active
        return sorted(names, key=lambda name: hashlib.sha256(f"{self.files.key} {name}".encode()).digest())

    def has_a_giver(self, state: State) -> bool:
        return bool(board(state).having[self.files.key] & set(self.hosts(state)))

    def is_first(self, state: State) -> bool:
        return self.hosts(state)[:1] == [self.name] and not (state.is_executing and self.has_a_giver(state))

    def places(self) -> dict[str, str]:
        return {self.name: self.shared.here, **{peer.host: peer.place for peer in self.shared.peers}}

    def text(self, name: str, others: list[str], offer: Mapping[str, Any] | None) -> str:
        """The settings file of a host's program that exchanges files with peers."""
        places, most = self.places(), bytes_per_second(self.settings.bandwidth_limit)
        content = {
            "target": self.files.path,
            "folder": f"{ROOT}/sharing/{self.files.name}",
            "offer": offer,
            "here": places[name],
            "peers": {places[peer]: peer for peer in sorted(others) if peer != name},
            "bytes_per_second": most,
            "seed_seconds": self.settings.give_seconds,
            "patience_seconds": self.settings.patience_seconds,
            "least_bytes_per_second": min(1 << 16, most // 2) if most else 1 << 16,
        }
        return json.dumps(content, indent=2) + "\n"

    def started(self, state: State, host: Host, arguments: ConnectorArguments, text: str) -> bool:
        """True once a host has its settings and the unit is starting; a running unit restarts and resumes."""
        path, unit = f"{RUNTIME}/share/{self.files.name}.json", shlex.quote(self.files.unit)
        begin = f"{{ systemctl reset-failed {unit} 2>/dev/null || true; }} && systemctl restart --no-block {unit}"
        return bool(write(path, text, then=begin).execute(state, host, arguments))


class SharingHosts:
    """Hosts that share one set of files, and their start."""

    def __init__(self, sharing: Sharing, state: State, known: Board) -> None:
        self.sharing, self.state = sharing, state
        having = known.having[sharing.files.key]
        hosts = sharing.hosts(state)
        self.givers = [name for name in hosts if name in having][:MOST_GIVERS]
        self.all = [*self.givers, *(name for name in hosts if name not in having)]

    def begun(self) -> dict[str, Any] | None:
        """The sharing hosts' offer, once the first host has read its files; None if no host can share."""
        pool = Pool(AT_ONCE)
        going = [name for name, ok in zip(self.givers, pool.imap(self._start, self.givers), strict=True) if ok]
        until = time.monotonic() + self.sharing.settings.offer_seconds
        while going and time.monotonic() < until:
            for name in list(going):
                offer, is_going = self._look(name)
                if offer:
                    return offer
                if not is_going:
                    going.remove(name)
            gevent.sleep(LOOK_SECONDS)
        return None

    def _start(self, name: str) -> bool:
        giver = self.state.inventory.get_host(name)
        try:
            text = self.sharing.text(name, self.all, None)
            return self.sharing.started(self.state, giver, host_arguments(giver), text)
        except NO_LINE:
            return False

    def _look(self, name: str) -> tuple[dict[str, Any] | None, bool]:
        """The host's offer, and True if its unit may still make one."""
        giver, target = self.state.inventory.get_host(name), self.sharing.files.path
        parent, _, revision = target.rpartition("/")
        question = f"echo offer=$(cat {shlex.quote(f'{parent}/.{revision}.offer.json')} 2>/dev/null)"
        try:
            lines = units.run(giver, f"{question}; {units.ask(self.sharing.files.unit)}", host_arguments(giver))
        except NO_LINE:
            return None, False
        offer = next((line[6:] for line in lines if line.startswith("offer=")), "")
        return _read(offer), units.UnitState.of(lines).is_going


def _read(offer: str) -> dict[str, Any] | None:
    """The parsed offer; None without an offer, or if a power cut truncated the file, which the host then writes
    again."""
    try:
        return dict(json.loads(offer))
    except (ValueError, TypeError, RecursionError):
        return None


class Ask(PyinfraCommand):
    """Starts the transfer of the files from other hosts, if one of them shares."""

    def __init__(self, sharing: Sharing) -> None:
        super().__init__()
        self.sharing, self.is_under_way = sharing, False

    def __repr__(self) -> str:
        return f"ask other hosts for {self.sharing.files.name}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """False only if the host cannot be reached."""
        offer = board(state).offer(self.sharing, state)
        if offer is None:
            host.log(f"{self.sharing.files.what}: no host shares them", log_func=logger.warning)
            return True
        others = SharingHosts(self.sharing, state, board(state)).all
        text = self.sharing.text(self.sharing.name, others, offer)
        self.is_under_way = self.sharing.started(state, host, connector_arguments, text)
        return self.is_under_way


class Await(PyinfraCommand):
    """Waits until the files are published or the peers have failed; fails if this host cannot receive files."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self.ask, self.sharing, self.unit = ask, ask.sharing, ask.sharing.files.unit

    def __repr__(self) -> str:
        return f"await {self.sharing.files.name} from other hosts"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True if the files are published, or if the run can still fetch them directly; else False."""
        began, reported_at, last = time.monotonic(), "", ""
        manifest = shlex.quote(f"{self.sharing.files.path}/manifest.sha256")
        question = f"systemctl show -p ExecMainStatus {shlex.quote(self.unit)}; test -s {manifest} && echo published=1"
        while self.ask.is_under_way and (elapsed := time.monotonic() - began) < self.sharing.settings.fetch_seconds:
            lines = units.run(host, f"{units.ask(self.unit)}; {question}; true", connector_arguments)
            unit_state = units.UnitState.of(lines)
            if "published=1" in lines:
                return True
            if lines and not unit_state.is_going:
                status = next((line[15:] for line in lines if "MainStatus" in line), "")
                return self._told_why(host, connector_arguments, status)
            is_silent = elapsed - float(reported_at or 0) > units.LONGEST_SILENCE_SECONDS
            if unit_state.status not in ("", last) and is_silent:
                host.log(f"{self.sharing.files.what}: {unit_state.status}", log_func=logger.info)
                reported_at, last = str(elapsed), unit_state.status
            gevent.sleep(min(max(0.5, elapsed / 10), 5.0))
        return True

    def _told_why(self, host: Host, arguments: ConnectorArguments, status: str) -> bool:
        lines = units.run(host, f"journalctl -q -o cat -n 4 -u {shlex.quote(self.unit)} || true", arguments)
        is_over = status != NOT_DELIVERED
        for line in lines:
            host.log(line, log_func=logger.error if is_over else logger.warning)
        return not is_over


def host_arguments(host: Host) -> ConnectorArguments:
    """pyinfra's connection arguments of a host (user, sudo and the like), from the host's own data."""
    arguments = _arguments(host.state, host, {})[0]
    return cast(ConnectorArguments, {key: arguments[key] for key in CONNECTOR_ARGUMENT_KEYS if key in arguments})


def bytes_per_second(limit: str) -> int:
    """Bytes of a limit in rsync's notation ("80m"); 0 without a limit."""
    return int(float(limit.rstrip("kKmMgG")) * UNITS_OF_BYTES[limit.lstrip("0123456789.").lower()]) if limit else 0
