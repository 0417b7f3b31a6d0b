"""Eight H100 80GB, eight equal servers: one Triton on each GPU, ports ten apart, from one line.

For a model that fits one card this serves more than splitting it over all of them: nothing waits for NVLink, and a
server that is swapped or fails leaves seven. The weights lie on the disk once. Put a balancer in front.
"""

from deploy.spec import LLM, Embedder, Machine, Reranker, Server, Weights, one_per_gpu

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

h100x8 = (
    ["h100x8-01.example.internal"],
    {
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=8, nvswitch=True),
        "release": "26.07",
        "image_digest": "",
        "servers": one_per_gpu(Server(name="gpu", models=(reranker, embedder, gpt_oss)), 8),
    },
)
