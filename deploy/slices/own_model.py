"""The operator's own model, which a server's Triton loads beside the planned ones."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OwnModelSlice:
    """A model of the operator's repository. The container has its directory at the same path, and none beside it."""

    name: str
    repository: str
    mib: int
    """MiB on each GPU of the server."""

    @property
    def directory(self) -> str:
        return f"{self.repository}/{self.name}"
