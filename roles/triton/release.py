"""A server's release: every decision about it is made before the host is asked; operations act on it.

The id covers every byte, the pinned wheels and the unit: any change of the running server is another release.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deploy.slices.host import ServerSlice
from roles._shipping.places import UNITS
from roles._shipping.repairs import Wheel, wheels
from roles._shipping.texts import HERE, Text
from roles.triton import llm_files
from roles.triton.defaults import Defaults
from roles.triton.render import render
from roles.triton.times import change_seconds, unit_settings
from roles.triton.waiting import awaited, wait_settings

UNIT = HERE / "files" / "units" / "triton@.service"
EXECUTABLE = ("run", "launch", llm_files.RUN)


@dataclass(frozen=True)
class ServerRelease:
    """A server's release, as it is published and swapped in."""

    id: str
    server: ServerSlice
    files: Mapping[str, bytes]
    """Files by path inside the release; the files of wheels are added when it is sent."""
    wheels: tuple[Wheel, ...]
    unit_settings: Text
    """The drop-in of the server's unit."""
    change_seconds: int
    """Seconds for one stop and one start of the server, and of the LLM beside it."""
    llm_settings: Text | None = None
    """The drop-in of the unit of the LLM beside Triton."""


def release_of(server: ServerSlice, settings: Defaults, drain_seconds: int = 0) -> ServerRelease:
    """The release of a planned server, on a host whose servers' stops wait `drain_seconds` for balancers."""
    files, repairing = render(server, settings), wheels(server.image.repairs)
    drop_in = Text(
        f"{UNITS}/triton@{server.name}.service.d/enginehouse.conf",
        unit_settings(server, drain_seconds) + wait_settings(server, awaited(server.in_triton, server.own_models)),
    )
    seconds, of_llm = change_seconds(server, drain_seconds), None
    if server.standalone_llm:
        seconds, of_llm = 2 * seconds, llm_files.drop_in(server, drain_seconds)
    return ServerRelease(_id(files, repairing), server, files, repairing, drop_in, seconds, of_llm)


def _id(files: Mapping[str, bytes], repairing: Iterable[Wheel]) -> str:
    """Sixteen hex digits over the files, the wheels that will be added, and the unit that runs them."""
    digest = hashlib.sha256()
    parts = sorted(files.items())
    parts += [(wheel.file, wheel.digest.encode()) for wheel in repairing]
    parts += [("unit", UNIT.read_bytes())]
    parts += [("unit of the LLM", llm_files.UNIT.read_bytes())] if llm_files.RUN in files else []
    for path, content in parts:
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]
