"""Builds one engine in the release's container and publishes it; run by enginehouse-build@<model>.service.

    host build SETTINGS    {"model", "fingerprint", "path", "staging", "image", "devices", "steps", "replay", …}

Refusals that need no GPU come first: a flag that the image lacks, a full disk or GPU. Everything is made under
`staging` and appears at `path` by one rename, so that a kill or a power cut leaves no partial engine; the next start
begins again. The engine is published unsigned: the control machine judges its answers and signs it, and until then no
server loads it. Only one build runs on a host at a time.

Exit 0: the engine is published, now or earlier. Exit 1: <fingerprint>.failed has build.log and why.json; no other file
changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from host import engine, history, places
from host.build import causes, container, flags, result, room
from host.build.result import Stopped, duration
from host.disk import flush
from host.nvidia_smi import NoAnswer
from host.systemd import say

REPLAY = Path(__file__).resolve().parents[1] / "replay.py"
"""Path inside this version's directory, which is kept while this program runs: a container mounts the file hours later."""
CORRECT = "enginehouse check '<the command>', then correct the inventory, or choose another release"
STORE = (
    "answer the prompts with the published weights on a machine that holds them, and name the file: Replay(answers=…)"
)
TOOLS = ("tensorrt_llm", "tensorrt", "torch", "transformers", "nvidia-modelopt", "safetensors")
VERSIONS = """
import importlib.metadata as m, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
print(json.dumps(found))
"""


def main(arguments: list[str]) -> int:
    """0 once the engine is published; 1 after saving log and reason."""
    build = Build(json.loads(Path(arguments[0]).read_text()))
    if build.is_published():
        return 0
    with alone(build.model):
        if build.is_published():
            return 0
        sweep()
        try:
            build.run()
        except Stopped as stopped:
            result.keep_failure(build.settings, stopped)
            return 1
        except OSError as broken:
            cause = causes.cause_of(1, f"{broken!r} {broken}")
            result.keep_failure(build.settings, Stopped("host", *cause, log=str(broken)))
            return 1
    return 0


@contextlib.contextmanager
def alone(model: str) -> Iterator[None]:
    """Ensures that no other build runs on this host. The kernel releases the lock when the process ends."""
    lock = places.ROOT / "engines" / ".build.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            say(f"waiting for the build of {handle.read().strip() or 'another model'} on this host")
            fcntl.flock(handle, fcntl.LOCK_EX)
        handle.truncate(0)
        handle.write(model)
        handle.flush()
        yield


def sweep() -> None:
    """Removes the remains of killed builds: their containers, and their staging directories of any model."""
    container.sweep()
    for abandoned in (places.ROOT / "engines").glob("*/.*.staging"):
        shutil.rmtree(abandoned)


