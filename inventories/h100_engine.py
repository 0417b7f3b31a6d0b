"""An H100 80GB: Llama-3.1-8B-Instruct compiled to an FP8 engine, with a reranker and an embedder beside it.

The engine path ends with TensorRT-LLM 1.2.1 (release 26.07): read README.md beside this file first. Needed on
this machine: calibration texts (a dataset saved by the `datasets` library), prompts to replay, and a key that signs
what answered well: `mkdir -p keys && ssh-keygen -t ed25519 -f keys/engines`. The build takes place once, on the first
host; equal hosts fetch the engine. Llama is gated: accept its licence on the hub and export HF_TOKEN.
"""

from deploy.spec import (
    LLM,
    Calibration,
    Embedder,
    EngineTrust,
    Hub,
    KVCache,
    Machine,
    Replay,
    Reranker,
    Secret,
    Server,
    Weights,
)

llama = LLM(
    name="llama-3.1-8b-instruct",
    checkpoint="llama-3.1-8b-instruct",
    weights=Weights.hub("meta-llama/Llama-3.1-8B-Instruct", "0e9e39f249a16976918f6564b8830bc894c89659"),
    path="engine",
    precision="fp8",
    calibration=Calibration(directory="calibration/cnn_dailymail", samples=512),
    kv_cache=KVCache(dtype="fp8"),
    replay=Replay(prompts="replay/prompts.jsonl"),
    max_batch_size=64,
    max_seq_len=16_384,
    max_num_tokens=16_384,
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
        "engine_trust": EngineTrust(key="keys/engines"),
        "servers": (Server(name="main", models=(reranker, embedder, llama)),),
    },
)
