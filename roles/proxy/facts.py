"""Fact of a host for the proxy role: the files of the proxy, by their digests."""

from __future__ import annotations

from pyinfra.api import FactBase

from roles._pyinfra.facts import HostFacts, ask_files, script
from roles._shipping.proxy_files import FILES


class ProxyHost(FactBase[HostFacts]):
    """Digests of the files that configure programs for the proxy."""

    default = HostFacts

    def command(self) -> str:
        return script(ask_files(*FILES))

    def process(self, output: list[str]) -> HostFacts:
        return HostFacts.parse(output)
