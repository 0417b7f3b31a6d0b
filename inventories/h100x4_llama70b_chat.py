"""Four H100 80GB, one Llama-3.1-70B-Instruct: an FP8 engine for chat, split four ways (the first production pattern).

128 conversations of up to 10,240 tokens, 8,192 of them prompt. An engine of four ranks has a server of its own in
leader mode; put encoders on another host, or on a fifth GPU in a server beside it. `Machine(nvswitch=True)` is for
boards whose switches the guest sees: fabric manager comes with it.

What guides write for this: `--max_output_len`, `--use_inflight_batching` and `--kv_cache_free_gpu_mem_fraction` are no
flags of trtllm-build; lengths are one sum (`max_seq_len`), and the cache is tokens, counted by the plan.
"""

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

llama = LLM(
    name="llama-3.1-70b-instruct",
    checkpoint="llama-3.1-70b-instruct",
    weights=Weights.hub("meta-llama/Llama-3.1-70B-Instruct", "1605565b47bb9346c5515c34102e054115b4f98b"),
    path="engine",
    precision="fp8",
    calibration=Calibration(directory="calibration/cnn_dailymail", samples=512),
    kv_cache=KVCache(dtype="fp8"),
    engine=Engine(max_input_len=8192),
    replay=Replay(prompts="replay/prompts.jsonl"),
    max_batch_size=128,
    max_seq_len=10_240,
    max_num_tokens=16_384,
)

h100x4 = (
    ["h100x4-01.example.internal"],
    {
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="h100-80", gpus=4, nvswitch=True),
        "release": "26.07",
        "image_digest": "",
        "hub": Hub(token=Secret.env("HF_TOKEN")),
        "engine_trust": EngineTrust(key="keys/engines"),
        "servers": (Server(name="main", models=(llama,), gpus=(0, 1, 2, 3), shm_mib=8192, start_seconds=3600),),
    },
)
