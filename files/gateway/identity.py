"""The person behind a request, whom an OIDC proxy in front of the gateway names in a header. Off by default.

    "identity": {"header": "x-forwarded-email", "proxies": ["127.0.0.1"]}

The header counts only on connections from the declared addresses; from all others it is ignored, because any client can
write it. It grants no right: only the key does. Usage counts the person within the key, as `PREFIX/PERSON`, and the
audit names the person. That is personal data: the counters keep it for `usage_days`, the journal as long as other
lines.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.errors import ApiError
from gateway.fields import Fields

HEADER = re.compile(r"[a-z0-9-]{1,64}")
PERSON = re.compile(rb"[\x21-\x7e]{1,128}")
MOST_PROXIES = 64


@dataclass(frozen=True)
class Identity:
    """Name of the header, in lower case, and the addresses that may send it."""

    header: bytes
    proxies: frozenset[str]


def identity_of(section: Fields) -> Identity:
    """The identity that the settings declare.

    Raises: FieldError.
    """
    header, proxies = section.text("header"), section.texts("proxies", MOST_PROXIES)
    if not HEADER.fullmatch(header):
        raise section.wrong("header", "a header's name in lower case")
    try:
        addresses = frozenset(str(ipaddress.ip_address(proxy)) for proxy in proxies)
    except ValueError:
        raise section.wrong("proxies", "a list of IP addresses") from None
    section.close()
    return Identity(header.encode(), addresses)


def person_of(identity: Identity | None, client: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The person of a request from the address `client`; empty if that is not a proxy's, or without the header.

    Raises: ApiError 400 for a proxy's header that is repeated or is not a name.
    """
    if identity is None or client not in identity.proxies:
        return ""
    values = [value for name, value in headers if name == identity.header]
    if not values:
        return ""
    if len(values) > 1 or not PERSON.fullmatch(values[0]):
        header = identity.header.decode()
        raise ApiError(400, f"the header `{header}` of the proxy must be one name of up to 128 printable characters")
    return values[0].decode("ascii")
