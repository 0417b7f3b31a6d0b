"""Judges `docker run`, `docker login`, `docker pull` and `docker build`: the image, the GPU, and what would leak.

The command inside a container is judged by its own judge, for the release the image names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deploy.catalog.programs import DOCKER_BUILD, DOCKER_EXEC, DOCKER_LOGIN, DOCKER_PULL, DOCKER_RUN
from deploy.inventory.guides import NAMES, SETTINGS
from deploy.linter.calls import call_of
from deploy.linter.findings import HIDDEN, NEW_LINE, Call, Judge, Judged, is_secret, raws
from deploy.linter.images import default_image, judge_image
from deploy.linter.near import near_miss
from deploy.linter.options import Option, getopt_options, mixed_options
from deploy.linter.ports import judge_published
from deploy.linter.release import Target, target_inside
from deploy.linter.words import Word, varies

IS_IMAGE_OR_OPTION = re.compile(r"-|[\w.-]+(?:/[\w./-]+|:[\w.-]+)|\$")
"""How the word after a variable of options looks: another option, an image, or another variable."""
GPUS_BY_CDI = {"all": "nvidia.com/gpu=all"}
USER = "'$oauthtoken'"


def judge_docker(call: Call, target: Target, judge: Judge) -> Judged:
    """Findings about `docker VERB …`; verbs that are not judged come back as typed."""
    verb = call.args[0].text if call.args else ""
    rest = call.args[1:]
    if verb in ("container", "image") and rest:
        verb, rest = rest[0].text, rest[1:]
    judges = {"login": _login, "pull": _pull, "build": _build, "buildx": _build}
    if verb == "run":
        return _run(rest, judge, target)
    if verb == "exec" or (verb == "compose" and rest and rest[0].text == "exec"):
        return _exec([verb] if verb == "exec" else [verb, "exec"], rest[verb == "compose" :], judge, target)
    if verb in judges:
        return judges[verb](rest)
    return Judged(right=[*call.head, *raws(call.args)])


def _run(args: Sequence[Word], judge: Judge, target: Target) -> Judged:
    judged = Judged()
    options, left = _run_words(args)
    options = judge_published(judged, options)
    words = [" ".join(_run_option(judged, option, options)) for option in options]
    words = [word for word in words if word]
    if not left and any(varies(option.name) for option in options):
        judged.right = ["docker", "run", *words]
        return judged
    if not left:
        nothing = "docker run names no image"
        judged.add("no-image", nothing, seen="options only", wanted="an image", attempt=default_image())
        judged.right = ["docker", "run", *words, NEW_LINE, default_image()]
        return judged
    image, inside = left[0], left[1:]
    judge_image(judged, image)
    if varies(image.raw):
        judged.know(
            "unseen-variable",
            "which image a variable names was not seen",
            seen=image.raw,
            wanted="the image by its name",
            attempt=f"--release says for which one to judge; here {target.in_words}",
        )
    judged.right = ["docker", "run", *words, NEW_LINE, image.raw]
    entry = _entrypoint(options)
    inner = call_of([*entry, *inside])
    if inner:
        _cuda_check(judged, image, inner)
        beside = [value for option in options for value in option.values]
        verdict = judge(inner, target_inside(image.text, beside, target))
        _shared_memory(judged, options, inner)
        right = judged.take(verdict)
        judged.right = [*judged.right, *raws(inner.before), *right[len(entry) :]] if right else []
    _mend_image(judged, image)
    return judged


def _run_words(args: Sequence[Word]) -> tuple[list[Option], list[Word]]:
    """Options, and the words from the image on; a variable before the image may hold options."""
    options, left = getopt_options(args, DOCKER_RUN)
    while len(left) > 1 and left[0].varies and IS_IMAGE_OR_OPTION.match(left[1].text) and "/" not in left[0].raw:
        held = Option(left[0].raw, (), (left[0].raw,))
        more, left = getopt_options(left[1:], DOCKER_RUN)
        options = [*options, held, *more]
    return options, left


def _entrypoint(options: list[Option]) -> list[Word]:
    """The program that --entrypoint names, which stands before the words behind the image."""
    named = [option.values[0] for option in options if option.name == "--entrypoint" and option.values]
    return [entry for entry in named[-1:] if entry.text and not entry.varies]


def _mend_image(judged: Judged, image: Word) -> None:
    """Puts the image that holds the program in the place of one that does not, or that does not exist."""
    wrong = ("image-without-tensorrt-llm", "unknown-release", "no-such-image")
    finding = next((finding for finding in judged.findings if finding.is_wrong and finding.kind in wrong), None)
    if finding:
        instead = finding.attempt.split()[0]
        judged.right = [instead if word == image.raw else word for word in judged.right]


def judge_after_dashes(call: Call, target: Target, judge: Judge) -> Judged:
    """Findings about the command inside `kubectl exec POD -- …`."""
    place = next(at for at, word in enumerate(call.args) if word.text == "--")
    judged = Judged(right=[*call.head, *raws(call.args)])
    inner = call_of(call.args[place + 1 :])
    if inner:
        right = judged.take(judge(inner, target))
        judged.right = [*call.head, *raws(call.args[: place + 1]), *raws(inner.before), *right] if right else []
    return judged


def _exec(verb: list[str], args: Sequence[Word], judge: Judge, target: Target) -> Judged:
    """Findings about the command inside `docker exec NAME …`."""
    options, left = getopt_options(args, DOCKER_EXEC)
    judged = Judged(right=["docker", *verb, *(raw for option in options for raw in option.raw), *raws(left)])
    inner = call_of(left[1:])
    if inner:
        right = judged.take(judge(inner, target))
        before = [word for option in options for word in option.raw]
        judged.right = ["docker", *verb, *before, left[0].raw, *raws(inner.before), *right] if right else []
    return judged


def _run_option(judged: Judged, option: Option, options: list[Option]) -> list[str]:
    near = "" if varies(option.name) else near_miss(option.name, DOCKER_RUN)
    if near:
        judged.add(
            "unknown-option",
            f"docker run knows no option `{option.name}`",
            seen=" ".join(option.raw),
            wanted="an option by its exact name",
            attempt=f"did you mean `{near}`?",
        )
        return [near, *raws(option.values)]
    if option.name in ("-e", "--env"):
        return _environment(judged, option)
    if option.name == "--gpus" and not any(option.name == "--device" for option in options):
        return _gpus(judged, option)
    return list(option.raw)


def _environment(judged: Judged, option: Option) -> list[str]:
    name, _, value = option.value.partition("=")
    if name in NAMES:
        setting = ".".join(SETTINGS[name]) if name in SETTINGS else "KVCache(tokens=…) or max_batch_tokens"
        judged.add(
            "guide-name",
            f"no server reads the variable {name}",
            seen=" ".join(option.raw),
            wanted=f"a typed setting: {setting}",
            attempt=f"remove -e {name}; memory is bounded in tokens, by the model's own settings",
        )
        return []
    if is_secret(name, value):
        judged.add(
            "secret-in-words",
            f"the value of {name} is on the command line: in the shell's history, ps and docker inspect",
            seen=f"{option.name} {name}={HIDDEN}",
            wanted="the name alone, taken from the environment, or a file only root reads",
            attempt=f"export {name} beforehand and write -e {name}",
        )
        return [option.name, name]
    return list(option.raw)


def _gpus(judged: Judged, option: Option) -> list[str]:
    wanted = GPUS_BY_CDI.get(option.value) or _devices(option.value)
    if not wanted:
        return list(option.raw)
    judged.know(
        "gpus-by-hook",
        "`--gpus` before Docker 29.2 loses the GPU at the next `systemctl daemon-reload` or `docker update`",
        seen=" ".join(option.raw),
        wanted="devices named through CDI",
        attempt=f"--device {wanted}",
    )
    return ["--device", wanted]


def _devices(value: str) -> str:
    match = re.fullmatch(r"\"?device=(\d+)\"?", value)
    return f"nvidia.com/gpu={match.group(1)}" if match else ""


def _shared_memory(judged: Judged, options: list[Option], inner: Call) -> None:
    shares = any(option.name in ("--shm-size", "--ipc") for option in options)
    if inner.program == "tritonserver" and not shares:
        judged.know(
            "shared-memory",
            "Docker gives a container 64 MB of /dev/shm; every Python model takes 1 MB and grows",
            seen="neither --shm-size nor --ipc",
            wanted="1 GiB or more",
            attempt="--shm-size 2g",
        )
        judged.right.insert(2, "--shm-size 2g")


def _cuda_check(judged: Judged, image: Word, inner: Call) -> None:
    if "nvidia/cuda:" in image.text and inner.program == "nvidia-smi":
        judged.know(
            "weak-check",
            "nvidia-smi in a small CUDA image passes with drivers too old for the image that will serve",
            seen=f"{image.text} nvidia-smi",
            wanted="a CUDA kernel, run inside the pinned image",
            attempt=f"docker run --rm --device nvidia.com/gpu=all {default_image()} python3 -c "
            "'import torch; print(torch.ones(1).cuda())'",
        )


def _pull(args: Sequence[Word]) -> Judged:
    options, images = mixed_options(args, DOCKER_PULL)
    judged = Judged(right=["docker", "pull", *(raw for option in options for raw in option.raw)])
    for image in images:
        judge_image(judged, image)
        wrong = any(finding.is_wrong for finding in judged.findings)
        judged.right.append(default_image() if wrong else image.raw)
    return judged


def _login(args: Sequence[Word]) -> Judged:
    """Findings about `docker login`: nvcr.io's user is the literal text `$oauthtoken`; `ps` shows a typed password."""
    judged = Judged()
    options, registries = mixed_options(args, DOCKER_LOGIN)
    registry = registries[0].raw if registries else ""
    judged.right = ["docker", "login", *raws(registries)]
    for option in options:
        judged.right += _login_option(judged, option, registry)
    return judged


