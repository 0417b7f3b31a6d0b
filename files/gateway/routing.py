"""Which server a prompt goes to: the one that knows its beginning, unless that one has much more to do than others.

A server that has read a prompt's beginning finds its blocks in the key/value cache and need not read it again. So
prompts with the same beginning go to the same server, chosen by rendezvous hashing: every process of every gateway
chooses alike without telling another, and a server that comes or goes moves its own prompts only. A beginning that
half the world shares would crowd its server, so loads are bounded (Mirrokni, Thorup and Zadimoghaddam, 2016): a server
that is too far ahead is passed over. What is kept of a prompt is a hash, and that only while it is routed.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

BLOCK_TOKENS = 32
"""TensorRT-LLM caches whole blocks of so many tokens; a prompt without one has nothing to find again."""
MOST_BLOCKS = 32
"""Of a prompt that count: longer than most system prompts, so that conversations with the same one are told apart."""
BOUND = 1.25
"""A server may have so many times the mean of what its kind has to do …"""
REQUESTS_AHEAD = 4
"""… and so many requests of this one's size besides: where there is little to do, what is cached counts more."""


class Loaded(Protocol):
    """A server as far as it is chosen by what it has to do."""

    name: str
    outstanding: int
    turn: int
    """Of all choices, the latest that fell on it."""


S = TypeVar("S", bound=Loaded)


def beginning_of(ids: Sequence[int], apart: str) -> bytes:
    """A hash of the prompt's first blocks, and of what keeps its blocks apart from equal ones; b"" without a block."""
    tokens = min(len(ids) // BLOCK_TOKENS, MOST_BLOCKS) * BLOCK_TOKENS
    if not tokens:
        return b""
    return blake2b(apart.encode() + b"\0" + array("i", ids[:tokens]).tobytes(), digest_size=16).digest()


def chosen(servers: Sequence[S], beginning: bytes, weight: int) -> S:
    """The server for a request of `weight` tokens, of one or more that are ready.

    Without a beginning: the server that has least to do; of equals the one that was not chosen for longest.
    """
    if not beginning:
        return min(servers, key=lambda server: (server.outstanding, server.turn))
    mean = sum(server.outstanding for server in servers) / len(servers)
    most = BOUND * mean + REQUESTS_AHEAD * weight
    return max((server for server in servers if server.outstanding <= most), key=lambda one: _rank(beginning, one.name))


def _rank(beginning: bytes, name: str) -> bytes:
    return blake2b(name.encode(), key=beginning, digest_size=8).digest()
