"""The two facts that most roles ask: the answers of a `script`, and the presence of a file that the inventory no longer
declares."""

from pyinfra.api import FactBase

from roles._pyinfra import fact_batch
from roles._pyinfra.facts import HostFacts


class RoleFact(FactBase[HostFacts]):
    """Base of a fact whose `command` is a `script` of `ask_…` pieces."""

    default = HostFacts

    def process(self, output: list[str]) -> HostFacts:
        return HostFacts.parse(output)


class LeftFact(FactBase[bool]):
    """Base of a fact that is True if the host has the file `path`; asked early, because it decides a role's steps."""

    default = bool
    path = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        fact_batch.early(cls)

    def command(self) -> str:
        return f"[ ! -e {self.path} ] || echo there"

    def process(self, output: list[str]) -> bool:
        return "there" in output
