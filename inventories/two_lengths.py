"""Two engines of one model side by side: many short conversations on GPU 0, few long documents on GPU 1.

An engine is compiled for its lengths, and one for 131,072 tokens wastes cache on every short request. So two servers,
each with an engine of its own name, and whoever routes requests (a gateway) chooses by the length of the prompt. Two
engines in one server would want Triton's orchestrator mode, which is refused here with its limits. The checkpoint is
fetched once: both engines are built from the directory of the first.
"""

from dataclasses import replace

from deploy.spec import (
    LLM,
    Calibration,
    Engine,
    EngineTrust,
    Hub,
    KVCache,
    Machine,
    Replay,
    Secret,
    Server,
    Weights,
)

short = LLM(
    name="llama-8k",
    checkpoint="llama-3.1-8b-instruct",
    weights=Weights.hub("meta-llama/Llama-3.1-8B-Instruct", "0e9e39f249a16976918f6564b8830bc894c89659"),
    path="engine",
    precision="fp8",
    calibration=Calibration(directory="calibration/cnn_dailymail", samples=512),
    kv_cache=KVCache(dtype="fp8"),
    replay=Replay(prompts="replay/prompts.jsonl"),
    max_batch_size=128,
    max_seq_len=8192,
    max_num_tokens=8192,
)
long = replace(
    short,
    name="llama-128k",
    engine=Engine(max_input_len=126_976),
    chunked_prefill=True,
    max_batch_size=4,
    max_seq_len=131_072,
)

h100x2 = (
    ["h100x2-01.example.internal"],
    {
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=2),
        "release": "26.07",
        "image_digest": "",
        "hub": Hub(token=Secret.env("HF_TOKEN")),
        "engine_trust": EngineTrust(key="keys/engines"),
        "servers": (
            Server(name="short", models=(short,), gpus=(0,)),
            Server(name="long", models=(long,), gpus=(1,), http_port=8010, grpc_port=8011, metrics_port=8012),
        ),
    },
)
