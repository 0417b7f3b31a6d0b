"""The choice of a server for a prompt: the one with most of its beginning cached, within a bound of load.

A server that has read a prompt's beginning finds its blocks in the key/value cache and need not compute them again. A
prompt is hashed in chunks from its beginning, so that each hash stands for all tokens before it. A process remembers
which server answered which hash; the longest known beginning wins, so a growing chat stays on its server. An unknown
prompt goes to its home, chosen by rendezvous hashing of its first blocks: all processes of all gateways choose alike
without a common store, and the removal of a server moves only that server's prompts. A beginning that many prompts
share would overload its server, so loads are bounded (Mirrokni, Thorup and Zadimoghaddam, 2016): a server with much
more load than the others is skipped.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Protocol, TypeVar

BLOCK_TOKENS = 32
"""Tokens of a block; TensorRT-LLM caches whole blocks only, so a prompt shorter than a block has no cached prefix."""
HOME_BLOCKS = 4
"""Blocks that choose a prompt's home, or all blocks of a shorter prompt. A chat has the same home at every turn."""
DEPTHS = (*range(1, 8), *(2**power * quarters // 4 for power in range(3, 10) for quarters in range(4, 8)), 1024)
"""Numbers of blocks at which a prompt is hashed: a known beginning is found to within a fifth of its length."""
BOUND = 1.25
"""Most load of a server, as a multiple of the mean load of all servers of its model."""
REQUESTS_AHEAD = 4
"""Additional requests of the same size that a server may have ahead: under little load, cached blocks count more."""
MOST_KNOWN = 65_536
"""Hashes that a process remembers; a chat of 32,000 tokens has 36."""


class Loaded(Protocol):
    """A server with its load."""

    name: str
    outstanding: int
    turn: int
    """Number of the latest choice of this server."""


S = TypeVar("S", bound=Loaded)


@dataclass(frozen=True)
class Prefix:
    """Hashes of a prompt's beginnings, the shortest first; `home` is b"" if the prompt cannot be cached."""

    home: bytes = b""
    chain: tuple[bytes, ...] = ()
    tenant: str = ""


NO_PREFIX = Prefix()
"""Prefix of requests that leave nothing in a cache."""


def prefix_of(ids: Sequence[int], tenant: str, apart: str, session: str = "") -> Prefix:
    """The hashes of a prompt. Tenants share none, nor do prompts whose blocks differ by `apart`.

    `session`: the client's own name for prompts that belong together; it chooses the home instead of the first blocks.
    """
    seed = blake2b("\0".join((tenant, apart, session)).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    chain, key = [seed] if session else list[bytes](), seed
    for start, end in pairwise((0, *(depth for depth in DEPTHS if depth * BLOCK_TOKENS <= len(ids)))):
        tokens = array("q", ids[start * BLOCK_TOKENS : end * BLOCK_TOKENS])
        key = blake2b(tokens.tobytes(), key=key, digest_size=16).digest()
        chain.append(key)
    home = chain[0 if session else min(len(chain), HOME_BLOCKS) - 1] if chain else b""
    return Prefix(home, tuple(chain), tenant)


class Known:
    """Record of the server that last answered a beginning. The tenant with most entries loses its oldest first."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self._most, self._count = most, 0
        self._servers: dict[str, OrderedDict[bytes, str]] = {}

    def __len__(self) -> int:
        return self._count

    def of(self, prefix: Prefix) -> list[str]:
        """The servers that know a beginning of the prompt, the longest beginning first."""
        known: Mapping[bytes, str] = self._servers.get(prefix.tenant, {})
        return [known[key] for key in reversed(prefix.chain) if key in known]

    def learn(self, prefix: Prefix, server: str, ready: Collection[str]) -> None:
        """Records that the server has answered the prompt.

        A beginning keeps its server while that is `ready`, so that one of the chats that share it does not move the
        others.
        """
        known = self._servers.setdefault(prefix.tenant, OrderedDict())
        before = len(known)
        for key in prefix.chain:
            if known.get(key) not in ready:
                known[key] = server
            known.move_to_end(key)
        self._count += len(known) - before
        if not known:
            del self._servers[prefix.tenant]
        if self._count > self._most:
            self._forget()

    def _forget(self) -> None:
        """Removes at least a sixteenth, so that the search for the largest tenant is rare."""
        while self._count > self._most - self._most // 16:
            tenant = max(self._servers, key=lambda name: len(self._servers[name]))
            known = self._servers[tenant]
            for _ in range(max(min(len(known) // 2, self._most // 16), 1)):
                known.popitem(last=False)
                self._count -= 1
            if not known:
                del self._servers[tenant]


def chosen(servers: Sequence[S], prefix: Prefix, weight: int, known: Iterable[str] = ()) -> S:
    """The server for a request of `weight` tokens among ready ones; `known` are the preferred ones, in order.

    Without a prefix: the server with the least load; among equals the one whose last choice is longest ago.
    """
    if not prefix.home:
        return min(servers, key=lambda server: (server.outstanding, server.turn))
    mean = sum(server.outstanding for server in servers) / len(servers)
    most = BOUND * mean + REQUESTS_AHEAD * weight
    free = {server.name: server for server in servers if server.outstanding <= most}
    for name in known:
        if name in free:
            return free[name]
    return max(free.values(), key=lambda server: _rank(prefix.home, server.name))


def drawn(shares: Sequence[tuple[str, int]], key: bytes) -> str:
    """The name that a key selects among names with weights. A weight that grows moves only the keys that it gains."""
    point = int.from_bytes(blake2b(key, digest_size=8).digest(), "big") * sum(weight for _, weight in shares) >> 64
    for name, weight in shares:
        if point < weight:
            return name
        point -= weight
    raise AssertionError("the weights sum to 0")


def _rank(home: bytes, name: str) -> bytes:
    return blake2b(name.encode(), key=home, digest_size=8).digest()
