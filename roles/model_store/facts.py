"""The weights that are published on the host, and the weights that are being fetched."""

import shlex
from dataclasses import dataclass, field

from pyinfra.api import FactBase

from deploy.models.files import ROOT
from roles._pyinfra.facts import ask_packages, ask_value, script
from roles._pyinfra.role_facts import RoleFact
from roles._shipping.places import FETCH_USER, SHARE_USER
from roles._shipping.units import UnitState, ask


@dataclass(frozen=True)
class StoreState:
    """Weights of a model: sha256 of its published manifest (empty: not published), and the unit that fetches them."""

    manifest: str = ""
    unit: UnitState = field(default_factory=UnitState)


class Tools(RoleFact):
    """Version of the package with which hosts share files."""

    def command(self) -> str:
        return script(ask_packages("python3-libtorrent"))


class Accounts(RoleFact):
    """The host's users of the units that receive files."""

    def command(self) -> str:
        return script(*(ask_value(user, f"id -u {user}") for user in (FETCH_USER, SHARE_USER)))


class Published(FactBase[dict[str, StoreState]]):
    """Fact: the published directories of all models."""

    def command(self, wanted: tuple[tuple[str, str, str], ...]) -> str:
        return "; ".join(self._model(*planned) for planned in wanted) or "true"

    @staticmethod
    def _model(model: str, revision: str, unit: str) -> str:
        path = shlex.quote(f"{ROOT}/weights/{model}/{revision}/manifest.sha256")
        digest = f"test -f {path} && echo manifest=$(sha256sum < {path} | cut -d' ' -f1)"
        return f"echo model={shlex.quote(model)}; {digest}; {ask(unit)}"

    @staticmethod
    def default() -> dict[str, StoreState]:
        return {}

    def process(self, output: list[str]) -> dict[str, StoreState]:
        answers: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in output:
            if line.startswith("model="):
                lines = answers.setdefault(line[6:], [])
            lines.append(line)
        return {model: self._state(answer) for model, answer in answers.items()}

    @staticmethod
    def _state(lines: list[str]) -> StoreState:
        manifest = next((line[9:] for line in lines if line.startswith("manifest=")), "")
        return StoreState(manifest, UnitState.of(lines))
