"""Forms of the gateway's pages: parsing, the site that sent them, and the headers of every page."""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Mapping

POLICY = (
    b"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; sandbox "
    b"allow-forms allow-same-origin"
)
HTML = b"text/html; charset=utf-8"
PAGE_HEADERS = (
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, browsers hide a form's origin from us as well
    (b"x-frame-options", b"DENY"),
)
MOST_FIELDS = 16
LOOPBACK = re.compile(rb"(?:[a-z0-9-]+\.)*localhost|127(?:\.[0-9]{1,3}){3}|\[::1\]")
ESCAPED = re.compile(rb"[!-$&-~]*(?:%[0-9A-Fa-f]{2}[!-$&-~]*)*")


def fields_of(raw: bytes) -> dict[str, str]:
    """The fields of a form, each name's last value, with newlines as the only line ends.

    Raises: ValueError for a body that no browser sends.
    """
    pairs = [pair.partition(b"=") for pair in raw.split(b"&") if pair]
    if len(pairs) > MOST_FIELDS:
        raise ValueError(f"more than {MOST_FIELDS} fields")
    return {unescaped(name): unescaped(value).replace("\r\n", "\n") for name, _, value in pairs}


def unescaped(text: bytes) -> str:
    """The text of a field. Quoted-printable is the same code with another sign, and Python decodes it in C.

    64 KiB of escapes take 0.2 ms; urllib takes 20 (2026-11-27, two cores of an unnamed x86-64 VM, Python 3.11).

    Raises: ValueError for an invalid escape, and for text that is not UTF-8.
    """
    if not ESCAPED.fullmatch(text):
        raise ValueError("a field is not text of a form")
    return a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"=").replace(b"+", b" ")).decode("utf-8")


def is_of_another_site(headers: Mapping[bytes, bytes], own_url: str) -> bool:
    """True if a browser reports that another site's page sent the form.

    Browsers send the relation in `Sec-Fetch-Site` over TLS and to localhost, else the page's origin in `Origin`. Other
    programs send neither. `own_url`: the gateway's address for clients, "" if undeclared.
    """
    if site := headers.get(b"sec-fetch-site"):
        return site not in (b"same-origin", b"none")
    if origin := headers.get(b"origin"):
        own = {headers.get(b"host", b""), netloc(own_url.encode())}
        return netloc(origin).lower() not in {name.lower() for name in own if name}
    return False


def is_foreign_page(origin: bytes, own_url: str) -> bool:
    """True for the origin of a web page over plain HTTP that is neither on loopback nor at the gateway's address.

    Such a page can let its own name lead to loopback: the browser then lets it ask the gateway, and read the answers. A
    page over HTTPS cannot, because the gateway has no certificate for its name; a balancer's page is of this kind.
    """
    site, own = netloc(origin).lower(), netloc(own_url.encode()).lower()
    is_near = site == own or LOOPBACK.fullmatch(re.sub(rb":[0-9]+$", b"", site))
    return origin.startswith(b"http://") and not is_near


def netloc(url: bytes) -> bytes:
    return url.partition(b"://")[2].partition(b"/")[0]
