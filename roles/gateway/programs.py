"""The gateway's own files, files/gateway, published whole under their digest, and the unit that names that version."""

import base64
import hashlib
import json
from functools import cache

from pyinfra.api.command import StringCommand

from deploy.slices.gateway import GatewaySlice
from roles._shipping import programs
from roles._shipping.tar import tarred
from roles._shipping.templates import template
from roles._shipping.texts import HERE, Text
from roles.gateway.defaults import ENVIRONMENTS, UNIT, UNIT_PATH, USER, VERSIONS, WANTED
from roles.gateway.settings import listen
from roles.gateway.wheels import digest as packages_digest

SOURCE = HERE / "files" / "gateway"
MARK_DIGITS = 16


def sources() -> dict[str, bytes]:
    """Content of every file of the gateway, by its path in the package."""
    files = (path for path in sorted(SOURCE.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(SOURCE)): path.read_bytes() for path in files}


@cache
def version() -> str:
    return programs.digest(sources())


def version_path() -> str:
    return f"{VERSIONS}/{version()[:MARK_DIGITS]}"


def environment_path(gateway: GatewaySlice) -> str:
    return f"{ENVIRONMENTS}/{packages_digest(gateway.python)}"


def publication() -> StringCommand:
    """The command that publishes the files from a tar on its standard input, synced to disk before they are named."""
    path = version_path()
    sent = tarred({f"gateway/{name}": content for name, content in sources().items()})
    return StringCommand(
        f"set -e; umask 022; mkdir -p {VERSIONS}; cd {VERSIONS}; rm -rf .new; mkdir .new;"
        f" timeout --foreground {programs.SENT_WITHIN_SECONDS} base64 -d | tar -xz --no-same-owner -C .new;"
        " test -f .new/gateway/__main__.py; chown -R root:root .new; chmod -R u=rwX,go=rX,g-s .new;"
        f" find .new -exec sync {{}} +; rm -rf {path}; mv -T .new {path}; sync {VERSIONS}",
        _stdin=base64.encodebytes(sent).decode(),
    )


def unit(gateway: GatewaySlice) -> Text:
    """The unit of each process. Its mark changes whenever a running process has to restart."""
    values = {
        "settings": WANTED,
        "version": version_path(),
        "environment": environment_path(gateway),
        "drain_seconds": gateway.drain_seconds,
        "user": USER,
    }
    filled = template("gateway", f"{UNIT}.j2").render
    start_text = filled(**values, mark="") + json.dumps(listen(gateway), sort_keys=True)
    mark = hashlib.sha256(start_text.encode()).hexdigest()[:MARK_DIGITS]
    return Text(UNIT_PATH, filled(**values, mark=mark))
