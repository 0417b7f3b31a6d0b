"""The way out of a host through an HTTP proxy, as an operator declares it."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.spec.sources import Secret


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """The HTTP proxy through which a host reaches apt's archives, the hub, registries and an ACME authority.

    `url` is http://HOST:PORT, without a login: `username` and `password` say it, in a file that root alone reads. The
    hosts of the inventory, loopback and what `direct` names are reached without the proxy. pip and the hub on the
    control machine read `https_proxy` of the environment there. A host that serves restarts Docker once to learn of it.
    """

    url: str
    username: str = ""
    password: Secret | None = None
    direct: tuple[str, ...] = ()
    """Names, domains (.corp.example), addresses and networks of a registry, a hub or mirrors inside."""
