"""Judges `docker run` and `docker exec`: the image, the GPU, variables, limits, ports, and secrets that would leak.

The command inside a container is judged by its program's judge, for the release that the image names.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from deploy.catalog.names import slip_of
from deploy.catalog.programs import DOCKER_EXEC, DOCKER_RUN
from deploy.linter.calls import call_of
from deploy.linter.docker_images import judge_build, judge_login, judge_pull
from deploy.linter.environment import DROPPED, HELD, judge_variable
from deploy.linter.findings import NEW_LINE, Call, Judge, Judged, raws
from deploy.linter.gpus import (
    ALL,
    CDI,
    CERTAIN,
    docker_count,
    docker_gpus,
    judge_absence,
    judge_count,
    judge_gpus_option,
    judge_hidden,
    need_of,
    ranks_in,
)
from deploy.linter.images import default_image, judge_image
from deploy.linter.limits import inside_of, judge_port_text, judge_shm, judge_silent, judge_ulimit, know_shm
from deploy.linter.options import Option, getopt_options
from deploy.linter.ports import judge_published, listening_ports
from deploy.linter.release import Target, target_inside
from deploy.linter.words import Word, varies, word

IS_IMAGE_OR_OPTION = re.compile(r"-|[\w.-]+(?:/[\w./-]+|:[\w.-]+)|\$")
"""Pattern of the word after a variable of options: another option, an image, or another variable."""
MOUNT = re.compile(r"[^:\s]+:/[^:/\s][^:\s]*(?::\w+)?")
"""Pattern of a volume, unlike an image: a directory of the container behind the colon."""
PROGRAMS = ("docker", "podman", "nerdctl")


def is_of_a_swarm(call: Call) -> bool:
    """True for `docker service …`, whose options are no `docker run`'s and are not judged."""
    return bool(call.args) and call.args[0].text == "service"


def judge_docker(call: Call, target: Target, judge: Judge) -> Judged:
    """Findings about `docker VERB …`; verbs that are not judged come back as typed."""
    verb = call.args[0].text if call.args else ""
    rest = call.args[1:]
    if verb in ("container", "image") and rest:
        verb, rest = rest[0].text, rest[1:]
    judges = {"login": judge_login, "pull": judge_pull, "build": judge_build, "buildx": judge_build}
    if verb in ("run", "create"):
        return _run([*call.head, verb], rest, judge, target)
    if verb == "exec" or (verb == "compose" and rest and rest[0].text == "exec"):
        return _exec([verb] if verb == "exec" else [verb, "exec"], rest[verb == "compose" :], judge, target)
    if verb in judges:
        return judges[verb](rest)
    return Judged(right=[*call.head, *raws(call.args)])


def _run(head: list[str], args: Sequence[Word], judge: Judge, target: Target) -> Judged:
    judged = Judged()
    options, left = _with_volumes(judged, *run_words(args))
    options = judge_published(judged, options)
    image = left[0] if left else Word("", "")
    entry = _entrypoint(options)
    inner = call_of([*entry, *left[1:]])
    need = need_of(image.text, inner, [value for option in options for value in option.values])
    words = [" ".join(_run_option(judged, option, options, need)) for option in options]
    words = [word for word in words if word]
    judged.right = [*head, *words]
    if not left and any(varies(option.name) for option in options):
        return judged
    if not left:
        nothing = "docker run names no image"
        judged.add("no-image", nothing, seen="options only", wanted="an image", attempt=default_image())
        judged.right += [NEW_LINE, default_image()]
        return judged
    judge_image(judged, image)
    if varies(image.raw):
        judged.know(
            "unseen-variable",
            "the image is in a variable, whose value is unknown",
            seen=image.raw,
            wanted="the image by its name",
            attempt=f"--release says for which one to judge; here {target.in_words}",
        )
    _devices_of(judged, options, need, inner, len(head))
    judged.right += [NEW_LINE, image.raw]
    if inner:
        _cuda_check(judged, image, inner)
        beside = [value for option in options for value in option.values]
        verdict = judge(inner, target_inside(image.text, beside, target))
        _shared_memory(judged, options, inner, len(head))
        _ports(judged, options, inner)
        right = judged.take(verdict)
        judged.right = [*judged.right, *raws(inner.before), *right[len(entry) :]] if right else []
    if _mend_image(judged, image) and docker_gpus(options) is False and ALL not in judged.right and judged.right:
        judged.right.insert(len(head), ALL)
    return judged


def _devices_of(judged: Judged, options: list[Option], need: tuple[str, str], inner: Call | None, place: int) -> None:
    """Adds the finding that a container gets no GPUs although it needs them, or fewer than its ranks."""
    slips = ((option, slip_of(option.name, DOCKER_RUN)) for option in options)
    meant = [replace(option, name=name) if name else option for option, name in slips]
    if docker_gpus(meant) is False and need[0]:
        judge_absence(judged, need, seen="neither --device nor --gpus", attempt=ALL)
        if need[0] == CERTAIN:
            judged.right.insert(place, ALL)
    counted = docker_count(options)
    judge_count(judged, counted, inner, seen=f"{counted} GPUs", attempt=f"{ALL}, or as many as ranks")
    if inner is None or (ranks := ranks_in(inner)) < 2:
        return
    gpus = [words for words in judged.right if words.startswith(("--gpus", f"--device {CDI}", f"--device={CDI}"))]
    mended, _ = getopt_options([word(raw) for words in gpus for raw in words.split()], DOCKER_RUN)
    if 0 < (docker_count(mended) or 0) < ranks:
        judged.right = [words for words in judged.right if words not in gpus]
        judged.right.insert(place, ALL)


