"""The steps of the fourth sitting: vLLM is the LLM, in a separate container beside Triton with both encoders.

On a card `vllm serve` is the real program; a dry pass uses a stand-in and does not judge its answers.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from deploy.catalog import GPUS
from deploy.slices.host import ModelSlice, ServerSlice, Slice
from deploy.slices.runtime import RuntimeSlice
from rehearsal import gateway
from rehearsal.places import RehearsalRefused
from rehearsal.real_gpu import card, deploy_steps
from rehearsal.real_gpu.gateway_streams import Answer, Body, all_at_once, stream_of, under_way
from rehearsal.real_gpu.generating import Prompts
from rehearsal.real_gpu.report import StepResults
from rehearsal.real_gpu.scene import CHECKPOINTS, REPORT, machine, planned, real, settings

WITHIN_PERCENT = 5
LEAST_USED = 0.95
"""Share of the cache's blocks from which it is full."""
FILL_ANSWER = 640
SERVES_SECONDS = 400
COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
STARTED = "systemctl show -P InvocationID {}.service"
CITIES = ["Bergen", "Lima", "Nairobi", "Osaka"]
SCHEMA: Body = {
    "type": "object",
    "properties": {"city": {"enum": CITIES}, "days": {"enum": [1, 2, 3]}, "wants_rain": {"type": "boolean"}},
    "required": ["city", "days", "wants_rain"],
    "additionalProperties": False,
}
TOOL: Body = {"type": "function", "function": {"name": "forecast", "description": "Weather.", "parameters": SCHEMA}}


def deploy(results: StepResults) -> None:
    """Deploys both encoders in Triton with the LLM beside it, and waits for answers."""
    deploy_steps.deploy_as("beside", results, "beside-deploy")
    results["llm_seconds"] = llm_seconds()
    results["containers"] = containers()
    results["program"] = says("journalctl -u llm@main -o cat | grep -m 1 -i -E 'version|stand-in'")


def deploy_again(results: StepResults) -> None:
    """Checks that a second run changes nothing and restarts neither unit."""
    before = starts()
    deploy_steps.deploy_again(results, "beside-again")
    results["restarted"] = starts() != before
    results["passed"] = not results["restarted"]


def doctor(results: StepResults) -> None:
    """Checks that the doctor finds only holes of the containerd in the rehearsal's archive (doctor.json)."""
    with contextlib.suppress(RehearsalRefused):
        deploy_steps.doctor(results)
    report = json.loads((REPORT / "doctor.json").read_text())
    results["findings"] = [finding["id"] for findings in report["hosts"].values() for finding in findings]
    results["passed"] = not report["not_asked"] and set(results["findings"]) <= {"hole-known"}


def smoke(results: StepResults) -> None:
    """Runs the smoke tests."""
    deploy_steps.smoke(results, "beside-smoke")


def chat(results: StepResults) -> None:
    """Runs streamed chats through the gateway: plain ones, calls of a tool, and answers in a JSON schema."""
    kinds: dict[str, tuple[Body, Callable[[Answer], str]]] = {
        "plain": ({"max_tokens": 48, "ignore_eos": True}, lambda answer: "" if answer.tokens == 48 else "other length"),
        "tools": ({"tools": [TOOL], "tool_choice": "required", "max_tokens": 400}, _wrong_call),
        "named_tool": (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "forecast"}}, "max_tokens": 400},
            _wrong_call,
        ),
        "json": (
            {
                "response_format": {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA}},
                "max_tokens": 400,
            },
            lambda answer: _wrong_value(answer.text),
        ),
    }
    passed = True
    for name, (body, wrong) in kinds.items():
        bodies = [
            body | {"model": llm()[0].name, "seed": number, "messages": _asks(f"Trip number {number}")}
            for number in range(8)
        ]
        answers = all_at_once(opened(), CHATS, bodies)
        # Random weights may write white space up to the token limit; such an incomplete answer is not judged.
        ended = [answer for answer in answers if answer.is_whole and (name == "plain" or answer.finish != "length")]
        problems = [problem for answer in ended if (problem := wrong(answer))]
        problems += [answer.trouble or "no end" for answer in answers if not answer.is_whole]
        results[name] = {
            "asked": len(answers),
            "ended": len(ended),
            "problems": problems,
            "first_token_s": sorted(answer.first_seconds for answer in answers),
            "one": answers[0].to_json(),
        }
        passed = passed and bool(ended) and not problems
    results["passed"] = passed or not real()


