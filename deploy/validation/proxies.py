"""Refusals of a host's proxy: an invalid address, a login in the wrong place, and a second outgoing path."""

import ipaddress
import re
from collections.abc import Iterator

from deploy.inventory.reach import is_address, is_name
from deploy.refusals import Refusal, refuse, secret_in
from deploy.spec import Host, Proxy
from deploy.validation.secrets import named_secret
from deploy.validation.urls import has_place

FORM = re.compile(r"http://[^/?#@\s]+:[0-9]{1,5}/?")
EXAMPLE = '"proxy": Proxy(url="http://proxy.example:3128")'
USERNAME = re.compile(r"[\w.@+\\-]{1,128}")


def proxy_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in the proxy of a host, and for settings that name another outgoing path."""
    if host.proxy is None:
        return
    yield from declared_proxy_problems(host.proxy)
    if "proxies" in host.docker.daemon:
        yield refuse(
            "two-proxies",
            "Docker would use the proxy in daemon, and all other programs the one in proxy",
            where='docker.daemon["proxies"]',
            seen="proxy=…, and proxies in daemon",
            wanted="one proxy for all programs",
            attempt="leave proxies out",
        )
    if not host.connected:
        yield proxy_of_no_network()


def proxy_of_no_network() -> Refusal:
    return refuse(
        "proxy-of-no-network",
        "a host without a network cannot use a proxy",
        where="proxy",
        seen="connected=False, and a Proxy",
        wanted="only connected=False, or only a Proxy",
        attempt="leave proxy out",
    )


def declared_proxy_problems(proxy: Proxy) -> Iterator[Refusal]:
    """A refusal for each mistake in a proxy itself."""
    if not (FORM.fullmatch(proxy.url) and has_place(proxy.url)) and not secret_in(proxy.url):
        yield refuse(
            "bad-url",
            f"{proxy.url!r} is not an HTTP proxy",
            where="proxy.url",
            seen=repr(proxy.url),
            wanted="http://HOST:PORT without a path; https requests pass unread, and SOCKS is not supported",
            attempt=f'Proxy(url="{_url_meant(proxy.url)}")',
        )
    if bool(proxy.username) != (proxy.password is not None):
        has, lacks = ("username", "password") if proxy.username else ("password", "username")
        typed = f'username="{proxy.username or "builder"}", password=Secret.env("PROXY_PASSWORD")'
        yield refuse(
            "half-a-login",
            f"the proxy has a {has} and no {lacks}",
            where=f"proxy.{lacks}",
            seen=f"{has} alone",
            wanted="both, or neither for a proxy without authentication",
            attempt=typed,
        )
    if proxy.username and not USERNAME.fullmatch(proxy.username):
        yield refuse(
            "bad-name",
            f"{proxy.username!r} cannot be the user name of a proxy",
            where="proxy.username",
            seen=repr(proxy.username),
            wanted="letters, digits and . _ @ + - \\; the password belongs in `password`",
            attempt='username="builder"',
        )
    if proxy.password is not None:
        yield from named_secret("proxy.password", proxy.password, "PROXY_PASSWORD")
    for written in proxy.direct:
        if not _is_place(written):
            yield refuse(
                "bad-direct",
                f"{written!r} is not a name, domain, address or network",
                where="proxy.direct",
                seen=repr(written),
                wanted="registry.corp.example, .corp.example for a whole domain, 10.0.0.5 or 10.0.0.0/8",
                attempt=f'direct=("{_place_meant(written)}",)',
            )


def _is_place(text: str) -> bool:
    if is_address(text) or is_name(text.removeprefix(".")):
        return True
    try:
        return "/" in text and ipaddress.ip_network(text).prefixlen > 0
    except ValueError:
        return False


def _url_meant(text: str) -> str:
    """The proxy in a typed text with another scheme, a path, or no port; an example if there is no host in it."""
    bare = re.sub(r"^\w+:/*|[/?#].*$", "", re.sub(r"^(\w+)://", "", text.strip()))
    name = re.sub(r":[0-9]*$", "", bare)
    for place in (bare, f"{name}:3128"):
        if FORM.fullmatch(f"http://{place}") and has_place(f"http://{place}"):
            return f"http://{place}"
    return "http://proxy.example:3128"


def _place_meant(text: str) -> str:
    """The place without a scheme, a path, a port or a star; an example if the rest is empty."""
    bare = re.sub(r"^\w+://|/.*$|:[0-9]+$", "", text.strip()).removeprefix("*")
    return bare if _is_place(bare) else ".corp.example"