def _ports(judged: Judged, options: list[Option], inner: Call) -> None:
    """Adds findings for ports that are published without effect: on the host's own network, or without a listener."""
    published = [option for option in options if option.name in ("-p", "--publish") and not option.varies]
    is_on_host = any(option.name in ("--network", "--net") and option.value == "host" for option in options)
    if published and is_on_host:
        judged.know(
            "ports-on-host-network",
            "a container on the host's network publishes nothing: its program listens on the host itself",
            seen=" ".join(raw for option in published for raw in option.raw),
            wanted="either --network host or -p",
            attempt="leave -p out",
        )
    elif inner.program == "tritonserver":
        inside = [inside_of(option.value) for option in published]
        judge_silent(judged, inside, listening_ports(inner.args), inner.program)


def _with_volumes(judged: Judged, options: list[Option], left: list[Word]) -> tuple[list[Option], list[Word]]:
    """Options and the other words; a missing `-v` was added to volumes before the image."""
    while len(left) > 1 and MOUNT.fullmatch(left[0].text):
        judged.add(
            "volume-without-option",
            f"`{left[0].text}` is in the place of the image: a volume needs its option before it",
            seen=left[0].raw,
            wanted="-v before each volume",
            attempt=f"-v {left[0].raw}",
        )
        more, rest = run_words(left[1:])
        options, left = [*options, Option("-v", (left[0],), ("-v", left[0].raw)), *more], rest
    return options, left


def run_words(args: Sequence[Word]) -> tuple[list[Option], list[Word]]:
    """Options, and the words from the image on; a variable before the image may hold options."""
    options, left = getopt_options(args, DOCKER_RUN)
    while len(left) > 1 and left[0].varies and IS_IMAGE_OR_OPTION.match(left[1].text) and "/" not in left[0].raw:
        held = Option(left[0].raw, (), (left[0].raw,))
        more, left = getopt_options(left[1:], DOCKER_RUN)
        options = [*options, held, *more]
    return options, left


def _entrypoint(options: list[Option]) -> list[Word]:
    """The program of --entrypoint, which runs with the words after the image as its arguments."""
    named = [option.values[0] for option in options if option.name == "--entrypoint" and option.values]
    return [entry for entry in named[-1:] if entry.text and not entry.varies]


def _mend_image(judged: Judged, image: Word) -> bool:
    """Replaces an image that does not exist or lacks the program; True if it did."""
    wrong = ("image-without-tensorrt-llm", "unknown-release", "no-such-image")
    finding = next((finding for finding in judged.findings if finding.is_wrong and finding.kind in wrong), None)
    if finding:
        instead = finding.attempt.split()[0]
        judged.right = [instead if word == image.raw else word for word in judged.right]
    return finding is not None


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


def _run_option(judged: Judged, option: Option, options: list[Option], need: tuple[str, str]) -> list[str]:
    near = "" if varies(option.name) else slip_of(option.name, DOCKER_RUN)
    if near:
        judged.no_option("docker run", option, near)
        return [near, *raws(option.values)]
    seen = " ".join(option.raw)
    if option.name in ("-e", "--env"):
        name, equals, value = option.value.partition("=")
        if equals and judge_hidden(judged, name, value, need, seen=seen):
            return []
        kept = judge_variable(judged, name, value, place="docker", option=option.name)
        return [] if kept == DROPPED else [option.name, name] if kept == HELD else list(option.raw)
    if option.name == "--gpus" and not any(option.name == "--device" for option in options):
        return judge_gpus_option(judged, option)
    if option.varies:
        return list(option.raw)
    if option.name == "--ulimit":
        right = judge_ulimit(judged, option.value, seen=seen)
        return list(option.raw) if right == option.value else ["--ulimit", right] if right else []
    if option.name == "--shm-size":
        right = judge_shm(judged, option.value, seen=seen, written="--shm-size {}")
        return list(option.raw) if right == option.value else ["--shm-size", right]
    if option.name in ("-p", "--publish"):
        return list(option.raw) if judge_port_text(judged, option.value, seen=seen) else []
    return list(option.raw)


def _shared_memory(judged: Judged, options: list[Option], inner: Call, place: int) -> None:
    shares = any(option.name in ("--shm-size", "--ipc") for option in options)
    if inner.program == "tritonserver" and not shares:
        know_shm(judged, seen="neither --shm-size nor --ipc", attempt="--shm-size 2g")
        judged.right.insert(place, "--shm-size 2g")


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