def _login_option(judged: Judged, option: Option, registry: str) -> list[str]:
    if option.name in ("-p", "--password"):
        user = USER if "nvcr.io" in registry else "USER"
        judged.add(
            "secret-in-words",
            "a password on the command line is in the shell's history and in ps for everyone",
            seen=f"{option.name} {HIDDEN}",
            wanted="the password on standard input",
            attempt=f'printf %s "$NGC_API_KEY" | docker login {registry} -u {user} --password-stdin',
        )
        return ["--password-stdin"]
    if option.name in ("-u", "--username") and "nvcr.io" in registry:
        _user(judged, option)
        return ["-u", USER]
    return list(option.raw)


def _user(judged: Judged, option: Option) -> None:
    typed = option.values[0].raw if option.values else ""
    if (typed.startswith("'") and option.value == "$oauthtoken") or typed == r"\$oauthtoken":
        return
    expands = "$oauthtoken" in typed
    judged.add(
        "registry-user",
        "the shell turns an unquoted $oauthtoken into nothing"
        if expands
        else "nvcr.io knows one user for API keys: the literal text $oauthtoken",
        seen=f"{option.name} {typed}",
        wanted=USER,
        attempt=f"-u {USER}",
    )


def _build(args: Sequence[Word]) -> Judged:
    options, others = mixed_options(args, DOCKER_BUILD)
    judged = Judged(right=["docker", "build"])
    for option in options:
        name, _, value = option.value.partition("=")
        if option.name == "--build-arg" and is_secret(name, value):
            judged.add(
                "secret-in-words",
                f"a build argument stays in the image's history: {name} is readable by everyone who pulls it",
                seen=f"--build-arg {name}={HIDDEN}",
                wanted="a secret mount, or weights fetched on the host",
                attempt=f"--secret id={name.lower()},env={name}, read with RUN --mount=type=secret",
            )
            judged.right.append(f"--secret id={name.lower()},env={name}")
        else:
            judged.right += option.raw
    judged.right += raws(others)
    return judged
