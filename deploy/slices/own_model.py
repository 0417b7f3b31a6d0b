"""The operator's own model, which a server's Triton loads beside the planned ones."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OwnModelSlice:
    """A model of the operator's repository. The container has only this directory of the repository, at the same
    path."""

    name: str
    repository: str
    mib: int
    """MiB on each GPU of the server."""

    @property
    def directory(self) -> str:
        return f"{self.repository}/{self.name}"