class Build:
    """A build, from its settings to the published directory."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings, self.model, self.replay = settings, settings["model"], settings.get("replay") or {}
        self.path, self.staging = Path(settings["path"]), Path(settings["staging"])
        self.engine, self.work = self.staging / "engine", self.staging / "work"
        self.failed = self.path.with_name(f"{self.path.name}.failed")
        self.seconds: dict[str, float] = {}
        self.began = self.wall = 0.0
        self.stages: list[str] = []
        self.tools: dict[str, str] = {}
        self.gpus: list[room.Gpu] = []

    def is_published(self) -> bool:
        """True if the engine exists, every file with its size; an incomplete one is moved aside."""
        if not self.path.exists():
            return False
        try:
            record = json.loads((self.path / engine.RECORD).read_text())
            wrong = engine.differing(self.path, record["files"], quick=True)
        except (OSError, ValueError, KeyError, RecursionError) as problem:
            wrong = [f"{engine.RECORD} cannot be read: {problem}"]
        if wrong:
            print(engine.refuse(self.path, wrong[0]), file=sys.stderr)
            return False
        shutil.rmtree(self.staging, ignore_errors=True)  # left by an interruption between the rename and the cleanup
        say(f"{self.path} is published already")
        return True

    def run(self) -> None:
        """Builds and publishes the engine. Raises Stopped if that fails."""
        self.began, self.wall = time.monotonic(), time.time()
        self.require_room()
        self.prepare()
        with (self.staging / "build.log").open("ab", buffering=0) as self.log:
            self.require_flags()
            reference = self.reference_wanted()
            steps = [step["stage"] for step in self.settings["steps"]]
            self.stages = [*(["reference"] if reference else []), *steps, *(["replay"] if self.replay else [])]
            if reference:
                self.answer(["--checkpoint", self.replay["checkpoint"]], "reference")
                self.cache_reference()
            for step in self.settings["steps"]:
                self.step(step["stage"], step["argv"])
            self.ranks()
            if self.replay:
                self.answer(["--engine", str(self.engine)], "replay")
        self.publish()

    def require_room(self) -> None:
        """Checks the disk, and the free memory on the right GPUs. Raises Stopped with the programs that use them."""
        wanted, devices = self.settings, self.settings["devices"]
        say("looking for room")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if problem := room.disk_problem(self.path.parent, wanted["scratch_mib"] + wanted.get("size_mib", 0)):
            raise Stopped("room", *split(problem))
        try:
            here = room.gpus()
        except NoAnswer as silent:
            raise Stopped("room", f"the GPU is unknown: nvidia-smi failed: {silent}", "nvidia-smi on the host") from None
        for device in filter(room.is_slice, devices):
            print(f"{device} is a MIG instance: nvidia-smi does not report its free memory; nothing was checked")
        self.gpus = room.chosen(devices, here)
        whole = room.chosen([device for device in devices if not room.is_slice(device)], here)
        problem = (
            room.absent_problem(devices, here)
            or room.sm_problem(self.gpus, str(wanted["fields"].get("sm", "")).replace(".", ""))
            or room.gpu_problem(whole, wanted["gpu_mib"], wanted["servers"])
        )
        if problem:
            raise Stopped("room", *split(problem))

    def prepare(self) -> None:
        """Makes an empty staging directory; the directories for the steps' output belong to the container's user."""
        self.staging.mkdir(parents=True)
        self.staging.chmod(0o755)
        words = [Path(word) for step in self.settings["steps"] for word in step["argv"]]
        inside = [word.relative_to(self.staging).parts[:1] for word in words if word.is_relative_to(self.staging)]
        for name in {"engine", "home", "work", *(first for parts in inside for first in parts)}:
            (self.staging / name).mkdir()
            os.chown(self.staging / name, container.UID, container.UID)
        for name in ("prompts", "tasks"):
            if self.replay and self.replay.get(name):
                shutil.copyfile(self.replay[name], self.work / f"{name}.jsonl")
                (self.work / f"{name}.jsonl").chmod(0o644)

    def require_flags(self) -> None:
        """Checks that every flag and choice of the plan is in the image's `--help`. Raises Stopped with the missing
        ones."""
        say("reading the image's flags")
        row, helps, wrong = self.settings.get("flags_row", ""), dict[tuple[str, ...], str](), list[str]()
        for step in self.settings["steps"]:
            program = flags.program_of(step["argv"])
            if tuple(program) not in helps:
                status, output = container.quietly([*self.command_line(), *program, "--help"])
                if status:
                    cause, remedy = causes.cause_of(status, output)
                    cause = f"`{' '.join(program)} --help` in the image: {cause}"
                    raise Stopped("flags", cause, remedy, status, output)
                helps[tuple(program)] = output
            wrong += flags.problems(step["argv"], helps[tuple(program)], row)
        if wrong:
            raise Stopped("flags", "\n".join(wrong), CORRECT)
        _, output = container.quietly([*self.command_line(), "python3", "-c", VERSIONS, *TOOLS])
        with contextlib.suppress(ValueError, IndexError):
            self.tools = json.loads(output.strip().splitlines()[-1])

    def step(self, stage: str, argv: list[str], read_only: tuple[str, ...] = ()) -> None:
        """Runs a command to its end. Raises Stopped with a cause and a remedy."""
        number, began, kills = self.stages.index(stage) + 1, time.monotonic(), causes.oom_kills()
        self.log.write(f"== {stage} {number} of {len(self.stages)}: {' '.join(argv)}\n".encode())

        def progress(line: str) -> None:
            say(f"{stage} {number} of {len(self.stages)}, {duration(time.monotonic() - self.began)}: {line}")

        status, output = container.run([*self.command_line(*read_only), *argv], self.log, progress)
        self.seconds[stage] = round(time.monotonic() - began, 1)
        if status:
            cause, remedy = causes.cause_of(status, output, causes.oom_kills() - kills)
            remedy = STORE if stage == "reference" else remedy
            raise Stopped(stage, cause, remedy, exit_status=status, log=output)

    def command_line(self, *read_only: str) -> list[str]:
        return container.options(self.settings, self.staging, list(read_only))

    def answer(self, model: list[str], stage: str) -> None:
        """Writes answers.jsonl, or the checkpoint's reference.jsonl, into the staging directory."""
        name = "reference.jsonl" if stage == "reference" else "answers.jsonl"
        argv = ["python3", str(REPLAY), *model, "--prompts", str(self.work / "prompts.jsonl")]
        if stage == "replay" and self.replay.get("tasks"):
            argv += ["--tasks", str(self.work / "tasks.jsonl")]
        argv += ["--tokenizer", self.replay["checkpoint"], "--max-tokens", str(self.replay["max_tokens"])]
        argv += ["--tensor", str(self.replay["tensor"]), "--pipeline", str(self.replay["pipeline"])]
        self.step(stage, [*argv, "--output", str(self.work / name)], (str(REPLAY), self.replay["checkpoint"]))
        result.require_plain_file(self.work / name)
        shutil.copyfile(self.work / name, self.staging / name)

    def reference_wanted(self) -> bool:
        """True if the checkpoint has to answer first: neither the inventory nor an earlier build stored answers."""
        if not self.replay or self.replay.get("answers"):
            return False
        if self.cached().exists():
            shutil.copyfile(self.cached(), self.staging / "reference.jsonl")
            return False
        if (self.settings["fields"].get("checkpoint") or {}).get("kind") == "trtllm":
            raise Stopped(
                "reference", "a finished TensorRT-LLM checkpoint cannot answer before an engine is built of it", STORE
            )
        return True

    def cached(self) -> Path:
        """The file with the checkpoint's own answers to these prompts."""
        key = Path(self.replay["prompts"]).read_bytes() + f"\n{self.replay['max_tokens']}".encode()
        revision = Path(self.replay["checkpoint"]).name
        folder: Path = places.ROOT / "answers" / self.model
        return folder / f"{revision}-{hashlib.sha256(key).hexdigest()[:16]}.jsonl"

    def cache_reference(self) -> None:
        """Saves the checkpoint's answers for the next build with the same prompts."""
        self.cached().parent.mkdir(parents=True, exist_ok=True)
        new = self.cached().with_suffix(".new")
        shutil.copyfile(self.staging / "reference.jsonl", new)
        flush(new, follow=False)
        new.rename(self.cached())

    def ranks(self) -> None:
        """Confirms an engine file for each rank, and the configuration. Raises Stopped if the last step left fewer."""
        names = ["config.json", *(f"rank{rank}.engine" for rank in range(self.settings["world_size"]))]
        missing = [name for name in names if not (self.engine / name).is_file()]
        if missing:
            log = (self.staging / "build.log").read_text(errors="replace")
            cause = f"the last step succeeded without writing {', '.join(missing)}"
            raise Stopped(self.settings["steps"][-1]["stage"], cause, causes.READ, 0, log)

    def publish(self) -> None:
        """Moves the engine to its path, durably and as a whole."""
        say("writing checksums")
        built = {
            "began": history.moment(self.wall),
            "ended": history.moment(time.time()),
            "seconds": self.seconds,
            "driver": self.gpus[0].driver if self.gpus else "",
            "gpu": self.gpus[0].name if self.gpus else "",
            "tools": self.tools,
        }
        result.publish(self.settings, self.staging, built)
        shutil.rmtree(self.failed, ignore_errors=True)
        say(f"published {self.settings['name']}, unsigned, after {duration(time.monotonic() - self.began)}")


def split(problem: str) -> tuple[str, str]:
    """A problem of build_room, and the line of advice (`try`) separately."""
    cause, _, remedy = problem.partition("\n  try     ")
    return cause, remedy
