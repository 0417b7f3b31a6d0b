"""Judges other commands of guides: pip, git, sed, cp, pkill, and modules of TensorRT-LLM that do not exist."""

import re

from deploy.catalog.releases import DEFAULT_RELEASE, RELEASES
from deploy.inventory.guides import NAMES
from deploy.linter.findings import HIDDEN, Call, Judged, is_secret, raws
from deploy.linter.options import argparse_options
from deploy.linter.release import Target

COMMANDS = ("build", "refit", "prune", "bench", "eval", "serve")
PINNED = ("tensorrt-llm", "torch", "transformers")
PIN = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*={2,3}\s*(?P<version>[\w.+!*]+)\s*(?:;.*)?")
"""A requirement that names one version, extras and markers included; names compare as pip normalises them."""
NEWEST = RELEASES[DEFAULT_RELEASE].trtllm


def judge_pip(call: Call, target: Target) -> Judged:
    """Findings about `pip install …` of packages that NVIDIA's image already has."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    if not any(word.text == "install" for word in call.args):
        return judged
    for word in call.args:
        pin = PIN.fullmatch(word.text)
        name = re.sub(r"[-_.]+", "-", pin["name"]).lower() if pin else ""
        if pin and name in PINNED and _is_wrong_pin(judged, name, pin["version"], word.raw, target):
            judged.right = [raw for raw in judged.right if raw != word.raw]
    left = [raw for raw in judged.right[len(call.head) :] if not raw.startswith("-") and raw != "install"]
    if judged.findings and not left:
        judged.right = []
    return judged


def _is_wrong_pin(judged: Judged, name: str, pinned: str, raw: str, target: Target) -> bool:
    """Adds the problem that a pin of this package causes; True if there is one."""
    release = RELEASES.get(target.name) or RELEASES[DEFAULT_RELEASE]
    if name != "tensorrt-llm":
        judged.add(
            "torch-replaced",
            f"{name} {pinned} takes the place of the one in the image, which its TensorRT-LLM needs",
            seen=raw,
            wanted=f"what release {release.name} brings: torch {release.torch} and its own transformers",
            attempt=f"remove {raw}, or install it into an environment of its own",
        )
    elif pinned != NEWEST:
        judged.add(
            "old-wheel",
            f"TensorRT-LLM {pinned} is not the newest stable one",
            seen=raw,
            wanted=f"tensorrt-llm=={NEWEST}, or the image of release {DEFAULT_RELEASE}, which has it",
            attempt=f"docker pull {RELEASES[DEFAULT_RELEASE].image}",
        )
    return name != "tensorrt-llm" or pinned != NEWEST


def judge_env(call: Call, _target: Target) -> Judged:
    """Findings about a Dockerfile's `ENV NAME=VALUE …`: variables that no server reads, secrets kept in the image."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    for word in call.args:
        name, _, value = word.text.partition("=")
        if name in NAMES:
            judged.add(
                "guide-name",
                f"no server reads the variable {name}",
                seen=f"ENV {word.raw}",
                wanted="a typed setting of the inventory; memory is bounded in tokens",
                attempt=f"remove ENV {name}",
            )
        elif is_secret(name, value):
            judged.add(
                "secret-in-words",
                f"the value of {name} stays in the image for everyone who pulls it",
                seen=f"ENV {name}={HIDDEN}",
                wanted="a variable given when the container starts, or a secret mount",
                attempt=f"remove ENV {name}",
            )
    if judged.findings:
        judged.right = []
    return judged


def judge_git(call: Call, _target: Target) -> Judged:
    """Findings about `git clone … tensorrtllm_backend`: the sources moved, and every image has them."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    words = [word.text for word in call.args]
    if words[:1] == ["clone"] and any("tensorrtllm_backend" in word for word in words):
        judged.know(
            "sources-in-image",
            "the backend's sources moved into TensorRT-LLM with 0.20, and the images carry the matching files",
            seen=" ".join(["git", *raws(call.args)]),
            wanted="/app/all_models, /app/scripts and /app/tools of the image that serves (25.01 and later)",
            attempt=f"docker run --rm {RELEASES[DEFAULT_RELEASE].image} ls /app",
        )
    return judged


def judge_sed(call: Call, _target: Target) -> Judged:
    """Findings about `sed -i … config.pbtxt`, which works only once."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    words = [word.text for word in call.args]
    if any(word.startswith("-i") for word in words) and any(word.endswith("config.pbtxt") for word in words):
        judged.add(
            "edited-in-place",
            "a configuration edited in place is filled once: a second start finds no placeholders to fill",
            seen=" ".join(["sed", *raws(call.args[:1]), "…", call.args[-1].raw]),
            wanted="files rendered into a new directory, and the old one left as it was",
            attempt="enginehouse plan INVENTORY: the model repository is rendered from the inventory",
        )
        judged.right = []
    return judged


def judge_cp(call: Call, _target: Target) -> Judged:
    """Findings about `cp engines/* models/NAME/1/`: an engine is not a model."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    words = [word.text for word in call.args]
    if len(words) > 1 and words[-1].rstrip("/").endswith("/1") and any("engine" in word for word in words[:-1]):
        judged.add(
            "engine-is-no-model",
            "engine files in a version directory are not a model: Triton needs a config.pbtxt, and the ensemble "
            "four more",
            seen=" ".join(["cp", *raws(call.args)]),
            wanted="/app/all_models/inflight_batcher_llm with its templates filled, gpt_model_path naming the engine",
            attempt="leave the engine where it is and write its directory into gpt_model_path",
        )
        judged.right = []
    return judged


def judge_pkill(call: Call, _target: Target) -> Judged:
    """Findings about `pkill tritonserver`, which stops every server of the machine."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    if any("triton" in word.text for word in call.args):
        judged.know(
            "stopped-by-name",
            "pkill ends every tritonserver of the machine, also those in other containers",
            seen=" ".join(["pkill", *raws(call.args)]),
            wanted="the one service",
            attempt="systemctl stop triton@main, or docker stop NAME",
        )
    return judged


def judge_module(call: Call, target: Target) -> Judged:
    """Findings about `python -m tensorrt_llm.commands.X`."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    name = call.script.rpartition(".")[2]
    if name in COMMANDS:
        return judged
    options = {option.name: option for option in argparse_options(call.args)}
    engine = options["--engine_dir"].values[0].raw if "--engine_dir" in options else "MODEL"
    kept = [
        raw
        for option in options.values()
        if option.name in ("--port", "--host", "--tp_size", "--pp_size")
        for raw in option.raw
    ]
    judged.right = ["trtllm-serve", engine, *kept]
    judged.add(
        "no-such-module",
        f"TensorRT-LLM {target.trtllm} has no module {call.script}",
        seen=" ".join(call.head),
        wanted=f"tensorrt_llm.commands has {', '.join(COMMANDS)}",
        attempt=" ".join(judged.right),
    )
    return judged


def judge_batcher_client(call: Call, _target: Target) -> Judged:
    """Findings about `inflight_batcher_llm_client.py`, which uses the tensors of the engine path."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    judged.know(
        "client-of-the-engine-path",
        "this client is documented as unsupported against the llmapi model; it sends the engine path's tensors",
        seen=call.script,
        wanted="/generate for llmapi, or benchmark_core_model.py --test-llmapi",
        attempt='curl -X POST HOST:8000/v2/models/NAME/generate -d \'{"text_input": "…"}\'',
    )
    return judged
