"""Judges programs that start a server: `tritonserver`, `trtllm-serve`, and the backend's launch script."""

import re
import shlex
from collections.abc import Mapping, Sequence

from deploy.catalog.least_flag_values import least
from deploy.catalog.names import nearest, slip_of
from deploy.catalog.programs import (
    TRITONSERVER,
    TRITONSERVER_CHOICES,
    TRITONSERVER_DEPRECATED,
    TRITONSERVER_NUMBERS,
    TRTLLM_SERVE,
    server_options,
    since,
)
from deploy.linter.findings import Call, Judged, raws
from deploy.linter.options import Option, mixed_options, without
from deploy.linter.ports import HIGHEST, is_port, judge_ports
from deploy.linter.ports import SERVICES as PORTS
from deploy.linter.release import Target
from deploy.linter.words import Word

NUMBER = re.compile(r"-?\d+")
KEYS_OF_PYTHON = (
    *("shm-default-byte-size", "shm-growth-byte-size", "stub-timeout-seconds", "thread-pool-size"),
    "shm-region-prefix-name",
)
"""Keys of `--backend-config=python,…`; python_backend README and src/python_be.cc, stored copies read 2026-11-27."""
NO_KEYS_OF_PYTHON = ("shm-size", "shm_size")
GUESSED = {
    "--model-repo": "--model-repository",
    "--model_repo": "--model-repository",
    "--models": "--model-repository",
    "--config": "--backend-config",
    "--world_size": "",
    "--load-models": "--load-model",
    "--port": "--http-port",
}
"""Options of the launch script and of other servers, and Triton's."""


def judge_tritonserver(call: Call, target: Target) -> Judged:
    """Findings about `tritonserver …`: names and values of its options, and options that only work in pairs."""
    judged = Judged(right=list(call.head))
    known = server_options(target.name)
    options, stray = mixed_options(call.args, TRITONSERVER | dict.fromkeys(GUESSED, True))
    for option in options:
        judged.right += _option(judged, option, known, target)
    _stray(judged, stray, call.args)
    _loads(judged, options, call.args)
    _repository(judged, options, call.args)
    judge_ports(judged, {option.name: option for option in options})
    return judged


def judge_trtllm_serve(call: Call, target: Target) -> Judged:
    """Findings about `trtllm-serve MODEL …`: names of its options in release 1.2."""
    judged = Judged(right=list(call.head))
    options, others = mixed_options(call.args, TRTLLM_SERVE)
    judged.right += raws(others)
    for option in options:
        near = slip_of(option.name, TRTLLM_SERVE)
        lowest = least(option.name)
        if near:
            judged.no_option("trtllm-serve", option, near)
        if lowest is not None and NUMBER.fullmatch(option.value) and float(option.value) < lowest:
            _bad_value(judged, option, f"a whole number, at least {lowest}", f"leave {option.name} out")
            continue
        judged.right += [near, *raws(option.values)] if near else list(option.raw)
    return judged


def judge_launch_script(call: Call, _target: Target) -> Judged:
    """Findings about `launch_triton_server.py …`, which is right when typed by hand and wrong as a service."""
    judged = Judged(right=[*call.head, *raws(call.args)])
    judged.know(
        "launch-script",
        "launch_triton_server.py starts tritonserver in the background and returns: a service would look finished",
        seen=call.program,
        wanted="tritonserver as the process systemd or Docker watches; one GPU needs no mpirun",
        attempt="exec tritonserver --model-repository=… --disable-auto-complete-config",
    )
    return judged


def _option(judged: Judged, option: Option, known: Mapping[str, bool], target: Target) -> list[str]:
    name = option.name
    if name in known:
        return _value(judged, option, known)
    if since(name):
        judged.add(
            "unknown-option",
            f"`{name}` came with release {since(name)}; this is {target.in_words}",
            seen=" ".join(option.raw),
            wanted=f"release {since(name)} or later",
            attempt=f"leave {name} out: older releases always allow it",
        )
        return []
    near = GUESSED.get(name, slip_of(name, known))
    if near:
        judged.no_option("tritonserver", option, near)
        return [f"{near}={value.raw}" for value in option.values] or [near]
    judged.know(
        "unread-option",
        f"`{name}` is not among the options of tritonserver that were read",
        seen=" ".join(option.raw),
        wanted="an option of that release",
        attempt="ask the image itself: tritonserver --help",
    )
    return list(option.raw)


