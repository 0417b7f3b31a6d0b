"""Names and addresses by which a host can be reached."""

import ipaddress
import re

NAME = re.compile(r"(?=.*[A-Za-z_])[A-Za-z0-9_][\w.-]*", re.ASCII)
"""Letters, digits and . _ -; digits alone are a number, which resolvers read as an address: 26.07 is 26.0.0.7."""
LONGEST_NAME, LONGEST_LABEL = 253, 63


def is_name(text: str) -> bool:
    return (
        NAME.fullmatch(text) is not None
        and len(text) <= LONGEST_NAME
        and all(len(label) <= LONGEST_LABEL for label in text.split("."))
    )


def ip_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that the text is; None for any other text."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def own_address(address: str) -> str:
    """The address at which a host reaches its own listener: loopback if that listens on every address."""
    there = ipaddress.ip_address(address)
    if not there.is_unspecified:
        return address
    return "127.0.0.1" if there.version == 4 else "::1"


def is_address(text: str) -> bool:
    """True for the IP address of one host, also on one interface (fe80::1%eth0); false for 0.0.0.0."""
    if (address := ip_of(text)) is None:
        return False
    is_of_nobody = address.is_unspecified or address.is_multicast or text == "255.255.255.255"
    return text.isprintable() and " " not in text and not is_of_nobody
