"""Judges images: the release of an image of Triton, and whether it has the program that it should run."""

import re

from deploy.catalog.names import nearest
from deploy.catalog.releases import DEFAULT_RELEASE, LAST_WITH_ENGINES, OFFERED, RELEASES
from deploy.catalog.versions import version
from deploy.linter.findings import Call, Judged
from deploy.linter.release import Target, is_plausible
from deploy.linter.words import Word

FIRST_WITH_TRTLLM = (23, 10)
TRITON = "nvcr.io/nvidia/tritonserver"
FLAVOUR = re.compile(r"nvidia/tritonserver:\d\d\.\d\d(-[\w-]+)?")
BARE = re.compile(r"(?:^|/)(?:nvidia/cuda|ubuntu|debian|python)(?::|@|$)")
"""Images that hold neither Triton nor TensorRT-LLM."""
OF_TRTLLM = ("trtllm-build", "trtllm-serve", "trtllm-bench", "convert_checkpoint.py", "quantize.py")
OF_LLM = re.compile(r"engines?\b|trt-?llm|tensorrt[-_]?llm|llmapi|inflight|ensemble", re.IGNORECASE)
"""Words that show that a server should hold an LLM of TensorRT-LLM."""


def default_image() -> str:
    return RELEASES[DEFAULT_RELEASE].image


def right_image(target: Target) -> str:
    """The image with TensorRT-LLM of the target release, or of the default one."""
    release = RELEASES.get(target.name)
    return release.image if release and release.trtllm else default_image()


def judge_image(judged: Judged, image: Word) -> None:
    """Adds the findings about the tag of a Triton image; other images are ignored."""
    if TRITON not in image.text or image.varies or "<" in image.text:
        return
    tag = image.text.partition("@")[0].partition(f"{TRITON}:")[2]
    release = RELEASES.get(tag[:5])
    if release is None and is_plausible(tag[:5]):
        _unread(judged, image, tag)
    elif release is None:
        near = nearest(tag[:5], RELEASES) if tag[:2].isdecimal() else ""
        judged.add(
            "unknown-release",
            f"{image.text} names no release of the catalog" if tag else f"{TRITON} has no tag `latest`",
            seen=image.text,
            wanted=f"a release by name, from {min(RELEASES)} to {LAST_WITH_ENGINES}",
            attempt=RELEASES[near].image if near else default_image(),
        )
    elif "-trtllm-" in tag and not release.trtllm:
        judged.add(
            "no-such-image",
            f"release {release.name} has no image with TensorRT-LLM",
            seen=image.text,
            wanted="a release that has one",
            attempt=f"{default_image()}  ({release.instead})",
        )
    elif not release.offered:
        judged.know(
            "old-release",
            f"release {release.name} is not one this project serves: {release.instead}",
            seen=f"{image.text}, TensorRT-LLM {release.trtllm or 'absent'}",
            wanted=f"{', '.join(OFFERED[:-1])} or {OFFERED[-1]}",
            attempt=default_image(),
        )


def _unread(judged: Judged, image: Word, tag: str) -> None:
    if "-trtllm-" in tag and version(tag[:5]) < FIRST_WITH_TRTLLM:
        judged.add(
            "no-such-image",
            f"release {tag[:5]} has no image with TensorRT-LLM",
            seen=image.text,
            wanted="a release from 23.10 on",
            attempt=default_image(),
        )
    else:
        judged.know(
            "release-unread",
            f"release {tag[:5]} is not in the catalog: its flags and the existence of its image are not judged",
            seen=image.text,
            wanted=f"a release of the catalog, {min(RELEASES)} to {max(RELEASES)}",
            attempt=default_image(),
        )


def judge_inside(judged: Judged, call: Call, target: Target) -> None:
    """Adds the finding that the image of a command does not have its program."""
    flavour = FLAVOUR.search(target.image)
    wants_trtllm = call.program in OF_TRTLLM or call.program.startswith("tensorrt_llm.")
    if BARE.search(target.image) and (wants_trtllm or call.program == "tritonserver"):
        _absent(judged, call, target, f"{target.image} holds no {call.program}")
    elif flavour and "-trtllm-" not in (flavour[1] or "-trtllm-"):
        if wants_trtllm:
            _absent(judged, call, target, f"an image ending in {flavour[1]} holds no TensorRT-LLM")
        elif call.program == "tritonserver":
            _server_without_trtllm(judged, call, target, flavour[1])


def _server_without_trtllm(judged: Judged, call: Call, target: Target, flavour: str) -> None:
    if "-sdk" in flavour:
        _absent(judged, call, target, f"an image ending in {flavour} holds clients and no tritonserver")
    elif any(OF_LLM.search(word.text) for word in (*call.args, *target.settings)):
        _absent(judged, call, target, f"an image ending in {flavour} has no TensorRT-LLM, which a model here needs")
    else:
        judged.know(
            "image-without-tensorrt-llm",
            f"an image ending in {flavour} holds no TensorRT-LLM: no engine and no llmapi model loads in it",
            seen=target.image,
            wanted="an image ending in -trtllm-python-py3, where a model is an LLM",
            attempt=right_image(target),
        )


def _absent(judged: Judged, call: Call, target: Target, problem: str) -> None:
    judged.add(
        "image-without-tensorrt-llm",
        problem,
        seen=f"{target.image} {call.program}",
        wanted="an image ending in -trtllm-python-py3",
        attempt=right_image(target),
    )
