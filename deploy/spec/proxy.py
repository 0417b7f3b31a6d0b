"""The outgoing HTTP proxy of a host, as an operator declares it."""

from dataclasses import dataclass

from deploy.spec.sources import Secret


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """The HTTP proxy through which a host reaches apt's archives, the hub, registries and an ACME authority.

    `url` is http://HOST:PORT, without a login: `username` and `password` are separate, and only root can read their
    file. The inventory's hosts, loopback and the names in `direct` are reached without the proxy. pip and the hub
    client on the control machine read `https_proxy` of its environment. A serving host restarts Docker once when the
    proxy changes.
    """

    url: str
    username: str = ""
    password: Secret | None = None
    direct: tuple[str, ...] = ()
    """Names, domains (.corp.example), addresses and networks of a registry, a hub or mirrors inside."""
