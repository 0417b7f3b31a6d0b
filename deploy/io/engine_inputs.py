"""Examines everything on the control machine that a build and its judgement need, before a host is touched.

A build takes an hour, so a missing key, prompt file or program must be reported before it starts. Only for runs
that deploy: a plan can be read without a key.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from deploy.io.local_paths import is_directory, is_file, local_path, sibling
from deploy.refusals import Refusal, refuse, together
from deploy.rollout import replay
from deploy.slices.host import EngineSlice, ReplaySlice, Slice
from deploy.spec import EngineStore, EngineTrust


def input_problems(slices: Iterable[Slice], root: Path) -> list[Refusal]:
    return together((slice_.host, problem) for slice_ in slices for problem in _of_host(slice_, root))


def _of_host(slice_: Slice, root: Path) -> Iterator[Refusal]:
    for model in (model for server in slice_.servers for model in server.models if model.replay):
        yield from _replay_problems(model.name, model.replay, root) if model.replay else ()
    if slice_.engines:
        yield from _of_engines(slice_, root)


def _of_engines(slice_: Slice, root: Path) -> Iterator[Refusal]:
    if slice_.engine_trust:
        yield from _trust_problems(slice_.engine_trust, root)
    if slice_.engine_store:
        yield from _store_problems(slice_.engine_store, root)
    for engine in slice_.engines:
        yield from _calibration_problems(engine, root)
        if engine.replay:
            yield from _replay_problems(engine.model, engine.replay, root)


def _trust_problems(trust: EngineTrust, root: Path) -> Iterator[Refusal]:
    if not shutil.which("ssh-keygen"):
        yield _no_program("ssh-keygen", "engine_trust", "apt-get install openssh-client")
    key = local_path(trust.key, root)
    if not is_file(key) and not is_file(sibling(key, ".pub")):
        yield refuse(
            "no-signing-key",
            f"no engine can be signed: there is no key {trust.key}",
            where="engine_trust.key",
            seen="no such file",
            wanted="a private key of ssh-keygen, or the .pub file of one in your agent",
            attempt=f"ssh-keygen -t ed25519 -N '' -C engines -f {trust.key}",
        )


def _store_problems(store: EngineStore, root: Path) -> Iterator[Refusal]:
    if store.kind == "directory" and not is_directory(local_path(store.place, root)):
        yield refuse(
            "no-engine-store",
            f"the engine store {store.place} is not a directory of this machine",
            where="engine_store",
            seen="no such directory",
            wanted="a directory of this machine, such as a mounted share",
            attempt=f"mount it, or mkdir -p {store.place}",
        )
    if store.kind != "directory" and not shutil.which(store.kind):
        yield _no_program(store.kind, "engine_store", f"apt-get install {store.kind}")


def _calibration_problems(engine: EngineSlice, root: Path) -> Iterator[Refusal]:
    if engine.calibration and not is_directory(local_path(engine.calibration, root)):
        yield refuse(
            "no-calibration",
            f"{engine.model}: the calibration texts are not a directory of this machine",
            where=f"{engine.model}.calibration.directory",
            seen=f"no directory {engine.calibration}",
            wanted="a dataset saved with the `datasets` library",
            attempt="correct the path, or save one there",
        )


def _replay_problems(model: str, wanted: ReplaySlice, root: Path) -> Iterator[Refusal]:
    for name, reader in _READERS.items():
        path = getattr(wanted, name)
        if path and (reason := _unreadable(local_path(path, root), reader)):
            yield refuse(
                "replay-file",
                f"{model}: the {name} of its replay cannot be read",
                where=f"{model}.replay.{name} = {path}",
                seen=reason,
                wanted=_WANTED[name],
                attempt="correct the path or the line",
            )


_WANTED = {
    "prompts": 'a JSON object {"prompt": …} on each line',
    "answers": 'a JSON object {"prompt": …, "tokens": […]} on each line',
    "tasks": 'a JSON object {"prompt": …, "expected": regular expression} on each line',
}


_READERS: dict[str, Callable[[str], object]] = {
    "prompts": replay.prompts,
    "answers": replay.answers,
    "tasks": replay.tasks,
}


def _unreadable(path: Path, reader: Callable[[str], object]) -> str:
    """The reason why the file cannot be used; empty if it can be read and is not empty."""
    if not is_file(path):
        return "no such file"
    try:
        return "" if reader(path.read_text("utf-8")) else "an empty file"
    except (ValueError, KeyError, TypeError, re.error) as problem:
        return f"{type(problem).__name__}: {problem}"


def _no_program(name: str, where: str, attempt: str) -> Refusal:
    return refuse(
        "no-program",
        f"this machine has no {name}",
        where=where,
        seen=f"no {name} on PATH",
        wanted=f"{name}, which runs here and not on a host",
        attempt=attempt,
    )
