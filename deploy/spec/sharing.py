"""Sharing of model files and images between the hosts of a fleet, as an operator declares it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Hosts that declare it share their models' files: one fetches a model, its peers copy it from there.

    A host is reached at its `peer_address`, and by hosts of the plan alone if it has a `Firewall`. Files travel as
    plain text, each checked by its sha256 before it is published. `Weights.…(private=True)` do not travel so.
    """

    port: int = 7400
    """The first port of a range: each shared set of files has its own port, counted from here."""
    images_port: int = 0
    """Of loopback: from there Docker pulls the image, once its blobs are here. 0: hosts do not share their images.

    An image that is pinned by its digest comes as its registry has it, byte for byte, once for all hosts, and runs
    under the name `127.0.0.1:PORT/…@sha256:…`. Its blobs stay on the disk for peers that come later.
    """
