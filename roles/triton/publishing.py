"""Sends a release to the host, where it appears whole or not at all."""

import base64

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.refusals import Refusal
from roles._pyinfra.steps import Refuse
from roles._shipping import places
from roles._shipping.places import RELEASES
from roles._shipping.repairs import unpacked
from roles._shipping.tar import tarred
from roles.triton.release import EXECUTABLE, ServerRelease

FIRST_LINES = 4
"""Lines kept of tar's output, because tar repeats the message about a full disk for every file."""
OPERATORS = f"{places.SETTINGS}/operators"
NOT_PUBLISHED = "  state   the release is not published; no serving program was changed"


class Publish(PyinfraCommand):
    """Publishes the release directory on the host, complete: one tar on standard input, unpacked elsewhere, renamed."""

    def __init__(self, release: ServerRelease) -> None:
        super().__init__()
        self.release = release

    def __repr__(self) -> str:
        return f"publish {places.release(self.release.id)} ({len(self.release.files)} files)"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once the release is published on the host."""
        files = dict(self.release.files)
        try:
            for wheel in self.release.wheels:
                files |= unpacked(wheel)
        except Refusal as problem:
            Refuse(problem).log(host)
            return False
        sent = base64.encodebytes(tarred(files, EXECUTABLE)).decode()
        arguments: ConnectorArguments = {**connector_arguments, "_stdin": sent}
        done, output = host.run_shell_command(StringCommand(publishing(self.release.id)), **arguments)
        for line in [*output.stderr_lines[:FIRST_LINES], NOT_PUBLISHED] if not done else ():
            host.log_styled(line, fg="red", log_func=logger.error)
        return bool(done)


def publishing(release: str) -> str:
    """The shell command that publishes a release from the tar on its standard input.

    Every file and directory is synced to disk before it gets its name, and the name is synced before anything points to
    it. A directory of the name without server.json is part of a release from an interrupted removal, and is replaced.
    The user who deploys by sudo is recorded: prepare.sh lets that user connect to servers, for tunnels of `ask` and the
    smoke tests.
    """
    target, staging = places.release(release), f"{RELEASES}/.{release}.partial"
    return (
        f"set -e; umask 022; rm -rf {staging}; mkdir -p {staging};"
        f" base64 -d | tar -xz --no-same-owner -C {staging}; test -f {staging}/server.json;"
        f" chown -R root:root {staging}; find {staging} -exec sync {{}} +;"
        f" test -f {target}/server.json || {{ rm -rf {target}; mv -T {staging} {target}; }};"
        f" sync {RELEASES}; rm -rf {staging};"
        f' [ -z "${{SUDO_USER:-}}" ] || grep -qsxF -- "$SUDO_USER" {OPERATORS} || echo "$SUDO_USER" >>{OPERATORS}'
    )
