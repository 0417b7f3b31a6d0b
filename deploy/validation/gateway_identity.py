"""The header in which an OIDC proxy names persons: it may come only from the host itself."""

import re
from collections.abc import Iterator

from deploy.inventory.reach import ip_of
from deploy.refusals import Refusal, refuse
from deploy.spec import Gateway, Identity

HEADER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
KEYS = ("authorization", "api-key", "x-api-key")
"""Headers that carry the key."""
OWN = ("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "cookie", "connection")
"""Headers with another meaning for the gateway."""
MOST = 64


def identity_problems(gateway: Gateway) -> Iterator[Refusal]:
    """A refusal for each mistake in the header that names persons; none without such a header."""
    identity = gateway.identity
    if identity is None:
        return
    if gateway.protection == "balancer":
        yield refuse(
            "identity-behind-balancer",
            f"any client could set {identity.header} itself: the balancer forwards headers unchanged",
            where="gateway.identity",
            seen='identity=… and protection="balancer"',
            wanted="an OIDC proxy on the gateway's own host, as its only client",
            attempt='Gateway(address="127.0.0.1") with the proxy in front of it, or no identity',
        )
    yield from _header(identity)
    yield from _proxies(identity)


def _header(identity: Identity) -> Iterator[Refusal]:
    if len(identity.header) > MOST or not HEADER.fullmatch(identity.header) or identity.header in (*KEYS, *OWN):
        yield refuse(
            "not-a-header-of-persons",
            f"{identity.header!r} is not a header that can name a person",
            where="gateway.identity.header",
            seen=repr(identity.header),
            wanted=f"up to {MOST} small letters, digits and dashes, and no header that has the key or a body's form",
            attempt='Identity(header="x-forwarded-email")',
        )


def _proxies(identity: Identity) -> Iterator[Refusal]:
    wrong = [proxy for proxy in identity.proxies if not ((address := ip_of(proxy)) and address.is_loopback)]
    if wrong or not 1 <= len(identity.proxies) <= MOST:
        place = f"{wrong[0]!r}, which is not the gateway's own host" if wrong else "nowhere, or too many addresses"
        yield refuse(
            "identity-from-elsewhere",
            f"the header that names persons could come from {place}",
            where="gateway.identity.proxies",
            seen=", ".join(map(repr, identity.proxies[:3])) or "()",
            wanted=f"1 to {MOST} loopback addresses: the gateway listens on loopback",
            attempt='Identity(header="x-forwarded-email"), whose proxies are ("127.0.0.1",)',
        )