def _asks(text: str) -> list[Body]:
    return [{"role": "user", "content": text}]


def _wrong_call(answer: Answer) -> str:
    """Returns the fault of an answer that should be a call of the tool; empty for a right call."""
    calls = list(answer.calls.values())
    if answer.finish not in ("tool_calls", "stop") or not calls or {call["name"] for call in calls} != {"forecast"}:
        return f"finish {answer.finish}, calls {calls}, text {answer.text[:80]!r}"
    return next(filter(None, (_wrong_value(call["arguments"]) for call in calls)), "")


def _wrong_value(text: str) -> str:
    """Returns the fault of a text that should be an object of SCHEMA."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"{error}: {text[:80]!r}"
    is_right = (
        isinstance(value, dict)
        and set(value) == set(SCHEMA["required"])
        and value["city"] in CITIES
        and value["days"] in (1, 2, 3)
        and isinstance(value["wants_rain"], bool)
    )
    return "" if is_right else f"not of the schema: {text[:80]!r}"


def filled(results: StepResults) -> None:
    """Fills the LLM's cache while both encoders run full passes; compares both containers' memory with the plan."""
    from rehearsal.real_gpu.passes import full_passes
    from rehearsal.real_gpu.served import Deployed

    model, runtime = llm()
    deployed, before, since = Deployed(server(), machine(), machine().address), starts(), _now()
    bodies, goal = _filling(model, runtime)
    tokenizers = {kind: CHECKPOINTS / name / "tokenizer.json" for kind, name in encoders().items()}
    results["tokens"] = {"planned": model.kv_cache_tokens, "asked": goal, "sequences": len(bodies)}
    with (
        tempfile.TemporaryDirectory(prefix="beside-") as work,
        full_passes(tokenizers, Path(work), not real()) as passes,
        card.watched(lambda: _look(runtime, model)) as samples,
        under_way(opened(), COMPLETIONS, bodies, 120) as answers,
    ):
        readings = passes.drive(deployed, list(passes.workloads), 10.0 if real() else 1.0)
        results["containers"] = containers()
    results["cache_used_most"] = most = max(sample["cache_used"] for sample in samples)
    results["memory_used_most_mib"] = max(sample["used_mib"] for sample in samples)
    results["usable_mib"] = GPUS[str(settings()["gpu"])].usable_mib
    results["encoders"] = {kind: round(reading.documents_per_second, 1) for kind, reading in readings.items()}
    results["answers"] = {"whole": sum(answer.is_whole for answer in answers), "asked": len(answers)}
    results["troubles"] = [answer.trouble for answer in answers if answer.trouble]
    results["complaints"] = deployed.complaints(since) + _complaints(since)
    results["restarted"] = starts() != before
    results["containers_after"] = rows = containers()
    calm = not (results["troubles"] or results["complaints"] or results["restarted"])
    judged = all(row["within"] for row in rows.values()) and most >= LEAST_USED
    results["passed"] = calm and (judged or not real())


def _filling(model: ModelSlice, runtime: RuntimeSlice) -> tuple[list[Body], int]:
    """Returns completions that fill the cache together, each as long as a sequence may be, and their tokens."""
    flags = dict(zip(runtime.arguments, runtime.arguments[1:], strict=False))
    longest = min(int(flags["--max-model-len"]), int(flags["--max-num-batched-tokens"]))
    count = model.kv_cache_tokens // longest if real() else 2
    answer = FILL_ANSWER if real() else 16
    prompts = Prompts(CHECKPOINTS / model.weights.repository.rsplit("/", 1)[-1] / "tokenizer.json")
    texts = [prompts.text(longest - answer - 16 if real() else 64) for _ in range(count)]
    shared = {"model": model.name, "max_tokens": answer, "ignore_eos": True}
    return [shared | {"prompt": text} for text, _ in texts], sum(tokens + answer for _, tokens in texts)


def _look(runtime: RuntimeSlice, model: ModelSlice) -> card.Sample:
    page = says(f"curl -s -m 5 http://127.0.0.1:{runtime.port}{runtime.metrics_path}")
    shares = re.findall(r"^vllm:kv_cache_usage_perc\{[^}]*\} (\S+)$", page, re.MULTILINE)
    used = float(card.used_mib(machine())) if real() else 0.0
    return {"cache_used": max(map(float, shares), default=0.0), "used_mib": used}


def containers() -> dict[str, dict[str, Any]]:
    """Returns MiB of the card that each container's processes hold, beside the planned MiB; empty without a card."""
    if not real():
        return {}
    planned_server, (model, _) = server(), llm()
    encoders_mib = sum(encoder.memory.total_mib for encoder in planned_server.in_triton)
    plans = {"triton-main": planned_server.overhead_mib + encoders_mib, "llm-main": model.memory.total_mib}
    processes, rows = card.processes(machine()), dict[str, dict[str, Any]]()
    for name, plan in plans.items():
        identity = says(f"docker inspect --format '{{{{.Id}}}}' {name}")
        mine = [row for row in processes if identity and identity in says(f"cat /proc/{row['pid']}/cgroup")]
        held = sum(row["mib"] or 0 for row in mine)
        off = 100 * (held - plan) / plan
        rows[name] = {"planned_mib": plan, "measured_mib": held, "off_percent": round(off, 1)}
        rows[name] |= {"within": abs(off) <= WITHIN_PERCENT, "processes": [row["mib"] for row in mine]}
    return rows


