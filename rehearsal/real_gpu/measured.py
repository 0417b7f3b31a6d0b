"""The steps of the second and third sitting: a deployed server is measured, two GPUs are laid out in two ways."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.slices.host import Slice
from rehearsal.real_gpu import happenings
from rehearsal.real_gpu.report import Found
from rehearsal.real_gpu.scene import CHECKPOINTS, REPORT, machine, outer_python, planned, real, settings, tell

if TYPE_CHECKING:
    from rehearsal.real_gpu import measure


def measured(name: str) -> Callable[[Found], None]:
    """The step that takes this measure of the one server of the layout `one` (measure.py)."""

    def take(found: Found) -> None:
        from rehearsal.real_gpu import measure

        tell(layout="one")
        measure.take(name, _setting(planned()), found)

    return take


def _setting(host: Slice) -> measure.Setting:
    """How the servers of this plan are measured."""
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


def slot(found: Found) -> None:
    """Streamed answers of the LLM bring what the contract promises, and who leaves ends his own."""
    from rehearsal.real_gpu import slot as streams
    from rehearsal.real_gpu.served import Deployed

    deployed = Deployed(planned().servers[0], machine(), machine().address)
    model = deployed.model("llm")
    running = f'enginehouse_llm_running_requests{{model="{model.name}"}}'
    found["streamed"] = streams.counted(deployed.grpc, model, 200 if real() else 48, 16)
    found["left"] = streams.left(deployed.grpc, model, 100 if real() else 10, lambda: deployed.metrics()[running])
    found["passed"] = found["streamed"]["passed"] and found["left"]["passed"]


def deployed_as(layout: str, name: str) -> Callable[[Found], None]:
    """The step that deploys the machine's GPUs in this layout (layouts.py); NAME is of its log."""

    def deploy(found: Found) -> None:
        happenings.deploy_as(layout, found, name)

    return deploy


def smoked_as(layout: str, name: str) -> Callable[[Found], None]:
    """The step that runs the smoke tests against this layout."""

    def smoke(found: Found) -> None:
        tell(layout=layout)
        happenings.smoke(found, name)

    return smoke


def loaded_as(layout: str) -> Callable[[Found], None]:
    """The step that loads all servers of this layout at once, and says what they gave."""

    def load(found: Found) -> None:
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
        found["revived"] = [server.server.name for server in servers if server.revive()]
        if real():
            found["cards"] = layouts.cards(machine(), host)
        with tempfile.TemporaryDirectory(prefix="load-") as work:
            if layout == "one_per_gpu":
                result = layouts.one_per_gpu(servers, share, Path(work))
            else:
                split = found_by("split-load").get("two_servers")
                result = layouts.over_all(servers[0], settings()["gpus"], share, Path(work), split)
        result["passed"] = result["passed"] and all(row["placed"] for row in found.get("cards", ()))
        found.update(result)

    return load


def found_by(name: str) -> dict[str, Any]:
    """What a step has found; nothing where it has not run here."""
    file = REPORT / f"step-{name}.json"
    return dict(json.loads(file.read_text())["found"]) if file.exists() else {}


def empty_mib() -> int | None:
    """MiB in use before anything was deployed, as the step `machine` read; None where it read none."""
    said = found_by("machine").get("memory_before", {})
    return int(said["memory.used"]) if "memory.used" in said else None


def workspaces(found: Found) -> None:
    """What an empty card gives: a bare context, and each encoder at three budgets of tokens."""
    words = [*outer_python(), "-m", "rehearsal.real_gpu.workspaces", str(CHECKPOINTS)]
    words += [] if real() else ["--device", "cpu", "--tokens", "512", "1024"]
    with subprocess.Popen(words, text=True, stdout=subprocess.PIPE) as told:
        assert told.stdout is not None
        for line in told.stdout:
            found.update(json.loads(line))
    if told.returncode:
        raise subprocess.CalledProcessError(told.returncode, words)
