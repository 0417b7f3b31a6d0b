"""An H100 80GB that serves an LLM, a reranker and an embedder from one Triton.

Change the address, then read the plan before anything runs: `enginehouse plan inventories/h100.py`.
The three revisions are the commits that many public repositories pin too (found by code search on 2026-11-21; the
nomic one is also in the mteb registry). They are pins, not recommendations: put your own commit here once you have
tested it. The image digest is yours to pin: `enginehouse pin inventories/h100.py` asks the registry and writes it
below.
"""

from deploy.spec import LLM, Embedder, Machine, Reranker, Server, Weights

gpt_oss = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
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

h100 = (
    ["h100-01.example.internal"],
    {
        "ssh_user": "ubuntu",
        # The host's own key, from the provider's console, one line a host; without it the first answer is believed.
        # "ssh_known_hosts_file": "inventories/known_hosts",
        # "ssh_strict_host_key_checking": "yes",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=1),
        "release": "26.07",
        "image_digest": "",
        "servers": (Server(name="main", models=(reranker, embedder, gpt_oss)),),
    },
)
