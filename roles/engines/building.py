"""Commands by which a host builds an engine in its unit, or attaches to a running build, and follows it."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from pyinfra import logger
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.arguments import ConnectorArguments
from pyinfra.api.command import PyinfraCommand

from deploy.doctor.readings import fields
from deploy.io.local_paths import local_path
from deploy.models import files
from deploy.models.files import weights_path
from deploy.slices.host import EngineSlice, ReplaySlice, Slice
from roles._pyinfra.steps import write
from roles._shipping import units
from roles._shipping.rsync import BY_CONTENT, PROGRESS, RESUMING, rsync_target, transfer
from roles.engines.defaults import Defaults
from roles.engines.facts import BUILDS, BuildState, Present, build_unit
from roles.engines.remote import LogLine, read
from roles.engines.repairing import SendRepairs, python_path


def build(engine: EngineSlice, mine: Slice, facts: Present, settings: Defaults) -> Iterator[PyinfraCommand]:
    """Publishes the engine on the host, unsigned; a running build of the same fingerprint is awaited."""
    unit = build_unit(engine.model)
    if not facts.builds_now(engine.model, engine.fingerprint):
        yield from _make_room(engine, mine, facts.builds.get(engine.model, BuildState()), settings)
        yield from _start(engine, mine, settings)
    yield units.Follow(unit, f"engine {engine.model}", settings.build_seconds, Why(engine))
    gone = f"{engine.path} was built, and is gone again: ls -la {engine.path.rpartition('/')[0]}"
    yield StringCommand(
        f"test -s {shlex.quote(engine.path)}/engine.json || {{ echo {shlex.quote(gone)} >&2; exit 1; }}"
    )


def _make_room(engine: EngineSlice, mine: Slice, going: BuildState, settings: Defaults) -> Iterator[PyinfraCommand]:
    """Waits for a unit that builds another planned engine, and stops one that builds anything else."""
    if not going.unit.is_going:
        return
    unit = build_unit(engine.model)
    planned = [candidate for candidate in mine.engines if candidate.fingerprint == going.fingerprint]
    if planned:
        yield units.Follow(unit, f"engine {engine.model}", settings.build_seconds, Why(planned[0]))
        return
    yield LogLine(f"{unit} builds {going.fingerprint or 'an engine'}, which is no longer planned: it is stopped")
    yield StringCommand(f"systemctl stop {shlex.quote(unit)}")


def _start(engine: EngineSlice, mine: Slice, settings: Defaults) -> Iterator[PyinfraCommand]:
    if engine.calibration:
        yield SendCalibration(local_path(engine.calibration), calibration_path(engine), settings)
    if mine.image.repairs:
        yield SendRepairs(mine.image)
    for path, content in replay_files(engine).items():
        yield write(path, content)
    yield write(f"{BUILDS}/{engine.model}.json", settings_text(engine, mine))
    yield StringCommand(units.start(build_unit(engine.model)))


def settings_text(engine: EngineSlice, mine: Slice) -> str:
    """JSON that the build program reads; it contains no secret."""
    content = {
        "model": engine.model,
        "role": engine.role,
        "fingerprint": engine.fingerprint,
        "name": engine.name,
        "path": engine.path,
        "staging": engine.staging,
        "image": mine.image.pull_reference,
        "devices": engine.devices,
        "fields": engine.fields,
        "steps": [{"stage": step.stage, "argv": step.argv} for step in engine.steps],
        "flags": engine.flags,
        "flags_row": engine.flags_row,
        "mounts": [*(weights_path(weights) for weights in engine.weights), *filter(None, [calibration_path(engine)])],
        "size_mib": engine.size_mib,
        "scratch_mib": engine.scratch_mib,
        "gpu_mib": engine.gpu_mib,
        "shm_mib": max((server.shm_mib for server in mine.servers), default=2048),
        "world_size": engine.world_size,
        "python_path": python_path(mine.image),
        "servers": [server.name for server in mine.servers if set(server.gpus) & set(engine.gpus)],
        "replay": _replay(engine, engine.replay) if engine.replay else None,
    }
    return json.dumps(content, indent=2, sort_keys=False) + "\n"


def _replay(engine: EngineSlice, replay: ReplaySlice) -> dict[str, object]:
    return {
        "prompts": f"{_replay_place(engine)}/prompts.jsonl",
        "answers": "stored" if replay.answers else "",
        "tasks": f"{_replay_place(engine)}/tasks.jsonl" if replay.tasks else "",
        "max_tokens": replay.max_tokens,
        "checkpoint": weights_path(engine.weights[0]),
        "tensor": engine.tensor,
        "pipeline": engine.pipeline,
    }


def replay_files(engine: EngineSlice) -> dict[str, str]:
    """The prompts and tasks by their paths on the host; stored answers for the comparison stay on this machine."""
    if engine.replay is None:
        return {}
    sources = {"prompts": engine.replay.prompts, "tasks": engine.replay.tasks}
    return {
        f"{_replay_place(engine)}/{name}.jsonl": local_path(source).read_text().rstrip("\n") + "\n"
        for name, source in sources.items()
        if source
    }


def _replay_place(engine: EngineSlice) -> str:
    return f"{BUILDS}/{engine.model}.replay"


def calibration_path(engine: EngineSlice) -> str:
    """The path of an engine's calibration texts on the host; empty if the engine needs no texts."""
    if not engine.calibration:
        return ""
    texts = engine.fields.get("calibration")
    digest = texts.get("digest", "") if isinstance(texts, dict) else ""
    assert digest, "a plan with calibration texts was made without reading them"
    return files.calibration_path(str(digest))


