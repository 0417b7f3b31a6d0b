"""Four H100 80GB, Llama-3.3-70B-Instruct with an EAGLE head that drafts for it (the third production pattern).

On the PyTorch path, with NVIDIA's FP8 checkpoint as it is published and an EAGLE-3 head of the same target. The pattern
as guides write it (`trtllm-build --speculative_decoding_mode eagle` over a plain Llama checkpoint) builds no EAGLE
engine: its checkpoint has to be converted together with the head (`--eagle_model_dir`), the engine path knows EAGLE-1
and -2 only, and their published heads for a 70B are pickles, which are not fetched here. A chain of three drafted
tokens is where EAGLE-3 pays at small batches; measure acceptance before raising it.

Both pins are commits that public repositories name (code search, 2026-11-21); nobody here has run the pair.
"""

from deploy.spec import LLM, Eagle, Hub, KVCache, Machine, Secret, Server, Weights

llama = LLM(
    name="llama-3.3-70b-instruct",
    checkpoint="llama-3.3-70b-instruct-fp8",
    weights=Weights.hub("nvidia/Llama-3.3-70B-Instruct-FP8", "fde04ee76a27704c88f569542ef023b57d4d0362"),
    kv_cache=KVCache(dtype="fp8"),
    speculative=Eagle(
        weights=Weights.hub(
            "lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-SpecForge", "63ebaa6585f96b89685adad8fdfa0da53be6a8fd"
        ),
        tokens=3,
    ),
    max_batch_size=64,
    max_seq_len=8192,
    max_num_tokens=8192,
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
        "servers": (Server(name="main", models=(llama,), gpus=(0, 1, 2, 3), shm_mib=8192, start_seconds=3600),),
    },
)
