"""Measures a deployed server on the machine with the real GPU; each step writes its file (report.py).

    python -m rehearsal.real_gpu.measure STEP... --inventory FILE --host NAME --weights FOLDER --into FOLDER

    memory      each model's memory, by the step of used memory around its load, beside the plan
    filled      the LLM's cache filled to the planned tokens while both encoders run full passes
    encoders    the encoders beside a Triton without a container, and with the LLM generating beside them

The clients run here, the server on the rehearsal machine `--host`. `--python` is the command of the Python on the
machine with the GPU, for the server without a container; `--weights-there` is its path of the weights. That Python also
measures the encoders' memory without Triton: `workspaces.py`.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import cases, clients
from benchmarks.runs import Runs
from deploy.models.cards import planned_card
from deploy.slices.host import ModelSlice, Slice
from rehearsal.real_gpu import report, speed
from rehearsal.real_gpu.card import Machine
from rehearsal.real_gpu.filled import filled
from rehearsal.real_gpu.generating import Prompts, Shape, generating
from rehearsal.real_gpu.memory import memory_by_model
from rehearsal.real_gpu.passes import full_passes
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import planned
from rehearsal.real_gpu.served import Deployed, plain

CLIENT_PROCESSES = 8
PASS_SECONDS = 4.0
PROMPTS = Shape((512,) * 16, 512)
"""The LLM's load while the encoders' speed is measured."""
Record = dict[str, Any]
Tell = Callable[[Record], None]


@dataclass(frozen=True)
class Setting:
    """A deployed server and the settings of its measurement."""

    deployed: Deployed
    usable_mib: int
    """MiB of the card that CUDA can use."""
    weights: Path
    """A directory for each planned model, named like its repository; paths of this computer."""
    python: tuple[str, ...] = (sys.executable,)
    """The words that start the Python of the machine with the GPU in this checkout, before `-m`."""
    weights_there: str = ""
    """The path of `weights` inside that Python's container; the same path by default."""
    device: str = "cuda:0"
    seconds: float = 1.0
    """Seconds of one run of a case."""
    runs: int = 5
    cases: tuple[str, ...] = ()
    """Short names of benchmarks/cases.py; those of its table by default."""
    beside_seconds: float = 20.0
    """Seconds of full passes beside a filled cache."""
    empty_mib: int | None = None
    """MiB in use while nothing runs on the card; by default read with the server stopped."""
    fill_within_seconds: float = 180.0
    """Most seconds for filling the cache."""
    small: bool = False
    """Few clients and short requests, for a CPU."""
    prompts: Shape = PROMPTS

    @classmethod
    def of(cls, mine: Slice, machine: Machine, address: str, weights: Path, **more: Any) -> Setting:
        """Returns the setting of a host's first server, which listens at `address`."""
        usable = planned_card(mine.machine).usable_mib
        return cls(Deployed(mine.servers[0], machine, address), usable, weights, **more)

    def tokenizer(self, kind: str) -> Path:
        """Returns the tokenizer of the planned model of this kind."""
        return self.weights / directory(self.deployed.model(kind)) / "tokenizer.json"

    @property
    def encoders(self) -> list[str]:
        return [model.kind for model in self.deployed.server.models if model.kind != "llm"]

    @property
    def llm_prompts(self) -> Prompts:
        """Returns random prompts in the LLM's tokens."""
        return Prompts(self.tokenizer("llm"))


def directory(model: ModelSlice) -> str:
    """Returns the last part of the name of the model's repository."""
    return model.weights.repository.rsplit("/", 1)[-1]


def memory(setting: Setting, work: Path, tell: Tell) -> Record:
    """Measures memory of each model, beside the plan; see memory.py."""
    deployed, tokenizers = setting.deployed, {kind: setting.tokenizer(kind) for kind in setting.encoders}
    with full_passes(tokenizers, work, setting.small) as passes:

        def drive(model: ModelSlice) -> None:
            if model.kind != "llm":
                passes.drive(deployed, [model.kind], setting.seconds if setting.small else PASS_SECONDS)
                return
            with generating(deployed.http, model, setting.prompts, setting.llm_prompts) as seen:
                seen.wait_until_held(sum(setting.prompts.prompts), setting.deployed.server.start_seconds)
            assert not seen.errors, seen.errors[0]

        return memory_by_model(deployed, drive, setting.usable_mib, setting.empty_mib, tell)


def fill(setting: Setting, work: Path, tell: Tell) -> Record:
    """Fills the cache while both encoders run full passes; see filled.py."""
    tokenizers = {kind: setting.tokenizer(kind) for kind in setting.encoders}
    with full_passes(tokenizers, work, setting.small) as passes:
        return filled(
            setting.deployed,
            passes,
            setting.llm_prompts,
            setting.beside_seconds,
            setting.usable_mib,
            setting.fill_within_seconds,
        )


