"""Llama-3.1-70B-Instruct with its whole context of 131,072 tokens, FP8, split four ways: on H200, and what H100 holds.

The second production pattern asks for 16 users of 131,072 + 4,096 tokens on 4 x H100. Three things in it are wrong:
- prompt and answer share the model's 131,072 positions, so a prompt has at most 126,976 beside an answer of 4,096;
- 16 x 131,072 tokens of FP8 cache (80 layers x 8 heads x 128 x 2 = 163,840 bytes) are 81,920 MiB on each of four GPUs,
  more than an H100 80GB before any weight; it is not 220 GB, and grows with the number of users, not with its square;
- 4 x H200 141GB hold all 16, with room.
So two groups: sixteen on H200, and on H100 80GB the eleven that fit (the plan says so when asked for more). A second
GPU memory class does not need another engine; another batch size does.
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

llama = LLM(
    name="llama-3.1-70b-instruct",
    checkpoint="llama-3.1-70b-instruct",
    weights=Weights.hub("meta-llama/Llama-3.1-70B-Instruct", "1605565b47bb9346c5515c34102e054115b4f98b"),
    path="engine",
    precision="fp8",
    calibration=Calibration(directory="calibration/long_documents", samples=512),
    kv_cache=KVCache(tokens=16 * 131_072, dtype="fp8"),
    engine=Engine(max_input_len=126_976),
    replay=Replay(prompts="replay/long_prompts.jsonl"),
    chunked_prefill=True,
    max_batch_size=16,
    max_seq_len=131_072,
    max_num_tokens=8192,
)
_server = Server(name="main", models=(llama,), gpus=(0, 1, 2, 3), shm_mib=8192, start_seconds=3600)
_eleven = replace(llama, kv_cache=KVCache(tokens=11 * 131_072, dtype="fp8"), max_batch_size=11)


def _data(gpu: str, server: Server) -> dict[str, object]:
    return {
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu=gpu, gpus=4, nvswitch=True),
        "release": "26.07",
        "image_digest": "",
        "hub": Hub(token=Secret.env("HF_TOKEN")),
        "engine_trust": EngineTrust(key="keys/engines"),
        "servers": (server,),
    }


h200x4 = (["h200x4-01.example.internal"], _data("h200-141", _server))
h100x4 = (["h100x4-01.example.internal"], _data("h100-80", replace(_server, models=(_eleven,))))
