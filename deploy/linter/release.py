"""The release for which a pasted command is judged: the named release, the image's release, or the default.

A container release (`26.07`) and a TensorRT-LLM version (`1.2.1`) both name a target; images of either kind do too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deploy.catalog.flags import confidence_of
from deploy.catalog.names import offer
from deploy.catalog.releases import DEFAULT_RELEASE, RELEASES
from deploy.linter.words import Word
from deploy.refusals import Refusal

TRITON_IMAGE = re.compile(r"(?:^|/)nvidia/tritonserver:(\d\d\.\d\d)(-[\w-]+)?")
TRTLLM_IMAGE = re.compile(r"(?:^|/)nvidia/tensorrt-llm/release:v?([\d.]+)")
FIRST, LAST = (18, 8), (35, 12)
"""Months of Triton's container releases: the first one, and one far in the future."""
CHECKED = "checked as text; nothing was run"


@dataclass(frozen=True, kw_only=True)
class Target:
    """The release for which a command is judged; `name` is the container release, empty outside Triton's images."""

    name: str
    trtllm: str
    image: str = ""
    """The image a command runs in, if the text names one."""
    settings: tuple[Word, ...] = ()
    """Other settings of the container: mounts, variables."""
    is_unread: bool = False
    """True for a container release that may exist and is not in the catalog."""

    @property
    def in_words(self) -> str:
        """The target's name in a sentence."""
        if self.is_unread:
            return f"release {self.name} (not in the catalog)"
        trtllm = f"TensorRT-LLM {self.trtllm}" if self.trtllm else "no TensorRT-LLM"
        return f"release {self.name} ({trtllm})" if self.name else trtllm


def target_named(name: str) -> Target:
    """The target of `--release`, a container release or a TensorRT-LLM version. Raises: a Refusal for unknown names."""
    wanted = name or DEFAULT_RELEASE
    if wanted in RELEASES:
        return Target(name=wanted, trtllm=RELEASES[wanted].trtllm)
    if confidence_of(wanted)[1] and re.fullmatch(r"\d+\.\d+\.\d+[\w.]*", wanted):
        return Target(name="", trtllm=wanted)
    raise Refusal(
        f"release {wanted} is not in the catalog",
        facts={"where": "--release", "seen": repr(wanted), "wanted": "a container release, or a TensorRT-LLM version"},
        attempt=offer(wanted, [row.name for row in RELEASES.values() if row.offered]),
        state=CHECKED,
        kind="unknown-release",
    )


def target_inside(image: str, settings: Sequence[Word], target: Target) -> Target:
    return replace(target_of_image(image) or target, image=image, settings=tuple(settings))


def target_of_image(reference: str) -> Target | None:
    """The target of an image; None if the image's name shows no release."""
    triton, trtllm = TRITON_IMAGE.search(reference), TRTLLM_IMAGE.search(reference)
    if triton and triton.group(1) in RELEASES:
        return target_named(triton.group(1))
    if triton and is_plausible(triton.group(1)):
        return Target(name=triton.group(1), trtllm="", is_unread=True)
    return Target(name="", trtllm=trtllm.group(1)) if trtllm else None


def is_plausible(name: str) -> bool:
    """True if a container release of this name may exist: a month since the first one, without a row in the catalog."""
    year, _, month = name.partition(".")
    return re.fullmatch(r"\d\d\.(?:0[1-9]|1[0-2])", name) is not None and FIRST <= (int(year), int(month)) <= LAST
