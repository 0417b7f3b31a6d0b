"""What has been decided of the files that a host gives to others of the plan, or gets from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PeerSlice:
    """Another host with the same files: its name, and where it gives and gets them."""

    host: str
    place: str
    """address:port; an IPv6 address stands in brackets."""


@dataclass(frozen=True, kw_only=True)
class SharedSlice:
    """One set of files that this host shares with others."""

    model: str
    revision: str
    port: int
    here: str
    """address:port of this host."""
    peers: tuple[PeerSlice, ...]


@dataclass(frozen=True, kw_only=True)
class SharingSlice:
    """All that a host shares."""

    address: str
    files: tuple[SharedSlice, ...]

    def of(self, model: str, revision: str) -> SharedSlice | None:
        """How a set of files is shared; None where it comes the direct way alone."""
        return next((one for one in self.files if (one.model, one.revision) == (model, revision)), None)

    @property
    def ports(self) -> tuple[int, ...]:
        """Where other hosts come to."""
        return tuple(sorted(one.port for one in self.files))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The hosts that come, and no others."""
        return tuple(sorted({peer.place.rpartition(":")[0].strip("[]") for one in self.files for peer in one.peers}))
