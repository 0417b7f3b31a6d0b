"""Packages, files and services of a host: asked in a single shell script, parsed into `HostFacts`.

The commands are pieces of shell that print tab-separated lines and always exit zero; a role's fact joins the pieces
that it needs. The roles judge the answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from shlex import quote

_ANSWER = """answer() {
case $2 in
'') ;;
*'
'*) printf '%s\\n' "$2" | sed "s/^/value\\t$1\\t/" ;;
*) printf 'value\\t%s\\t%s\\n' "$1" "$2" ;;
esac
}"""
"""Prints the answer of a question after its name. No command starts an avoidable process: a finished host's answers
cost it two seconds of CPU, most of them for 250 processes (a rehearsal machine, 2026-11-24)."""
_UNIT_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState")


@dataclass(frozen=True)
class Installed:
    """A Debian package that is fully installed."""

    version: str
    held: bool = False


@dataclass(frozen=True)
class Unit:
    """A systemd unit as `systemctl show` prints it; a unit that does not exist has `load` not-found."""

    load: str = "not-found"
    active: str = "inactive"
    enabled: str = ""

    @property
    def exists(self) -> bool:
        return self.load == "loaded"

    @property
    def runs(self) -> bool:
        return self.active in ("active", "activating", "reloading")

    @property
    def starts_at_boot(self) -> bool:
        return self.enabled in ("enabled", "enabled-runtime", "static", "alias", "generated", "indirect")


@dataclass(frozen=True)
class HostFacts:
    """The answers, by name. Packages, files and units that the host lacks are absent."""

    packages: dict[str, Installed] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """sha256 of the content, by path."""
    units: dict[str, Unit] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    """Answers of `ask_value`, without the last line end; empty ones are left out."""

    def value(self, name: str) -> str:
        return self.values.get(name, "")

    def unit(self, name: str) -> Unit:
        return self.units.get(name, Unit())

    def holds(self, path: str, content: str) -> bool:
        return self.files.get(path) == sha256(content.encode()).hexdigest()

    @classmethod
    def parse(cls, lines: Iterable[str]) -> HostFacts:
        """The facts in the lines that the commands print; a line of another shape is skipped."""
        facts, unit = cls(), dict[str, str]()
        for line in lines:
            kind, _, rest = line.partition("\t")
            if kind == "package":
                facts._package(rest)
            elif kind == "file":
                path, _, digest = rest.rpartition("\t")
                facts.files[path] = digest
            elif kind == "value":
                name, _, text = rest.partition("\t")
                facts.values[name] = f"{facts.values[name]}\n{text}" if name in facts.values else text
            elif kind == "unit":
                unit = facts._unit(unit, rest)
        facts._unit(unit, "")
        return facts

    def _package(self, rest: str) -> None:
        name, version, status = [*rest.split("\t"), "", ""][:3]
        if status.strip() in ("ii", "hi"):
            self.packages[name] = Installed(version, held=status.startswith("h"))

    def _unit(self, unit: dict[str, str], rest: str) -> dict[str, str]:
        """Adds one `Key=value` line; an empty line ends the unit."""
        if rest:
            key, _, value = rest.partition("=")
            return {**unit, key: value}
        if "Id" in unit:
            self.units[unit["Id"]] = Unit(*(unit.get(name, "") for name in _UNIT_PROPERTIES))
        return {}


def ask_packages(*patterns: str) -> str:
    """The command for version and hold of every installed package whose name matches one of the dpkg patterns."""
    form = r"package\t${Package}\t${Version}\t${db:Status-Abbrev}\n"
    return f"dpkg-query -W -f={quote(form)} {' '.join(quote(pattern) for pattern in patterns)} 2>/dev/null"


def ask_files(*paths: str) -> str:
    """The command for the sha256 of each path that is a readable file."""
    listed = " ".join(quote(path) for path in paths)
    return f'sha256sum {listed} 2>/dev/null | while read -r h f; do printf \'file\\t%s\\t%s\\n\' "$f" "$h"; done'


def ask_units(*names: str) -> str:
    """The command for the state of each systemd unit."""
    properties = ",".join(("Id", *_UNIT_PROPERTIES))
    listed = " ".join(quote(name) for name in names)
    lines = "while IFS= read -r l; do printf 'unit\\t%s\\n' \"$l\"; done; printf 'unit\\t\\n'"
    return f"systemctl show --property={properties} {listed} 2>/dev/null | {lines}"


def ask_value(name: str, shell: str) -> str:
    """The command for the output of a piece of shell; empty output counts as no answer.

    It needs the shell function `answer` of `script`.
    """
    return f'answer {name} "$({{ {shell}; }} 2>/dev/null)"'


def script(*commands: str) -> str:
    return "\n".join([_ANSWER, *commands, "true"])
