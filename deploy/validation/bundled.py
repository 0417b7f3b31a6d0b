"""Refusals of hosts without a network: settings that no bundle can serve."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deploy.models.resolve import image_of, release_row
from deploy.refusals.errors import Refusal
from deploy.refusals.quoting import shortened
from deploy.refusals.refuse import refuse
from deploy.spec import Host


def bundled_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each setting of a host without a network that still needs a network, or a key."""
    if host.connected:
        return
    row = release_row(host.release)
    if re.search(r"://|\.(?:tar|tgz|tar\.\w+|zip)$", host.bundle):
        yield refuse(
            "no-path",
            "`bundle` is a directory of this machine, as `enginehouse bundle` writes it",
            where="bundle",
            seen=shortened(host.bundle),
            wanted="the path of a directory, unpacked",
            attempt='bundle="bundle", the default',
        )
    if row and not image_of(host, row).digest:
        yield refuse(
            "bundle-unpinned-image",
            "a host without a network takes its image by digest, and the image is not pinned",
            where="image_digest",
            seen="a tag alone",
            wanted="the digest of the image",
            attempt="enginehouse pin INVENTORY on a connected machine",
        )
    if host.engine_trust is None:
        yield refuse(
            "bundle-without-trust",
            "the inventory names no key that verifies the bundle of this host",
            where="engine_trust",
            seen="nothing",
            wanted="the key that signs bundles and engines",
            attempt='engine_trust=EngineTrust(key="~/.ssh/engines"), after: ssh-keygen -t ed25519 -f ~/.ssh/engines',
        )
    if host.gateway and host.gateway.https and host.gateway.https.acme:
        yield refuse(
            "acme-without-network",
            "an ACME authority is reached over the network, and this host has no network",
            where="gateway.https.acme",
            seen=host.gateway.https.acme.directory,
            wanted="a certificate of your own",
            attempt='Https(names=…, certificate="host.pem", certificate_key=Secret.env("HOST_KEY"))',
        )
