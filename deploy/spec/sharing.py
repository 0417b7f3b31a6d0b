"""Hosts that give each other what each of them would fetch, as an operator declares them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Hosts that declare it give each other their models' files: one fetches a model, the others get it from there.

    A host is reached at its `peer_address`, and by hosts of the plan alone where it has a `Firewall`. Files travel as
    plain text, each checked by its sha256 before it is published. `Weights.…(private=True)` do not travel so.
    """

    port: int = 7400
    """The first of a row: each set of files that hosts share has a port of its own, counted from here."""
    images_port: int = 0
    """Of loopback: from there Docker pulls the image, once its blobs are here. 0: hosts do not share their images.

    An image that is pinned by its digest comes as its registry has it, byte for byte, once for all hosts, and runs
    under the name `127.0.0.1:PORT/…@sha256:…`. Its blobs stay on the disk, to be given to hosts that come later.
    """
