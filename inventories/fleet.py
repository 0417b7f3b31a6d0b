"""Twelve hosts in three pools behind two balancers: a chat model, the encoders, and a second LLM that is being tried.

Clients know the balancers' names alone, and show a key of `enginehouse key`. OpenAI's clients use the gateways behind
ports 443, 8451 and 8461; KServe's clients use the two ports beside each of them. Hosts need no Firewall of their own:
they let in their balancers, and the hosts of `chat` let in each other, so that a chat stays where its prefix is
cached. The two hosts of `trial` are one canary and one host: while either is out, the other serves. Put DNS, a
cloud's balancer or keepalived in front of the two balancers. The certificate and its key are files of the machine
that runs pyinfra.
"""

from dataclasses import replace

from deploy.spec import (
    LLM,
    Balancer,
    Embedder,
    Firewall,
    Gateway,
    Machine,
    Reranker,
    Rollout,
    Route,
    Secret,
    Server,
    Weights,
)

gpt_oss = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
)
qwen = LLM(
    name="qwen3-8b",
    checkpoint="qwen3-8b",
    weights=Weights.hub("Qwen/Qwen3-8B", "b968826d9c46dd6066d109eabc6255188de91218"),
)
reranker = Reranker(
    name="bge-reranker-large",
    checkpoint="bge-reranker-large",
    weights=Weights.hub("BAAI/bge-reranker-large", "55611d7bca2a7133960a6d3b71e083071bbfc312"),
)
embedder = Embedder(
    name="nomic-embed-text-v2-moe",
    checkpoint="nomic-embed-text-v2-moe",
    weights=Weights.hub("nomic-ai/nomic-embed-text-v2-moe", "1066b6599d099fbb93dfcb64f9c37a7c9e503e85"),
    default_task="search_document",
)

_every = {
    "ssh_user": "ubuntu",
    "_sudo": True,
    "rollout": Rollout(canary_hosts=1, wave_percent=50, bake_seconds=60, slower_percent=20, on_failure="wave"),
}
_h100 = _every | {"machine": Machine(os="ubuntu-24.04", gpu="h100-80"), "release": "26.07", "image_digest": ""}
_server = Server(name="main", address="0.0.0.0", protection="balancer", models=())
_gateway = Gateway(address="0.0.0.0", protection="balancer")


def _hosts(pool: str, count: int, first: int) -> list[tuple[str, dict[str, str]]]:
    """Names of a pool's hosts, each with its address in the network of the balancers."""
    numbers = range(1, count + 1)
    return [
        (f"{pool}-{number:02}.example.internal", {"peer_address": f"10.0.0.{first + number}"}) for number in numbers
    ]


chat = (
    _hosts("chat", 6, 10),
    _h100
    | {
        "pool": "chat",
        "gateway": replace(_gateway, others=("chat",)),
        "servers": (replace(_server, models=(gpt_oss,)),),
    },
)
search = (
    _hosts("search", 4, 20),
    _h100 | {"pool": "search", "gateway": _gateway, "servers": (replace(_server, models=(reranker, embedder)),)},
)
trial = (
    _hosts("trial", 2, 30),
    _h100 | {"pool": "trial", "gateway": _gateway, "servers": (replace(_server, models=(qwen,)),)},
)

_routes = (
    Route(pool="chat", gateway_port=443, http_port=8443, grpc_port=8444, hold_seconds=60),
    Route(pool="search", gateway_port=8451, http_port=8453, grpc_port=8454, hold_seconds=60),
    Route(pool="trial", gateway_port=8461, http_port=8463, grpc_port=8464, hold_seconds=300),
)
_asks = {"keys": "file", "certificate": "keys/edge.pem", "certificate_key": Secret.command("cat", "keys/edge.key")}

balancers = (
    [
        (
            "edge-1.example.internal",
            {"balancer": Balancer(os="debian-12", address="10.0.0.5", routes=_routes, **_asks)},
        ),
        (
            "edge-2.example.internal",
            {"balancer": Balancer(os="debian-13", address="10.0.0.6", routes=_routes, **_asks)},
        ),
    ],
    _every | {"ssh_user": "debian", "firewall": Firewall(allow=("10.0.0.0/8",), rest="closed")},
)
