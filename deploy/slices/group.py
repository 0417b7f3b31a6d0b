"""The part of a host in a group: hosts that serve one model together, each with some of its ranks."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MemberSlice:
    """A host of a group, and its address on the network between them."""

    host: str
    address: str


@dataclass(frozen=True, kw_only=True)
class RankSlice:
    """A rank: its GPU on this host, its layers and heads, and its planned MiB."""

    rank: int
    gpu: int
    stage: int
    layers: tuple[int, int]
    """Number of its first and of its last layer, counted from 0."""
    heads: int
    kv_heads: int
    """Number of key/value heads; 1 for latent attention (MLA), whose latent vector is complete on every GPU."""
    experts: int
    """Whole experts of each layer; 0 for a dense model."""
    weights_mib: int
    context_mib: int
    workspace_mib: int
    kv_cache_mib: int

    @property
    def total_mib(self) -> int:
        return self.weights_mib + self.context_mib + self.workspace_mib + self.kv_cache_mib


@dataclass(frozen=True, kw_only=True)
class TrafficOfRanks:
    """Bytes that one host sends over its link for a prompt of `tokens` tokens, and the milliseconds this takes."""

    tokens: int
    tensor_mib: int
    pipeline_mib: int
    milliseconds: int


@dataclass(frozen=True, kw_only=True)
class GroupSlice:
    """All members in the order of their ranks, and this host's own number and ranks."""

    identity: str
    """Digest that all members of one release of the group share, and that no other release has."""
    members: tuple[MemberSlice, ...]
    number: int
    """This host's number among the members; 0 leads."""
    tensor: int
    pipeline: int
    expert: int
    port: int
    """The first of three ports: the port for the members' exchange, the leader's port for answers, and the port of the
    ranks' store."""
    fabric: str
    gbit: int
    interface: str
    ranks: tuple[RankSlice, ...]
    sent: TrafficOfRanks

    @property
    def leader(self) -> MemberSlice:
        return self.members[0]

    @property
    def others(self) -> tuple[MemberSlice, ...]:
        return tuple(member for place, member in enumerate(self.members) if place != self.number)
