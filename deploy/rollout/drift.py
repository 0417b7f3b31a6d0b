"""Hosts that differ from their inventory: the changes a deploy would make, for people and programs. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SAME, NOT_ASKED, DIFFERS = 0, 1, 2
SHOWN = 8


@dataclass(frozen=True)
class Drift:
    """The answers of hosts to a dry run."""

    hosts: tuple[str, ...]
    steps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Changes that a deploy would make, by the name of the step, with the hosts; in the order of the steps."""
    unasked: tuple[str, ...] = ()
    """Hosts that could not be asked, or did not answer every question."""
    messages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Messages of hosts about themselves: refusals of preflight, lost connections, other runs at work."""
    stopped: str = ""
    """The reason why no host could be asked at all."""
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The first line of each refusal that a deploy would end with on a host."""
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Known holes of the versions that a host reported. They do not count as differences in the exit code."""

    @property
    def differing(self) -> tuple[str, ...]:
        """Hosts that differ from the inventory, among those that could be asked."""
        names = {name for names in self.steps.values() for name in names}
        return tuple(name for name in self.hosts if name in names)

    @property
    def exit_code(self) -> int:
        """0: all hosts match the inventory; 2: some differ; 1: some could not be asked."""
        if self.stopped or self.unasked:
            return NOT_ASKED
        return DIFFERS if self.steps else SAME

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.stopped:
            yield self.stopped
            return
        differing = self.differing
        if differing:
            width = max(map(len, self.steps))
            yield f"differ: {len(differing)} of {len(self.hosts)} hosts"
            yield from (f"  {step:<{width}}  {shown(names)}" for step, names in self.steps.items())
        same = [name for name in self.hosts if name not in (*differing, *self.unasked)]
        if same:
            yield f"as the inventory says: {len(same)} of {len(self.hosts)} hosts"
        if self.unasked:
            yield f"could not be asked: {shown(self.unasked)}"
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, lines in self.messages.items():
            alike.setdefault(lines, []).append(name)
        for lines, names in alike.items():
            yield f"{shown(names)}:"
            yield from (f"  {line}" for line in lines)
        warned: dict[str, list[str]] = {}
        for name, lines in self.warnings.items():
            for line in lines:
                warned.setdefault(line, []).append(name)
        yield from (f"warning: {line}: {shown(names)}" for line, names in warned.items())

    def to_json(self) -> dict[str, object]:
        return {
            "hosts": list(self.hosts),
            "differ": {step: list(names) for step, names in self.steps.items()},
            "not_asked": list(self.unasked),
            "said": {name: list(lines) for name, lines in self.messages.items()},
            "warnings": {name: list(lines) for name, lines in self.warnings.items()},
            "stopped": self.stopped,
        }


def shown(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
