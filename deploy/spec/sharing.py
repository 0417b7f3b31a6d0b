"""Sharing of model files and images between the hosts of a fleet, as an operator declares it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """Hosts that declare it share their models' files: one host fetches a model, and its peers copy it from there.

    A host is reached at its `peer_address`; if it has a `Firewall`, only hosts of the plan reach it. Files are sent
    unencrypted, and each is checked by its sha256 before it is published. `Weights.…(private=True)` are not shared.
    """

    port: int = 7400
    """The first port of a range: each shared set of files has its own port, counted from here."""
    images_port: int = 0
    """Loopback port from which Docker pulls the image once its blobs are on the host. 0: hosts do not share their
    images.

    An image that is pinned by its digest comes as its registry has it, byte for byte, once for all hosts, and runs
    under the name `127.0.0.1:PORT/…@sha256:…`. Its blobs stay on the disk for peers that come later.
    """
