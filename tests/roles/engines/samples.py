"""Engine slices as in a plan, and hosts' answers about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.slices.host import BuildStep, EngineSlice, ReplaySlice, Slice, WeightsSlice
from deploy.spec import EngineTrust
from roles.engines.programs import texts
from tests.roles.slices import a_slice

WEIGHTS = WeightsSlice(
    model="llama", repository="a/b", revision="1" * 40, directory="", fetch_on="host", files=("*",), size_mib=1
)
FINGERPRINT = "3f9c" * 4
PATH = f"/var/lib/enginehouse/engines/llama/{FINGERPRINT}"
UNJUDGED = "a test compares no answers"
UNIT = "enginehouse-build@llama.service"


def an_engine(fingerprint: str = FINGERPRINT, sm: str = "90", **changes: Any) -> EngineSlice:
    """An engine of the model `llama`."""
    whole = EngineSlice(
        model="llama",
        role="target",
        fingerprint=fingerprint,
        fields={"max_batch_size": 32, "sm": sm},
        name=f"llama-fp8-tp1-26.07-sm{sm}-{fingerprint}",
        path=f"/var/lib/enginehouse/engines/llama/{fingerprint}",
        staging=f"/var/lib/enginehouse/engines/llama/.{fingerprint}.staging",
        precision="fp8",
        kv_dtype="fp8",
        tensor=1,
        pipeline=1,
        expert=1,
        sm=sm,
        gpus=(0,),
        devices=("nvidia.com/gpu=0",),
        steps=(BuildStep(stage="build", argv=("trtllm-build", "--max_batch_size", "32")),),
        flags=(("max_batch_size", "32"),),
        flags_row="1.2.1",
        weights=(WEIGHTS,),
        calibration="",
        size_mib=100,
        scratch_mib=200,
        gpu_mib=300,
        host_mib=400,
        unjudged="" if changes.get("replay") else UNJUDGED,
    )
    return replace(whole, **changes)


def a_replay(folder: Path, **changes: Any) -> ReplaySlice:
    """A replay with stored answers for two prompts."""
    (folder / "prompts.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    (folder / "answers.jsonl").write_text(
        '{"prompt": "one", "tokens": [1, 2, 3]}\n{"prompt": "two", "tokens": [4, 5]}\n'
    )
    whole = ReplaySlice(
        prompts=str(folder / "prompts.jsonl"),
        answers=str(folder / "answers.jsonl"),
        max_tokens=8,
        equal_percent=90.0,
        tasks="",
        minimum_percent=0.0,
    )
    return replace(whole, **changes)


def slices(trust: EngineTrust, *names: str, engine: EngineSlice | None = None, **changes: Any) -> tuple[Slice, ...]:
    """A slice for each host, all with the same engine."""
    wanted = engine or an_engine()
    return tuple(
        a_slice(host=f"@fake/{name}", engine_trust=trust, engines=(wanted,), **changes) for name in names or ("host",)
    )


def placed(trust: EngineTrust) -> str:
    """The answer of a host with the right programs, unit and signers."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in texts(trust))


def saying(engine: str = "", build: str = "build=llama\nActiveState=inactive") -> str:
    """A host's answer about its engine and its build unit."""
    return f"{engine}\n{build}".strip()


SIGNED = f"engine={PATH}\nsealed=yes"
UNSIGNED = f"engine={PATH}\nproblem=engine.json has no signature"
FOREIGN = f"engine={PATH}\nsealed=yes\nproblem=engine.json was signed by nobody we believe"
GOING = f"build=llama\nfingerprint={FINGERPRINT}\nActiveState=activating\nStatusText=build 1 of 1"
