"""The program that serves an LLM beside its Triton server, as planned: image, start line, settings, pages."""

from dataclasses import dataclass

from deploy.slices.group import GroupSlice
from deploy.slices.image import ImageSlice


@dataclass(frozen=True, kw_only=True)
class RuntimeSlice:
    """An LLM's own container on the GPUs of its server. It listens on the host's loopback at `port`."""

    name: str
    """vllm or trtllm-serve."""
    version: str
    port: int
    image: ImageSlice
    program: tuple[str, ...]
    arguments: tuple[str, ...]
    """Words after the program. A word `@RELEASE@/…` is a file of the release."""
    configuration: dict[str, object]
    """Content of the YAML file that the arguments name; empty without such a file."""
    metrics_path: str
    answers_metric: str
    """The counter of finished answers, by which the watchdog distinguishes a busy engine from a hanging one."""
    tokens_metric: str
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the container in addition to the variables of every program."""
    group: GroupSlice | None = None
    """None: the model is on one host."""
