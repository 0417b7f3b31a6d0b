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


def is_address(text: str) -> bool:
    """True for the IP address of one host, also on one interface (fe80::1%eth0); false for 0.0.0.0."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    is_of_nobody = address.is_unspecified or address.is_multicast or text == "255.255.255.255"
    return text.isprintable() and " " not in text and not is_of_nobody
