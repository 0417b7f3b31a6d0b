"""The finding about a pasted word: its place in the inventory, or the reason why it has no place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A word with its place in the inventory, or the reason why it has no place; `is_known` is False without a row."""

    words: str
    place: str = ""
    why: str = ""
    is_known: bool = True


@dataclass(frozen=True)
class Migration:
    """Every word's finding, and an inventory with the words that have a place."""

    findings: tuple[Finding, ...]
    inventory: str

    @property
    def is_whole(self) -> bool:
        return all(finding.place for finding in self.findings)