class SendCalibration(PyinfraCommand):
    """Sends the calibration texts to the host, if the build mounts them."""

    def __init__(self, source: Path, target: str, settings: Defaults) -> None:
        super().__init__()
        self.source, self.target, self.settings = source, target, settings

    def __repr__(self) -> str:
        return f"rsync {self.source}/ to {self.target}/"

    def execute(self, state: State, host: Host, connector_arguments: ConnectorArguments) -> bool:
        """True once all texts are on the host."""
        host.run_shell_command(StringCommand("mkdir -p", shlex.quote(self.target)), **connector_arguments)
        how, there = rsync_target(host, bool(connector_arguments.get("_sudo")), self.target)
        argv = [*RESUMING, BY_CONTENT, "--delete", *PROGRESS, *how, f"{self.source}/", there]
        return transfer(host, argv, "calibration texts", self.settings)


class Why:
    """Logs why a build ended: the content of its program's why.json, and the end of its log."""

    def __init__(self, engine: EngineSlice) -> None:
        self.engine = engine

    def __call__(self, host: Host, arguments: ConnectorArguments) -> None:
        """Logs the reason under the host's name."""
        left = read(host, f"{self.engine.path}.failed/why.json", arguments)
        for line in explained(self.engine, fields((left or b"").decode("utf-8", "replace"))).splitlines():
            host.log_styled(line, fg="red", log_func=logger.error)


def explained(engine: EngineSlice, why: dict[str, object]) -> str:
    """A failed build in words: cause, remedy, the last lines of its log, and the unchanged parts."""
    if not why:
        return (
            f"engine {engine.model} ({engine.fingerprint}) was not built, and its build left no message\n"
            f"  try    journalctl -u {build_unit(engine.model)} on the host\n"
            f"  state  nothing was published; running servers are not affected"
        )
    log = why.get("log") or []
    facts = {
        "cause": str(why.get("cause", "not known")).splitlines(),
        "log": [str(line) for line in log][-8:] if isinstance(log, list) else [str(log)],
        "kept": [f"{engine.path}.failed/build.log on the host"],
        "try": str(why.get("remedy") or "read the log above").splitlines(),
        "state": ["nothing was published; running servers are not affected"],
    }
    rows = [(name if at == 0 else "", line) for name, lines in facts.items() for at, line in enumerate(lines)]
    details = "\n".join(f"  {name:<5}  {line}" for name, line in rows)
    ended = f": {why['stage']} ended with {why['exit']}" if why.get("exit") else f": {why.get('stage', 'build')}"
    return f"engine {engine.model} ({engine.fingerprint}) was not built{ended}\n{details}"
