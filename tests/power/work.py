"""The roles' own commands of a publish and a swap, as scripts the machine can run.

A script runs on the machine alone, so that no process here waits on a dead connection. It has one difference from a
deploy: rsync copies from a directory of the same machine instead of over SSH.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from pyinfra.api.command import StringCommand

from deploy.models.files import weights_path
from deploy.slices.host import MemorySlice, ModelSlice, ServerSlice, WeightsSlice
from deploy.spec import Hub
from rehearsal.reader import IMAGE
from roles._shipping import places
from roles._shipping.rsync import RESUMING
from roles._shipping.tar import tarred
from roles.model_store.defaults import Defaults as StoreDefaults
from roles.model_store.facts import StoreState
from roles.model_store.operations import Send
from roles.model_store.rsync import Rsync
from roles.triton.defaults import Defaults
from roles.triton.publishing import publishing
from roles.triton.release import EXECUTABLE, release_of
from roles.triton.swapping import Asking, ask_for
from tests.roles.slices import SERVER

HERE = "/run/power"
"""A path in memory: the work is sent again after every cut."""
COPIES = "/root/copies"
SMALL_FILES, LARGE_FILES = 160, 3


@dataclass(frozen=True)
class Work:
    """A script, and the files under HERE that it reads."""

    name: str
    script: str
    files: dict[str, bytes]


@dataclass(frozen=True)
class Release:
    """A release of the server, rendered by the role."""

    id: str
    files: dict[str, bytes]

    @property
    def place(self) -> str:
        """Returns its directory on the machine."""
        return places.release(self.id)


def release(address: str, number: int) -> Release:
    """Returns the server's release of that number: another batch size, so another id and other bytes."""
    server = _server(address, number)
    rendered = release_of(server, Defaults())
    return Release(rendered.id, dict(rendered.files))


def _server(address: str, number: int) -> ServerSlice:
    memory = MemorySlice(weights_mib=1, context_mib=1, workspace_mib=1, kv_cache_mib=0)
    model = ModelSlice(
        name="embed", kind="embedder", path="python", reason="", architecture="BertModel", weights=served_weights(),
        memory=memory, kv_cache_tokens=0, dimensions=8, max_batch_size=8 + number, max_queue_size=8,
        max_queue_delay_microseconds=0, decoupled=False, settings={"device": "cpu"},
    )  # fmt: skip
    image = replace(SERVER.image, reference=IMAGE, digest="")
    address_and_times = {"address": address, "start_seconds": 240, "stop_seconds": 10, "shm_mib": 64}
    return replace(SERVER, models=(model,), image=image, gpus=(), devices=(), **address_and_times)


def server(address: str) -> ServerSlice:
    """Returns the server itself, for its unit and programs."""
    return _server(address, 0)


def served_weights() -> WeightsSlice:
    """Returns the weights of the served model."""
    return _weights("embed", "local-0", Path())


def _weights(model: str, revision: str, directory: Path) -> WeightsSlice:
    return WeightsSlice(
        model=model, repository="", revision=revision, directory=str(directory), fetch_on="control",
        files=("*",), size_mib=1,
    )  # fmt: skip


def bulk(directory: Path) -> dict[str, str]:
    """Writes weights of many files, equal at each call, to `directory`; returns their sums by path."""
    chance = random.Random(8)
    sizes = {f"parts/{number:03}.json": chance.randrange(100, 40_000) for number in range(SMALL_FILES)}
    sizes |= {f"model-{number}.safetensors": 6 << 20 for number in range(LARGE_FILES)}
    for path, size in sizes.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(chance.randbytes(size))
    return {path: sha256((directory / path).read_bytes()).hexdigest() for path in sizes}


def publish(model: str, revision: str, directory: Path) -> Work:
    """Returns the job that sends and publishes the weights in `directory`, a copy of which is in COPIES."""
    staging, lines, standard_input = f"{places.ROOT}/weights/{model}/.{revision}.partial", ["set -e"], ""
    for command in Send(_weights(model, revision, directory), Hub(), StoreDefaults()).commands(StoreState()):
        if isinstance(command, Rsync):
            lines.append(f"{' '.join(RESUMING)} {COPIES}/{directory.name}/ {staging}/")
        elif stdin := command.connector_arguments.get("_stdin"):
            standard_input = str(stdin)
            lines.append(f"{{ {command}; }} <{HERE}/manifest")
        else:
            lines.append(str(command))
    return Work("publish", "\n".join(lines) + "\n", {"manifest": standard_input.encode()})


def target(model: str, revision: str) -> str:
    """Returns the directory of a published revision."""
    return weights_path(_weights(model, revision, Path()))


def swap(wanted: Release) -> Work:
    """Returns the job that publishes the release, starts the swap's unit and waits for its end."""
    steps = list(ask_for("main", wanted.id, Asking("plan-1", "run-1", 1, "me@here"), Defaults(), 600))
    write, start = (step for step in steps if isinstance(step, StringCommand))
    lines = [
        "set -e",
        f"test -f {wanted.place}/server.json || sh {HERE}/publishing <{HERE}/release",
        f"{{ {write}; }} <{HERE}/wanted",
        str(start).replace(" --no-block", ""),
    ]
    files = {
        "publishing": publishing(wanted.id).encode(),
        "release": base64.encodebytes(tarred(wanted.files, EXECUTABLE)),
        "wanted": str(write.connector_arguments["_stdin"]).encode(),
    }
    return Work("swap", "\n".join(lines) + "\n", files)


def listing(wanted: Release, weights: dict[str, str]) -> str:
    """Returns the stand-in's listing after it read every byte of this release and of the weights `{path: sha256}`."""
    sums = {f"{wanted.place}/{path}": sha256(content).hexdigest() for path, content in wanted.files.items()}
    sums |= weights
    lines = "".join(f"{digest}  {path}\n" for path, digest in sorted(sums.items()))
    return f"read {wanted.id} {sha256(lines.encode()).hexdigest()} {len(sums)}"
