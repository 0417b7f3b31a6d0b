"""URLs of a host: each is a base to which a program adds its own path, and not the address of a web page."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from deploy.inventory.reach import is_address, is_name
from deploy.models.resolve import sources_of
from deploy.refusals import Refusal, refuse, secret_in
from deploy.spec import Host

PUBLIC_HUBS = ("huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com", "modelscope.cn", "www.modelscope.cn")
"""Hubs whose repositories stand at the first level, so that their base has no path."""
OF_A_PAGE = re.compile(r"/(?:resolve|tree|blob|raw|api/models|models)(?:/.*)?$|/[^/]+\.(?:safetensors|gguf|json|bin)$")
"""The part of a hub's URL that belongs to a page or a file of the hub."""
OF_A_CLIENT = re.compile(r"/v[0-9]+(?:/.*)?$|/(?:chat|completions|embeddings|rerank|metrics|health)(?:/.*)?$")
"""The part of a gateway's URL that a client's library adds itself."""
OF_APT = re.compile(
    r"/(?:dists|pool)(?:/.*)?$|/(?:InRelease|Release(?:\.gpg)?|Packages(?:\.\w+)?)$|/(?:gpg|[^/]+\.(?:deb|gpg|asc))$"
)
"""The part of a repository's URL that apt adds itself."""
SOURCE_LINE = re.compile(r"deb(?:-src)?\s+(?:\[[^\]]*\]\s*)?(https?://\S+).*", re.IGNORECASE)

PLACE = re.compile(
    r"(?P<scheme>https?)://(?:[^/?#@]*@)?(?:\[(?P<sixth>[0-9A-Fa-f:.]+)\]|(?P<name>[^/?#:\[\]]+))"
    r"(?::(?P<port>[0-9]{1,9}))?(?=[/?#]|$)",
    re.IGNORECASE,
)


class Place(NamedTuple):
    """The part of a URL that names the server: scheme, host and port."""

    scheme: str
    hostname: str
    port: str


def url_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each URL of the host with text after its base, or without a valid host."""
    yield from _hub(host)
    for name, mirror in vars(host.mirrors).items():
        if mirror:
            where = f"mirrors.{name}.url"
            base = OF_APT.sub("", _plain(mirror.url))
            yield from _based(
                where,
                mirror.url,
                base,
                "the base URL of the repository, to which apt adds dists/ and pool/",
                f'url="{base}"',
            )
    if host.gateway and host.gateway.url:
        yield from _gateway(host.gateway.url)


def url_in(text: str) -> str:
    """The URL in a line of sources.list; the text itself without a URL."""
    line = SOURCE_LINE.fullmatch(text.strip())
    return line[1] if line else text


def has_place(url: str) -> bool:
    """True if the URL can have a valid host and port."""
    parts = _parts(url)
    return parts is not None and (is_name(parts.hostname) or is_address(parts.hostname))


def _hub(host: Host) -> Iterator[Refusal]:
    endpoint, parts = host.hub.endpoint, _parts(host.hub.endpoint)
    base = OF_A_PAGE.sub("", _plain(endpoint))
    for _, model in host.served_models:
        for _part, weights in sources_of(model):
            base = base.removesuffix(f"/{weights.repository}") if weights.repository else base
    if parts and parts.hostname in PUBLIC_HUBS:
        base = f"{parts.scheme}://{parts.hostname}{parts.port and f':{parts.port}'}"
    wanted = "the hub's own URL, or a mirror's with its path; each model's weights name the repository"
    yield from _based("hub.endpoint", endpoint, base, wanted, f'Hub(endpoint="{base}")')


def _gateway(url: str) -> Iterator[Refusal]:
    base = OF_A_CLIENT.sub("", _plain(url))
    wanted = "https://NAME, and a port if it is not 443; clients add /v1 themselves"
    problems = list(_based("gateway.url", url, base, wanted, f'Gateway(url="{base}")'))
    yield from problems
    parts = _parts(url)
    if problems or parts is None or parts.scheme != "http" or parts.hostname in ("127.0.0.1", "::1", "localhost"):
        return
    yield refuse(
        "address-in-plain-text",
        f"clients would get the URL {url}, which sends their keys in plain text",
        where="gateway.url",
        seen=repr(url),
        wanted="https://, served by `https`, a balancer or a proxy of your own before the gateway",
        attempt=f'Gateway(url="https{url[4:]}"); or leave url out',
    )


def _based(where: str, url: str, base: str, wanted: str, attempt: str) -> Iterator[Refusal]:
    """A refusal for a URL that differs from its base, or has an invalid host; other checks of URLs are elsewhere."""
    if not re.match(r"https?://", url, re.IGNORECASE) or secret_in(url):
        return
    parts = _parts(url)
    if parts and (parts.scheme, parts.port) in (("https", "80"), ("http", "443")):
        yield refuse(
            "port-of-another-scheme",
            f"{url!r} names {parts.scheme} and the port of {'http' if parts.scheme == 'https' else 'https'}",
            where=where,
            seen=repr(url),
            wanted="the scheme that the port speaks, or no port",
            attempt=f'"{url.replace(f":{parts.port}", "", 1)}"',
        )
    elif url.count("://") > 1:
        yield refuse(
            "bad-url",
            f"{url!r} holds two URLs",
            where=where,
            seen=repr(url),
            wanted="one URL",
            attempt=f'"{url[:8]}{re.split("[,; ]?[a-z]+://", url[8:])[0]}"',
        )
    elif not has_place(url):
        yield refuse(
            "bad-url",
            f"{url!r} has no valid host",
            where=where,
            seen=repr(url),
            wanted="a name or an IP address, and a port of 1 to 65535 if there is one",
            attempt="the URL as you would give it to a browser or curl",
        )
    elif url.rstrip("/") != base.rstrip("/"):
        yield refuse(
            "url-of-a-page",
            f"{url!r} is the URL of a page or a file, and programs append their own path",
            where=where,
            seen=repr(url),
            wanted=wanted,
            attempt=attempt,
        )


def _plain(url: str) -> str:
    return re.split(r"[?#]", url, maxsplit=1)[0].rstrip("/")


def _parts(url: str) -> Place | None:
    """Scheme, host and port of a URL; None if its brackets or its port are invalid."""
    match = PLACE.match(url)
    if match is None or (match["port"] and not 1 <= int(match["port"]) <= 65_535):
        return None
    return Place(match["scheme"].lower(), (match["name"] or match["sixth"]).lower(), match["port"] or "")
