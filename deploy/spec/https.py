"""HTTPS before the gateway on its own host, as an operator declares it."""

from dataclasses import dataclass

from deploy.spec.sources import Secret

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"


@dataclass(frozen=True, kw_only=True)
class Acme:
    """A certificate of an ACME authority, ordered and renewed on the host by the distribution's certbot.

    The authority connects to port 80 of each name (HTTP-01). certbot answers there during an order; at other times no
    program listens. Naming an authority means that you agree to its terms of service.
    """

    names: tuple[str, ...]
    """DNS names that lead to the host; the certificate is for all of them."""
    email: str = ""
    """Address of the account at the authority; empty: an account without an address."""
    directory: str = LETS_ENCRYPT
    """URL of the authority's directory."""
    authority: str = ""
    """PEM file of the control machine: the issuer of the directory's own certificate, if the operating system does not
    trust it."""


@dataclass(frozen=True, kw_only=True)
class Https:
    """HAProxy from the distribution, before a `Gateway` on loopback: TLS without a second machine.

    The certificate is a PEM file of the control machine with its chain, and `certificate_key` its private key; or
    `acme` orders one. The host needs a `Firewall`; with `rest="closed"` only SSH, this port and, for ACME, port 80
    answer from outside.
    """

    address: str = "0.0.0.0"
    port: int = 443
    certificate: str = ""
    certificate_key: Secret | None = None
    acme: Acme | None = None
    allow: tuple[str, ...] = ()
    """Networks that reach the port; empty: all, because the gateway requires a key of each client."""
    address_connections: int = 4096
    """Connections of one address, of IPv6 a /64; more are closed before TLS. 0 is no limit."""
    address_requests: int = 120_000
    """Requests a minute of one address, answered or refused; 0 is no limit."""
