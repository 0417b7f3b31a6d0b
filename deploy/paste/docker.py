"""Judges `docker run`, `docker login`, `docker pull` and `docker build`: the image, the GPU, and what would leak.

The command inside a container is judged by its own judge, for the release the image names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deploy.catalog.programs import DOCKER_BUILD, DOCKER_EXEC, DOCKER_LOGIN, DOCKER_PULL, DOCKER_RUN
from deploy.catalog.releases import DEFAULT_RELEASE, RELEASES
from deploy.guides import NAMES, SETTINGS
from deploy.paste.calls import call_of
from deploy.paste.findings import HIDDEN, NEW_LINE, Call, Judge, Judged, is_secret, raws
from deploy.paste.near import near_miss
from deploy.paste.options import Option, getopt_options, mixed_options
from deploy.paste.release import Target, target_of_image
from deploy.paste.words import Word

TRITON = "nvcr.io/nvidia/tritonserver"
GPUS_BY_CDI = {"all": "nvidia.com/gpu=all"}
USER = "'$oauthtoken'"


def judge_docker(call: Call, target: Target, judge: Judge) -> Judged:
    """`docker VERB …`; verbs that are not judged come back as typed."""
    verb = call.args[0].text if call.args else ""
    rest = call.args[1:]
    if verb in ("container", "image") and rest:
        verb, rest = rest[0].text, rest[1:]
    judges = {"login": _login, "pull": _pull, "build": _build, "buildx": _build}
    if verb == "run":
        return _run(rest, judge, target)
    if verb == "exec":
        return _exec(rest, judge, target)
    if verb in judges:
        return judges[verb](rest)
    return Judged(right=[*call.head, *raws(call.args)])


def _run(args: Sequence[Word], judge: Judge, target: Target) -> Judged:
    judged = Judged()
    options, left = getopt_options(args, DOCKER_RUN)
    words = [" ".join(_run_option(judged, option, options)) for option in options]
    words = [word for word in words if word]
    if not left:
        judged.add("no-image", "docker run names no image", seen="options only", wanted="an image", attempt=_image())
        judged.right = ["docker", "run", *words, NEW_LINE, _image()]
        return judged
    image, inside = left[0], left[1:]
    _judge_image(judged, image)
    judged.right = ["docker", "run", *words, NEW_LINE, image.raw]
    inner = call_of(inside)
    if inner:
        _cuda_check(judged, image, inner)
        found = judge(inner, target_of_image(image.text) or target)
        _shared_memory(judged, options, inner)
        right = judged.take(found)
        judged.right = [*judged.right, *raws(inner.before), *right] if right else []
    return judged


def _exec(args: Sequence[Word], judge: Judge, target: Target) -> Judged:
    """`docker exec NAME …`: only what runs inside is judged."""
    options, left = getopt_options(args, DOCKER_EXEC)
    judged = Judged(right=["docker", "exec", *(raw for option in options for raw in option.raw), *raws(left)])
    inner = call_of(left[1:])
    if inner:
        right = judged.take(judge(inner, target))
        before = [word for option in options for word in option.raw]
        judged.right = ["docker", "exec", *before, left[0].raw, *raws(inner.before), *right] if right else []
    return judged


def _run_option(judged: Judged, option: Option, options: list[Option]) -> list[str]:
    near = near_miss(option.name, DOCKER_RUN)
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
    if option.name == "--gpus" and not any(one.name == "--device" for one in options):
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
    found = re.fullmatch(r"\"?device=(\d+)\"?", value)
    return f"nvidia.com/gpu={found.group(1)}" if found else ""


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
            attempt=f"docker run --rm --device nvidia.com/gpu=all {_image()} python3 -c "
            "'import torch; print(torch.ones(1).cuda())'",
        )


def _judge_image(judged: Judged, image: Word) -> None:
    """Triton's image by release; other images are nobody's business here."""
    if TRITON not in image.text or image.varies or "<" in image.text:
        return
    tag = image.text.partition("@")[0].partition(f"{TRITON}:")[2]
    release = RELEASES.get(tag[:5])
    if release is None:
        near = near_miss(tag[:5], RELEASES, cutoff=0.5) if tag[:2].isdecimal() else ""
        judged.add(
            "unknown-release",
            f"{image.text} names no release of the catalog" if tag else f"{TRITON} has no tag `latest`",
            seen=image.text,
            wanted="a release by name, from 24.04 to 26.07",
            attempt=RELEASES[near].image if near else _image(),
        )
    elif "-trtllm-" in tag and not release.trtllm:
        judged.add(
            "no-such-image",
            f"release {release.name} has no image with TensorRT-LLM",
            seen=image.text,
            wanted="a release that has one",
            attempt=f"{_image()}  ({release.instead})",
        )
    elif not release.offered:
        judged.know(
            "old-release",
            f"release {release.name} is not one this project serves: {release.instead}",
            seen=f"{image.text}, TensorRT-LLM {release.trtllm or 'absent'}",
            wanted="24.12, 25.04, 25.10, 26.02 or 26.07",
            attempt=_image(),
        )


def _pull(args: Sequence[Word]) -> Judged:
    options, images = mixed_options(args, DOCKER_PULL)
    judged = Judged(right=["docker", "pull", *(raw for option in options for raw in option.raw)])
    for image in images:
        _judge_image(judged, image)
        wrong = any(finding.is_wrong for finding in judged.findings)
        judged.right.append(_image() if wrong else image.raw)
    return judged


def _login(args: Sequence[Word]) -> Judged:
    """The user of nvcr.io is the literal text `$oauthtoken`; a password on the command line is everybody's."""
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


def _image() -> str:
    return RELEASES[DEFAULT_RELEASE].image
