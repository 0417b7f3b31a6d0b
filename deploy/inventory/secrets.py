"""Secrets typed into an inventory: refused while it is read, without being shown."""

from collections.abc import Iterator, Mapping
from typing import Any

from deploy.refusals import Refusal, refuse, typed_out

BY_PROXY = (
    '"proxy": Proxy(url="http://HOST:3128", username="NAME", password=Secret.env("PROXY_PASSWORD")), for apt, hub and '
    "registry alike"
)
INSTEAD = {
    "proxy": BY_PROXY,
    "balancer": 'certificate_key=Secret.command("cat", "keys/edge.key")',
    'docker.daemon["proxies"]': BY_PROXY,
    "docker.daemon": "the same text without the secret: every user of the host can read daemon.json",
    "engine_store": "EngineStore.…(place) without the secret: ssh and rclone read credentials from their own files",
    "engine_trust": 'EngineTrust(key="keys/engines"): the path of a key file on this machine',
    "hub": 'Hub(endpoint="https://HOST", token=Secret.env("HF_TOKEN"))',
    "mirrors": "the URL without the secret; apt reads credentials from /etc/apt/auth.conf.d/ on the host",
    "monitor": 'receivers=Secret.command("cat", "secrets/receivers.yml")',
    "registry": 'Registry(username="NAME", key=Secret.env("NGC_API_KEY"))',
}
"""Examples of secrets to type instead, by the first word of their place."""


def typed_out_problems(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key, value in data.items():
        for where, kind in typed_out(value, key):
            instead = next((text for start, text in INSTEAD.items() if where.startswith(start)), "leave the secret out")
            yield refuse(
                "literal-secret",
                f"`{where}` holds a secret, which the plan, its JSON and files of the host would show",
                where=where,
                seen=f"{kind}, not shown",
                wanted="no secret in any text of an inventory; hub.token and registry.key say where a secret is stored",
                attempt=f"{instead}. This secret is in a file now, so make a new one",
            )
