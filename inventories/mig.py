"""An H100 80GB cut into two MIG instances: the LLM has one to itself, reranker and embedder share the other.

Change the address, then read the plan before anything runs: `enginehouse plan inventories/mig.py`.
Why cut: an instance's memory, L2 and SMs are its own, so a burst of long documents to embed cannot slow a token of the
LLM, and one of the two servers can be swapped or fall over without the other noticing. What it costs: the LLM has half
the card, and two instances have nothing in common (no tensor parallel across them).
The instances are named by `gpus`, in the order of `mig`: 0 is the 4g.40gb, 1 the 3g.40gb. The role `mig` creates them,
and a unit of its own does again after every boot, before Docker starts.
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

h100_cut = (
    ["h100-01.example.internal"],
    {
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=1, mig=("4g.40gb", "3g.40gb")),
        "release": "26.07",
        "image_digest": "",
        "servers": (
            Server(name="llm", models=(gpt_oss,), gpus=(0,)),
            Server(
                name="encoders",
                models=(reranker, embedder),
                gpus=(1,),
                http_port=8100,
                grpc_port=8101,
                metrics_port=8102,
            ),
        ),
    },
)
