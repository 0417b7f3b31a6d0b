"""The steps of the second and third sitting: a deployed server is measured, two GPUs get two layouts."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.slices.host import Slice
from rehearsal.real_gpu import deploy_steps
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import CHECKPOINTS, REPORT, machine, outer_python, planned, real, settings, tell

if TYPE_CHECKING:
    from rehearsal.real_gpu import measure


def measured(name: str) -> Callable[[StepResults], None]:
    """Returns the step that takes this measurement of the one server of the layout `one` (measure.py)."""

    def take(results: StepResults) -> None:
        from rehearsal.real_gpu import measure

        tell(layout="one")
        measure.take(name, _setting(planned()), results)

    return take


def _setting(host: Slice) -> measure.Setting:
    """Returns settings by which the servers of this plan are measured."""
    from rehearsal.real_gpu import measure
    from rehearsal.real_gpu.generating import Shape

    return measure.Setting.of(
        host,
        machine(),
        machine().address,
        CHECKPOINTS,
        python=outer_python(),
        device="cuda:0" if real() else "cpu",
        small=not real(),
        runs=3,
        beside_seconds=10.0,
        empty_mib=empty_mib(),
        **({} if real() else {"prompts": Shape((64, 64), 16)}),
    )


def slot(results: StepResults) -> None:
    """Checks that streamed answers of the LLM keep the contract, and that a disconnect ends only its own request."""
    from rehearsal.real_gpu import slot as streams
    from rehearsal.real_gpu.served import Deployed

    deployed = Deployed(planned().servers[0], machine(), machine().address)
    model = deployed.model("llm")
    running = f'enginehouse_llm_running_requests{{model="{model.name}"}}'
    results["streamed"] = streams.counted(deployed.grpc, model, 200 if real() else 48, 16)
    results["left"] = streams.left(deployed.grpc, model, 100 if real() else 10, lambda: deployed.metrics()[running])
    results["passed"] = results["streamed"]["passed"] and results["left"]["passed"]


def deployed_as(layout: str, name: str) -> Callable[[StepResults], None]:
    """Returns the step that deploys the machine's GPUs in this layout (layouts.py); NAME names its log."""

    def deploy(results: StepResults) -> None:
        deploy_steps.deploy_as(layout, results, name)

    return deploy


def smoked_as(layout: str, name: str) -> Callable[[StepResults], None]:
    """Returns the step that runs the smoke tests against this layout."""

    def smoke(results: StepResults) -> None:
        tell(layout=layout)
        deploy_steps.smoke(results, name)

    return smoke


def loaded_as(layout: str) -> Callable[[StepResults], None]:
    """Returns the step that loads all servers of this layout at once and records their rates."""

    def load(results: StepResults) -> None:
        from rehearsal.real_gpu import layouts
        from rehearsal.real_gpu.served import Deployed

        tell(layout=layout)
        setting, host = _setting(planned()), planned()
        share = layouts.Load(
            prompts=setting.llm_prompts,
            shape=setting.prompts,
            seconds=8.0 if real() else 1.0,
            tokenizers={kind: setting.tokenizer(kind) for kind in setting.encoders},
            small=setting.small,
        )
        servers = [Deployed(server, machine(), machine().address) for server in host.servers]
        results["revived"] = [server.server.name for server in servers if server.revive()]
        if real():
            results["cards"] = layouts.cards(machine(), host)
        with tempfile.TemporaryDirectory(prefix="load-") as work:
            if layout == "one_per_gpu":
                result = layouts.one_per_gpu(servers, share, Path(work))
            else:
                split = found_by("split-load").get("two_servers")
                result = layouts.over_all(servers[0], settings()["gpus"], share, Path(work), split)
        result["passed"] = result["passed"] and all(row["placed"] for row in results.get("cards", ()))
        results.update(result)

    return load


def found_by(name: str) -> dict[str, Any]:
    """Returns results of a step; empty if it has not run here."""
    file = REPORT / f"step-{name}.json"
    return dict(json.loads(file.read_text())["found"]) if file.exists() else {}


def empty_mib() -> int | None:
    """Returns MiB in use before any deploy, from the step `machine`; None if it has no reading."""
    memory = found_by("machine").get("memory_before", {})
    return int(memory["memory.used"]) if "memory.used" in memory else None


def workspaces(results: StepResults) -> None:
    """Measures on an empty card: a bare context, and each encoder at three budgets of tokens."""
    words = [*outer_python(), "-m", "rehearsal.real_gpu.workspaces", str(CHECKPOINTS)]
    words += [] if real() else ["--device", "cpu", "--tokens", "512", "1024"]
    with subprocess.Popen(words, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            results.update(json.loads(line))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
