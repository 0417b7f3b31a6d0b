"""Some files of a directory of the control machine, sent to one host."""

from pathlib import Path

from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from roles._shipping.rsync import PROGRESS, RESUMING, rsync_target, transfer
from roles.model_store.defaults import Defaults


class Rsync(PyinfraCommand):
    """Sends `names` of `source` to `staging` on the host, and replaces any other content."""

    def __init__(self, source: Path, names: list[str], staging: str, what: str, settings: Defaults) -> None:
        super().__init__()
        self.source, self.names, self.staging, self.what, self.settings = source, names, staging, what, settings

    def __repr__(self) -> str:
        return f"rsync {self.source}/ to {self.staging}/"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once all files are on the host."""
        how, target = rsync_target(host, bool(connector_arguments.get("_sudo")), self.staging)
        limit = [f"--bwlimit={self.settings.bandwidth_limit}"] if self.settings.bandwidth_limit else []
        argv = [*RESUMING, "--files-from=-", *PROGRESS, *limit, *how, f"{self.source}/", target]
        return transfer(host, argv, f"weights of {self.what}", self.settings, self.names)
