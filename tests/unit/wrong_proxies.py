"""Wrong proxies: a login in the wrong place, an invalid address, and two outgoing paths at once."""

from __future__ import annotations

from typing import Any

from deploy.spec import Docker, Proxy, Secret
from tests.unit.wrong import Wrong

URL = "http://proxy.example:3128"
SECRET = "canary4711canary"


def wrong_proxy(kind: str, where: str, **declared: Any) -> Wrong:
    """A host whose proxy has a mistake."""
    return Wrong({"proxy": Proxy(**({"url": URL} | declared))}, kind, where)


ALL = {
    "a proxy has a port": wrong_proxy("bad-url", "proxy.url", url="http://proxy.example"),
    "a proxy speaks HTTP": wrong_proxy("bad-url", "proxy.url", url="socks5://proxy.example:1080"),
    "a proxy has no path": wrong_proxy("bad-url", "proxy.url", url="http://proxy.example:3128/proxy.pac"),
    "a proxy has a scheme": wrong_proxy("bad-url", "proxy.url", url="proxy.example:3128"),
    "a proxy's login is no part of its URL": wrong_proxy(
        "literal-secret", "proxy.url", url=f"http://builder:{SECRET}@proxy.example:3128"
    ),
    "a proxy's user has a password": wrong_proxy("half-a-login", "proxy.password", username="builder"),
    "a proxy's password has a user": wrong_proxy("half-a-login", "proxy.username", password=Secret.env("PROXY")),
    "a proxy's user is one word": wrong_proxy(
        "bad-name", "proxy.username", username="builder:pw", password=Secret.env("PROXY")
    ),
    "a proxy's password names a place": wrong_proxy(
        "nameless-secret", "proxy.password", username="builder", password=Secret.env("")
    ),
    "stars name no domain": wrong_proxy("bad-direct", "proxy.direct", direct=("*.corp.example",)),
    "no URL is reached directly": wrong_proxy("bad-direct", "proxy.direct", direct=("https://registry.corp.example",)),
    "everything is not reached directly": wrong_proxy("bad-direct", "proxy.direct", direct=("*",)),
    "Docker has one proxy": Wrong(
        {"proxy": Proxy(url=URL), "docker": Docker(daemon={"proxies": {"https-proxy": URL}})},
        "two-proxies",
        'docker.daemon["proxies"]',
    ),
    "a host without a network has no proxy": Wrong(
        {"proxy": Proxy(url=URL), "connected": False}, "proxy-of-no-network", "proxy"
    ),
}
