"""A single H100 80GB: Llama-3.1-8B-Instruct served by vLLM, and a reranker and an embedder in Triton beside it.

Two containers share the card, and the plan shows the memory of both. Clients reach all three models through the
gateway; vLLM listens on loopback. Both images are yours to pin: `enginehouse pin inventories/h100_vllm.py`. Llama is
gated: accept its licence on the hub and export HF_TOKEN.
"""

from deploy.spec import LLM, Embedder, Hub, KVCache, Machine, Reranker, Secret, Server, Weights

llama = LLM(
    name="llama-3.1-8b-instruct",
    checkpoint="llama-3.1-8b-instruct",
    weights=Weights.hub("meta-llama/Llama-3.1-8B-Instruct", "0e9e39f249a16976918f6564b8830bc894c89659"),
    runtime="vllm",
    image="vllm/vllm-openai:v0.26.0",
    precision="fp8",
    kv_cache=KVCache(dtype="fp8"),
    max_batch_size=64,
    max_seq_len=16_384,
    chunked_prefill=True,
    guided_decoding=True,
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
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80"),
        "release": "26.07",
        "image_digest": "",
        "hub": Hub(token=Secret.env("HF_TOKEN")),
        "servers": (Server(name="main", models=(reranker, embedder, llama)),),
    },
)
