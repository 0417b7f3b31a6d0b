"""The image of a host: its origin and digest, and the reference with which Docker pulls it."""

from dataclasses import dataclass

DOCKER_HUB = "docker.io"


def registry_of(reference: str) -> str:
    """The registry's host (and port) in an image reference, by Docker's rules."""
    first = reference.split("/", 1)[0]
    is_host = "/" in reference and ("." in first or ":" in first or first == "localhost")
    return first if is_host else DOCKER_HUB


def registry_host(reference: str) -> str:
    """The host that serves the registry of an image reference."""
    registry = registry_of(reference)
    return "registry-1.docker.io" if registry == DOCKER_HUB else registry


@dataclass(frozen=True, kw_only=True)
class ImageSlice:
    """The container image. `reference` is name:tag; with a `digest` the image is pulled and run by digest."""

    reference: str
    digest: str
    triton_core: str
    trtllm: str
    cuda: str
    repairs: tuple[str, ...]
    """Known defects of this image that the host still has to repair (catalog `Defect.name`)."""
    size_mib: int
    shared_port: int = 0
    """Port of loopback where Docker finds it once its blobs are on the host; 0 if it comes from its registry."""

    @property
    def origin_reference(self) -> str:
        """The reference in its registry: `name@sha256:…` if pinned, else `name:tag`."""
        return f"{self.reference.rsplit(':', 1)[0]}@{self.digest}" if self.digest else self.reference

    @property
    def files_name(self) -> str:
        return f"image-{self.digest.removeprefix('sha256:')[:12]}"

    @property
    def pull_reference(self) -> str:
        """The reference that Docker pulls and runs: the origin's, or for a shared image the same digest on loopback."""
        first, _, rest = self.origin_reference.partition("/")
        path = rest if "." in first or ":" in first else self.origin_reference
        return f"127.0.0.1:{self.shared_port}/{path}" if self.shared_port else self.origin_reference