def encoders(setting: Setting, work: Path, tell: Tell) -> Record:
    """Measures the encoders beside a Triton without a container, and beside the generating LLM; see speed.py."""
    deployed, there = setting.deployed, Path(setting.weights_there or setting.weights)
    chosen = [case for case in cases.chosen(list(setting.cases), setting.small) if case.kind in setting.encoders]
    workloads = [cases.write(case, setting.tokenizer(case.kind), work) for case in chosen]
    models = [deployed.model(kind) for kind in setting.encoders]
    places = {model.name: str(there / directory(model)) for model in models}
    how = Runs("grpc", setting.runs, setting.seconds, "cuda:0" if shutil.which("nvidia-smi") else "cpu")
    inside = deployed.kernels()
    tell({"kernels": {"container": inside}})
    with clients.processes(1 if setting.small else CLIENT_PROCESSES) as crowd:
        first = speed.encoder_speed(
            deployed,
            lambda: speed.bare_server(deployed.server, places, setting.python, setting.device),
            workloads,
            crowd,
            how,
            setting.usable_mib,
            tell,
        )
        alone = {row["case"]: row["container"] for row in first["cases"]}
        prompts = setting.llm_prompts
        second = speed.beside_llm(deployed, workloads, crowd, how, prompts, setting.prompts, alone, tell)
    sides = {"container": inside, "bare": first.pop("kernels")}
    problems = kernel_problems(sides, [model.name for model in models])
    passed = first["passed"] and second["passed"] and not problems
    return first | second | {"kernels": sides, "kernel_problems": problems, "passed": passed}


def kernel_problems(sides: Mapping[str, Mapping[str, list[str]]], models: Sequence[str]) -> list[str]:
    """Returns reasons that prevent a comparison of the sides (container, bare): plain steps, or different kernels."""
    results = []
    for side, chosen in sides.items():
        for model in models:
            if model not in chosen:
                results.append(f"{side}, {model}: its log names no kernels")
            results += [f"{side}, {model}: {choice}" for choice in plain(chosen.get(model, []))]
    first, *others = ([chosen.get(model) for model in models] for chosen in sides.values())
    if any(problems != first for problems in others):
        results.append("the encoders run other kernels in the container than without one")
    return results


MEASURES = {"memory": memory, "filled": fill, "encoders": encoders}


def take(name: str, setting: Setting, results: StepResults) -> None:
    """Runs the step of this name and writes its findings to `results` as they come. Raises: the step's exception."""
    if setting.deployed.revive():
        results["revived"] = True
    with tempfile.TemporaryDirectory(prefix="measure-") as work:
        result = MEASURES[name](setting, Path(work), results.update)
    if setting.small:
        result["passed"] = True  # figures of a stand-in are not judged
    results.update(result)


def facts(setting: Setting) -> Record:
    """Returns facts of this machine, and of the serving machine's card."""
    return report.this_machine(lambda command: setting.deployed.machine.run(command, check=False).stdout)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m rehearsal.real_gpu.measure", description=__doc__.split("\n")[0])
    made.add_argument("steps", nargs="+", choices=list(MEASURES))
    made.add_argument("--inventory", required=True)
    made.add_argument("--host", required=True, help="the rehearsal machine, as the inventory names it")
    made.add_argument("--weights", type=Path, required=True, help="a directory for each model, named as its repository")
    made.add_argument("--weights-there", default="")
    made.add_argument("--python", default=sys.executable)
    made.add_argument("--into", type=Path, required=True, help="folder of the steps' files")
    made.add_argument("--cases", nargs="*", default=[], choices=[*cases.NAMED, []])
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--seconds", type=float, default=1.0)
    made.add_argument("--beside-seconds", type=float, default=20.0, help="of full passes beside the filled cache")
    made.add_argument("--small", action="store_true", help="few clients and short requests, for a CPU")
    return made


def main(words: list[str] | None = None) -> int:
    """Runs the steps; returns 0 if all of them passed."""
    from rehearsal import machines

    options = parser().parse_args(words)
    machine = machines.named(options.host)
    setting = Setting.of(planned(options.inventory, options.host), machine, machine.address, options.weights)
    setting = replace(
        setting,
        python=tuple(shlex.split(options.python)),
        weights_there=options.weights_there,
        device="cpu" if options.small else "cuda:0",
        seconds=options.seconds,
        runs=options.runs,
        cases=tuple(options.cases),
        beside_seconds=options.beside_seconds,
        small=options.small,
        prompts=Shape((64,) * 2, 16) if options.small else PROMPTS,
    )
    passed = True
    for step in options.steps:
        with report.step(step, options.into, facts(setting)) as results:
            take(step, setting, results)
        passed = passed and results.get("passed", True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