def _value(judged: Judged, option: Option, known: Mapping[str, bool]) -> list[str]:
    choices = TRITONSERVER_CHOICES.get(option.name, ())
    if known[option.name] and not option.values:
        _bad_value(judged, option, ", ".join(choices) or "a value", f"{option.name}=…")
        return [f"{option.name}=…"]
    if option.name in TRITONSERVER_DEPRECATED:
        judged.know(
            "deprecated-flag",
            f"`{option.name}` is deprecated",
            seen=" ".join(option.raw),
            wanted=TRITONSERVER_DEPRECATED[option.name],
            attempt=TRITONSERVER_DEPRECATED[option.name],
        )
    if option.varies:
        return list(option.raw)
    if option.name == "--backend-config" and option.value.startswith("python,"):
        return _python_backend(judged, option)
    if choices and option.value not in choices:
        near = nearest(option.value, choices) or choices[0]
        _bad_value(judged, option, f"one of {', '.join(choices)}", f"{option.name}={near}")
        return [f"{option.name}={near}"]
    if option.name in PORTS and not is_port(option.value):
        _bad_value(judged, option, f"a port, 1 to {HIGHEST}", f"{option.name}={PORTS[option.name][2]}")
        return [f"{option.name}={PORTS[option.name][2]}"]
    if option.name in TRITONSERVER_NUMBERS and not option.value.isdecimal():
        _bad_value(judged, option, "a whole number", f"leave {option.name} out")
        return []
    return list(option.raw)


def _python_backend(judged: Judged, option: Option) -> list[str]:
    """The arguments to type for a setting of the Python backend; sizes are counted in bytes."""
    key, _, value = option.value.removeprefix("python,").partition("=")
    if key in NO_KEYS_OF_PYTHON:
        judged.add(
            "unknown-key",
            f"the Python backend reads no key `{key}`: /dev/shm is as large as the container has it",
            seen=" ".join(option.raw),
            wanted=f"one of {', '.join(KEYS_OF_PYTHON)}",
            attempt="docker run --shm-size 2g, or in a pod an emptyDir of medium Memory on /dev/shm",
        )
        return []
    if key in KEYS_OF_PYTHON[:4] and not value.isdecimal():
        _bad_value(judged, option, "a whole number", f"leave {option.name}=python,{key} out")
        return []
    return list(option.raw)


def _bad_value(judged: Judged, option: Option, wanted: str, attempt: str) -> None:
    mistake = f"does not take `{option.value}`" if option.values else "stands without its value"
    judged.add(
        "value-not-offered", f"`{option.name}` {mistake}", seen=" ".join(option.raw), wanted=wanted, attempt=attempt
    )


def _stray(judged: Judged, words: list[Word], args: Sequence[Word]) -> None:
    """Adds a finding for each word without an option; all words stay if a variable may hold their option."""
    if any(word.varies for word in args):
        judged.right += raws(words)
        return
    for word in words:
        judged.add(
            "stray-word",
            f"`{word.text}` belongs to no option of tritonserver",
            seen=word.raw,
            wanted="options only",
            attempt=f"remove {shlex.quote(word.text)}",
        )


def _holds_more(args: Sequence[Word]) -> bool:
    return any(word.varies and not word.raw.startswith("-") for word in args)


def _loads(judged: Judged, options: list[Option], args: Sequence[Word]) -> None:
    """Adds findings about `--load-model`, which needs explicit mode; `*` means all models."""
    loads = [option for option in options if option.name == "--load-model"]
    modes = [option.value for option in options if option.name == "--model-control-mode"]
    if loads and "explicit" not in modes and not any("$" in mode for mode in modes) and not _holds_more(args):
        judged.add(
            "load-without-explicit",
            "`--load-model` is taken in explicit mode only",
            seen=" ".join(loads[0].raw),
            wanted="--model-control-mode=explicit beside it",
            attempt="add --model-control-mode=explicit",
        )
        judged.right.append("--model-control-mode=explicit")
    names = [option.value for option in loads]
    if "*" in names and len(names) > 1:
        judged.add(
            "load-all-and-some",
            "`--load-model=*` loads every model and excludes names beside it",
            seen=" ".join(f"--load-model={name}" for name in names),
            wanted="* or names",
            attempt="--load-model='*'",
        )
        judged.right = [*without(judged.right, "--load-model"), "--load-model='*'"]
    elif len(names) > 1:
        judged.know(
            "load-order",
            "models are loaded at the same time: the order of the command line has no effect",
            seen=" ".join(f"--load-model={name}" for name in names),
            wanted="one load after the other, the LLM last, because its cache takes what is left",
            attempt="start with no model and POST /v2/repository/models/NAME/load one by one",
        )


def _repository(judged: Judged, options: list[Option], args: Sequence[Word]) -> None:
    names = {option.name for option in options}
    if not _holds_more(args) and not names & {"--model-repository", "--model-store", "--help", *GUESSED}:
        judged.add(
            "missing-flag",
            "tritonserver does not start without a model repository",
            seen="no --model-repository",
            wanted="--model-repository=DIRECTORY",
            attempt="--model-repository=/models",
        )
        judged.right.append("--model-repository=/models")