def server() -> ServerSlice:
    return _planned(bool(settings()["changed"])).servers[0]


@cache
def _planned(changed: bool) -> Slice:
    """Returns the plan of the inventory's current settings; computing it takes a second."""
    return planned()


def llm() -> tuple[ModelSlice, RuntimeSlice]:
    """Returns the planned LLM beside Triton, and its program."""
    beside = server().standalone_llm
    assert beside, "the plan has no LLM beside Triton"
    return beside


def encoders() -> dict[str, str]:
    """Returns the directory of each encoder's files, by its kind."""
    return {model.kind: model.weights.repository.rsplit("/", 1)[-1] for model in server().in_triton}


def encoder_name(kind: str) -> str:
    """Returns the name of the first encoder of this kind."""
    return next(model.name for model in server().in_triton if model.kind == kind)


def opened() -> gateway.Gateway:
    """Returns the machine's gateway, with a key for it."""
    return gateway.opened(machine())


def completion(tokens: int) -> Body:
    """Returns a completion of exactly this many tokens."""
    return {"model": llm()[0].name, "prompt": "The boiler of an engine", "max_tokens": tokens, "ignore_eos": True}


def wait_for_tokens() -> None:
    """Waits until a completion has come through the gateway."""
    end = time.monotonic() + SERVES_SECONDS
    while not (answer := stream_of(opened(), COMPLETIONS, completion(4))).is_whole:
        if time.monotonic() > end:
            raise RehearsalRefused(f"no token after {SERVES_SECONDS} s\n  said    {answer.trouble}")
        time.sleep(0.5)


def llm_seconds() -> float:
    """Returns seconds from the start of the LLM's unit to its first token, which makes the unit active."""
    names = "ExecMainStartTimestampMonotonic,ActiveEnterTimestampMonotonic"
    values = dict(line.split("=") for line in says(f"systemctl show -p {names} llm@main").splitlines())
    return round((int(values[names.split(",")[1]]) - int(values[names.split(",")[0]])) / 1e6, 1)


def starts() -> tuple[str, str]:
    """Returns the invocations of both units, which change at every start."""
    return says(STARTED.format("triton@main")), says(STARTED.format("llm@main"))


def _now() -> str:
    return says("date '+%Y-%m-%d %H:%M:%S'")


def _complaints(since: str) -> list[str]:
    """Returns lines of the LLM's journal since then about memory or a CUDA error."""
    query = f"journalctl --quiet --output cat --unit llm@main --since '{since}'"
    return says(f"{query} | grep -Ei 'out of memory|OutOfMemory|CUDA error'").splitlines()[:20]


def says(command: str) -> str:
    """Returns the output of a command on the machine."""
    return machine().run(command, check=False).stdout.strip()
