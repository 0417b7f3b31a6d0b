"""Files that a host shares with peers of the plan: those it sends, and those it fetches."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PeerSlice:
    """A peer: another host with the same files, and the address at which it shares them."""

    host: str
    place: str
    """address:port; an IPv6 address is in brackets."""


@dataclass(frozen=True, kw_only=True)
class SharedSlice:
    """A set of files that this host shares with peers."""

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
        return next((files for files in self.files if (files.model, files.revision) == (model, revision)), None)

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(sorted(files.port for files in self.files))

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(
            sorted({peer.place.rpartition(":")[0].strip("[]") for files in self.files for peer in files.peers})
        )
