"""Mixtral-8x7B-Instruct on four H100 80GB, its eight experts dealt out two to a GPU, encoders beside it.

Expert parallelism divides the four GPUs of tensor parallelism; it does not multiply them (TP 2 x EP 8 is not 16 GPUs).
In 16 bit the weights are 89,079 MiB, a quarter of that on each GPU. On the PyTorch path the worker processes are not
Triton's own, so encoders may share the server; they sit on its first GPU.
"""

from deploy.spec import LLM, Embedder, Machine, Parallel, Reranker, Server, Weights

mixtral = LLM(
    name="mixtral-8x7b-instruct",
    checkpoint="mixtral-8x7b-instruct",
    weights=Weights.hub("mistralai/Mixtral-8x7B-Instruct-v0.1", "eba92302a2861cdc0098cc54bc9f17cb2c47eb61"),
    parallel=Parallel(expert=4),
    max_batch_size=128,
    max_seq_len=32_768,
    max_num_tokens=32_768,
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

h100x4 = (
    ["h100x4-01.example.internal"],
    {
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=4, nvswitch=True),
        "release": "26.07",
        "image_digest": "",
        "servers": (Server(name="main", models=(reranker, embedder, mixtral), gpus=(0, 1, 2, 3), shm_mib=8192),),
    },
)
