"""A host's engines, if it would load them, and the state of its build units."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyinfra.api import FactBase

from roles._shipping.places import SETTINGS, command
from roles._shipping.units import UnitState, ask

Kind = Literal["absent", "unsigned", "signed", "broken"]
BUILDS = f"{SETTINGS}/build"
CANNOT_CHECK = 2
"""Exit status of `engine` if the host cannot check: a program or a list of keys is missing."""


def build_unit(model: str) -> str:
    return f"enginehouse-build@{model}.service"


@dataclass(frozen=True)
class EngineState:
    """State of an engine's directory. `problem` is the host's reason against loading the engine, empty without one."""

    is_there: bool = False
    is_sealed: bool = False
    """True if the engine has a signature, by any key."""
    problem: str = ""
    is_checked: bool = True
    """False if the host cannot check the engine, for lack of ssh-keygen or of the list of trusted keys."""

    @property
    def kind(self) -> Kind:
        """The kind of engine. A broken engine must not be signed: its signature is foreign, or its files differ from
        its record.

        An engine that cannot be checked keeps its apparent kind, so that it is not deleted for that reason.
        """
        if not self.is_there:
            return "absent"
        if not self.problem or (self.is_sealed and not self.is_checked):
            return "signed"
        return "broken" if self.is_sealed else "unsigned"


@dataclass(frozen=True)
class BuildState:
    """A model's build unit, and the fingerprint of its latest build."""

    unit: UnitState = field(default_factory=UnitState)
    fingerprint: str = ""


@dataclass(frozen=True)
class Present:
    """All facts about the engines of one host: by path, and by model."""

    engines: Mapping[str, EngineState] = field(default_factory=dict)
    builds: Mapping[str, BuildState] = field(default_factory=dict)

    def kind(self, path: str) -> Kind:
        return self.engines.get(path, EngineState()).kind

    def builds_now(self, model: str, fingerprint: str) -> bool:
        """True if this very engine is being built."""
        facts = self.builds.get(model, BuildState())
        return facts.unit.is_going and facts.fingerprint == fingerprint


class Having(FactBase[Present]):
    """Asks the host's own program which engines it would load; a host without the program has none."""

    def command(self, paths: tuple[str, ...], models: tuple[str, ...]) -> str:
        return "; ".join([*map(self._engine, paths), *map(self._build, models), "true"])

    @staticmethod
    def _engine(path: str) -> str:
        d = shlex.quote(path)
        checked = f"said=$({command('engine')} verify {d} --quick 2>&1)"
        return (
            f"if test -d {d}; then echo engine={d}; test -f {d}/engine.json.sig && echo sealed=yes;"
            f" {checked}; code=$?; test $code -ne {CANNOT_CHECK} || echo checked=no;"
            ' test $code -eq 0 || echo "problem=$(echo "$said" | head -n 1)"; fi'
        )

    @staticmethod
    def _build(model: str) -> str:
        settings = shlex.quote(f"{BUILDS}/{model}.json")
        print_fingerprint = r"""sed -n 's/^  "fingerprint": "\([0-9a-f]*\)".*/fingerprint=\1/p'"""
        return f"echo build={shlex.quote(model)}; {print_fingerprint} {settings} 2>/dev/null; {ask(build_unit(model))}"

    @staticmethod
    def default() -> Present:
        return Present()

    def process(self, output: list[str]) -> Present:
        engines: dict[str, list[str]] = {}
        builds: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in output:
            name, _, value = line.partition("=")
            if name in ("engine", "build"):
                lines = (engines if name == "engine" else builds).setdefault(value, [])
            else:
                lines.append(line)
        return Present(
            {path: self._engine_state(answer) for path, answer in engines.items()},
            {model: self._build_state(answer) for model, answer in builds.items()},
        )

    @staticmethod
    def _engine_state(lines: list[str]) -> EngineState:
        problem = next((line[8:] or "it cannot be checked" for line in lines if line.startswith("problem=")), "")
        return EngineState(True, "sealed=yes" in lines, problem, "checked=no" not in lines)

    @staticmethod
    def _build_state(lines: list[str]) -> BuildState:
        fingerprint = next((line[12:] for line in lines if line.startswith("fingerprint=")), "")
        return BuildState(UnitState.of(lines), fingerprint)
