"""The command that copies an engine's signed record from a host into the operator's ledger."""

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.slices.host import EngineSlice
from roles.engines import ledger
from roles.engines.remote import read


class Record(PyinfraCommand):
    """Copies engine.json and its signature to the ledger."""

    def __init__(self, engine: EngineSlice, place: str) -> None:
        super().__init__()
        self.engine, self.place = engine, place

    def __repr__(self) -> str:
        return f"record {ledger.record_of(self.engine, self.place)}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once both files are written."""
        text, sealed = (read(host, f"{self.engine.path}/engine.json{end}", connector_arguments) for end in ("", ".sig"))
        if text is None or sealed is None:
            host.log_styled(f"{self.engine.path} has no signed record", fg="red", log_func=logger.error)
            return False
        record = ledger.enter(self.engine, self.place, text, sealed)
        host.log(f"recorded in {record}: commit it", log_func=logger.info)
        return True
