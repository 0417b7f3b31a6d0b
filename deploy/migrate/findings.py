"""The finding about a word of what was pasted: its place in the inventory, or the reason why it has none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A word, with the place where the inventory says it, or why it has none; `is_known` False: nobody read it."""

    words: str
    place: str = ""
    why: str = ""
    is_known: bool = True


@dataclass(frozen=True)
class Migration:
    """Every word's finding, and an inventory that says what has a place."""

    findings: tuple[Finding, ...]
    inventory: str

    @property
    def is_whole(self) -> bool:
        return all(finding.place for finding in self.findings)
