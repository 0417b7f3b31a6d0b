"""Mutual TLS with servers of other hosts: the gateway's identity, and the authority whose certificates it trusts.

Both files are replaced as a whole when a certificate is renewed. They are read with the settings and then not again:
new content is a new identity with new connections, while requests on the old ones end.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # processes that tokenise import the settings' types, and need no gRPC
    import grpc

SERVER = "enginehouse-server"
"""gRPC metadata with the name of the wanted server: all servers of a host are behind one port."""
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----\n?", re.DOTALL)


@dataclass(frozen=True)
class Identity:
    """Private key and certificates in PEM; `chain` begins with the gateway's own."""

    authority: bytes
    chain: bytes
    key: bytes = field(repr=False)
    context: ssl.SSLContext = field(compare=False, repr=False)
    """Key, chain and authority as HTTP clients take them: TLS 1.3 and newer."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Credentials for a gRPC channel."""
        import grpc

        return grpc.ssl_channel_credentials(self.authority, self.key, self.chain)


def identity(certificate: Path, authority: Path) -> Identity:
    """The identity in a file with a private key and its certificate, and those of its authority in another.

    Raises: OSError, or ValueError if a file holds something else.
    """
    own, trusted = certificate.read_bytes(), authority.read_bytes()
    if (key := KEY.search(own)) is None:
        raise ValueError(f"{certificate} has no private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=trusted.decode("ascii"))
    context.load_cert_chain(certificate)
    return Identity(trusted, KEY.sub(b"", own), key[0], context)
