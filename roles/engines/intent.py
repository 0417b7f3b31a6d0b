"""The host that builds, signs and passes on an engine. Pure, from all hosts' facts about it.

Each fingerprint has one source: a host that has the engine, signed and complete; else the copy on the control machine
or in the store; else a host that has it unsigned, or is building it; else the first in the order of the plan, which
puts farm hosts first. All other hosts fetch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deploy.slices.host import EngineSlice, Slice
from roles.engines.facts import Kind, Present


@dataclass(frozen=True)
class Intent:
    """Planned action for an engine. `source` is empty if the stored copy is the source."""

    source: str
    kinds: Mapping[str, Kind]

    def is_new(self) -> bool:
        return bool(self.source) and self.kinds.get(self.source, "absent") in ("absent", "broken")

    def builds(self, host: str) -> bool:
        return host == self.source and self.is_new()

    def signs(self, host: str) -> bool:
        return host == self.source and self.kinds.get(host) != "signed"

    def fetches(self, host: str) -> bool:
        return host != self.source and self.kinds.get(host) != "signed"


def intend(engine: EngineSlice, order: Iterable[str], facts: Mapping[str, Present], is_kept: bool) -> Intent:
    """The intent for one engine; `order` has the hosts that can build it, `facts` the answers of the remaining ones."""
    hosts = [name for name in order if name in facts]
    kinds = {name: facts[name].kind(engine.path) for name in hosts}
    signed = [name for name in hosts if kinds[name] == "signed"]
    if signed or is_kept:
        return Intent((signed or [""])[0], kinds)
    unsigned = [name for name in hosts if kinds[name] == "unsigned"]
    going = [name for name in hosts if facts[name].builds_now(engine.model, engine.fingerprint)]
    return Intent([*unsigned, *going, *hosts, ""][0], kinds)


def order_of(fingerprint: str, slices: Iterable[Slice]) -> tuple[str, ...]:
    """The hosts with a planned engine: first the hosts that only build, then the others, each by name."""
    having = [planned for planned in slices if any(engine.fingerprint == fingerprint for engine in planned.engines)]
    return tuple(planned.host for planned in sorted(having, key=lambda planned: (not planned.farm, planned.host)))


def builders(slices: Iterable[Slice]) -> frozenset[str]:
    """The hosts that build if no engine exists yet: one for each fingerprint."""
    slices = tuple(slices)
    fingerprints = {engine.fingerprint for planned in slices for engine in planned.engines}
    return frozenset(order_of(fingerprint, slices)[0] for fingerprint in fingerprints)
