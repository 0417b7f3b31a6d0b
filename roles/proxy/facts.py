"""Fact of a host for the proxy role: the files of the proxy, by their digests."""

from roles._pyinfra.facts import ask_files, script
from roles._pyinfra.role_facts import RoleFact
from roles._shipping.proxy_files import FILES


class ProxyHost(RoleFact):
    """Digests of the files that configure programs for the proxy."""

    def command(self) -> str:
        return script(ask_files(*FILES))
