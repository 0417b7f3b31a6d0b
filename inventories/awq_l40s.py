"""An L40S 48GB (SM 89): Llama-3.1-8B-Instruct with 4-bit AWQ weights as an engine, the cache in 16 bit.

Four bits leave most of a small card to the key/value cache. AWQ chooses its scales by looking at texts, so it wants
some like your users'; the engine is replayed against the unquantised checkpoint before it may serve.
"""

from deploy.spec import LLM, Calibration, EngineTrust, Hub, Machine, Replay, Secret, Server, Weights

llama = LLM(
    name="llama-3.1-8b-instruct",
    checkpoint="llama-3.1-8b-instruct",
    weights=Weights.hub("meta-llama/Llama-3.1-8B-Instruct", "0e9e39f249a16976918f6564b8830bc894c89659"),
    path="engine",
    precision="int4_awq",
    calibration=Calibration(directory="calibration/cnn_dailymail", samples=32),
    replay=Replay(prompts="replay/prompts.jsonl", equal_percent=80.0),
    max_batch_size=32,
    max_seq_len=8192,
    max_num_tokens=8192,
)

l40s = (
    ["l40s-01.example.internal"],
    {
        "ssh_user": "ubuntu",
        "_sudo": True,
        "machine": Machine(os="ubuntu-24.04", gpu="l40s-48"),
        "release": "26.07",
        "image_digest": "",
        "hub": Hub(token=Secret.env("HF_TOKEN")),
        "engine_trust": EngineTrust(key="keys/engines"),
        "servers": (Server(name="main", models=(llama,)),),
    },
)
