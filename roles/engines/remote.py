"""Small files of a host as bytes, and the commands of this role that report their progress."""

import base64
import shlex

from pyinfra import logger
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

PRESENT = "present:"


def read(host: Host, path: str, arguments: ConnectorArguments) -> bytes | None:
    """The bytes of a file on the host; None if there is no file."""
    file = shlex.quote(path)
    command = StringCommand(f"if test -f {file}; then echo {PRESENT}; base64 {file}; fi")
    _, output = host.run_shell_command(command, **arguments)
    lines = [line for line in output.stdout_lines if line.strip()]
    return base64.b64decode("".join(lines[1:])) if lines[:1] == [PRESENT] else None


def replace(host: Host, path: str, content: bytes, arguments: ConnectorArguments) -> bool:
    """True once the file holds the whole `content`, by rename; see `steps.write`."""
    new, file = shlex.quote(f"{path}.enginehouse-new"), shlex.quote(path)
    is_whole = f"test $(stat -c %s {new}) = {len(content)}"
    command = f"base64 -d > {new} && {is_whole} && chmod 0644 {new} && sync {new} && mv -T {new} {file}"
    sent: ConnectorArguments = {**arguments, "_stdin": base64.encodebytes(content).decode()}
    done, _ = host.run_shell_command(StringCommand(command), **sent)
    return bool(done)


class LogLine(PyinfraCommand):
    """Logs a line."""

    def __init__(self, line: str) -> None:
        super().__init__()
        self.line = line

    def __repr__(self) -> str:
        return f"log {self.line}"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True, after logging the line: a message cannot fail."""
        host.log(self.line, log_func=logger.info)
        return True
