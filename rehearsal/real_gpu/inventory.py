"""Three models on a machine with a real GPU: the inventory of the steps.

It equals inventories/rehearsal.py except for the driver, which belongs to the machine's provider and stays unchanged,
and for the models, which have the published sizes. Without a GPU (a dry pass) the card is a stand-in, and the models
are small and run on the CPU. `real-gpu.json` in the state directory has this choice, and whether the release is the
changed one.
"""

import ipaddress as _ipaddress
import json as _json
import os as _os
from dataclasses import replace as _replace
from pathlib import Path as _Path

from deploy.catalog.holes import HOLES as _HOLES
from deploy.spec import (
    LLM,
    AcceptedHoles,
    AptMirror,
    Checkpoint,
    Driver,
    Embedder,
    Firewall,
    Gateway,
    Hub,
    KVCache,
    Machine,
    Mirrors,
    Registry,
    Release,
    Replay,
    Reranker,
    Secret,
    Server,
    Weights,
    one_per_gpu,
)
from rehearsal.triton_image import RUNTIMES as _RUNTIMES

_number = _os.environ.get("ENGINEHOUSE_REHEARSAL_NUMBER", "0")
_state = _Path(".rehearsal") if _number == "0" else _Path(f".rehearsal/number-{_number}")
_machine = _json.loads((_state / "machines/gpu/machine.json").read_text())
_services = _json.loads((_state / "services/services.json").read_text())
_settings = _json.loads((_state / "real-gpu.json").read_text())
_is_real, _gpus = _settings["real"], _settings.get("gpus", 1)
_layout = _settings.get("layout", "one")


def _weights(name: str) -> Weights:
    return Weights.hub(f"rehearsal/{name}", _services["revisions"][f"rehearsal/{name}"])


def _mirror(path: str) -> AptMirror:
    return AptMirror(url=f"{_services['apt_url']}/{path}", key_file=_services["apt_key_file"])


_small_encoder = {} if _is_real else {"device": "cpu", "dtype": "float32", "max_batch_tokens": 4096}
_small = {
    "reranker": Checkpoint(
        architecture="XLMRobertaForSequenceClassification",
        parameters=700_000,
        layers=2,
        hidden=64,
        heads=4,
        intermediate=128,
        vocabulary=4000,
        positions=514,
    ),
    "embedder": Checkpoint(
        architecture="NomicBertModel",
        parameters=700_000,
        layers=2,
        hidden=64,
        heads=4,
        intermediate=128,
        vocabulary=4032,
        positions=2048,
        experts=8,
        active_experts=2,
    ),
    "llm": Checkpoint(
        architecture="LlamaForCausalLM",
        parameters=400_000,
        layers=4,
        hidden=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        intermediate=128,
        vocabulary=2304,
        positions=131_072,
    ),
}
_reranker = Reranker(
    name="bge-reranker-large",
    checkpoint="bge-reranker-large" if _is_real else _small["reranker"],
    weights=_weights("bge-reranker-large"),
    **_small_encoder,
)
_embedder = Embedder(
    name="nomic-embed-text-v2-moe",
    checkpoint="nomic-embed-text-v2-moe" if _is_real else _small["embedder"],
    weights=_weights("nomic-embed-text-v2-moe"),
    default_task="search_document",
    **_small_encoder,
)
# The changed release runs half as many sequences at once, with the same cache.
_llm = LLM(
    name="llama-3.1-8b",
    checkpoint="llama-3.1-8b-instruct" if _is_real else _small["llm"],
    weights=_weights("llama-3.1-8b-instruct"),
    kv_cache=KVCache(tokens=131_072 if _is_real else 16_384),
    max_batch_size=8 if _settings["changed"] else 16,
    max_seq_len=8192 if _is_real else 2048,
    max_num_tokens=8192 if _is_real else 2048,
)
# Greedy answers of random weights differ at once between FP8 and 16 bits, so only tasks judge the change.
_TASKS = {"tasks": "rehearsal/real_gpu/tasks.jsonl", "minimum_percent": 80.0}
# vLLM beside Triton; here the changed release holds its weights in FP8, and is compared with the earlier one.
_beside = _replace(
    _llm,
    runtime="vllm",
    image=f"{_services['registry_host']}/vllm/vllm-openai:{_RUNTIMES['vllm/vllm-openai']}@{_services['image_digest']}",
    precision="fp8" if _settings["changed"] else "auto",
    max_batch_size=64 if _is_real else 16,
    guided_decoding=True,
    tool_parser="llama3_json",
    replay=Replay(
        prompts="rehearsal/real_gpu/prompts.jsonl",
        max_tokens=16,
        equal_percent=_settings.get("equal_percent", 100.0),
        **({} if _settings.get("equal_percent", 100.0) else _TASKS),
    ),
)
_server = Server(
    name="main",
    models=(_reranker, _embedder, _llm),
    address=_machine["address"],
    protection="firewall",
    start_seconds=600,
    stop_seconds=30,
    accepts=AcceptedHoles(
        ids=tuple(hole.id for hole in _HOLES if hole.component == "triton"),
        reason="only this computer reaches its bridge",
    ),
)
_servers = {
    "one": (_server,),
    "one_per_gpu": one_per_gpu(_server, _gpus),
    "both": (Server(**(vars(_server) | {"gpus": tuple(range(_gpus))})),),
    "beside": (_replace(_server, models=(_reranker, _embedder, _beside)),),
    "cards": (_replace(_server, gpus=tuple(range(_gpus)), models=(_beside,)),),
}

real_gpu = (
    [
        (
            "gpu",
            {
                "ssh_config_file": str(_state / "ssh_config"),
                "_sudo": True,
                "machine": Machine(os="debian-13", gpu=_settings["gpu"], gpus=_gpus),
                **({"driver": Driver(manage=False)} if _is_real else {}),
                "release": Release(
                    name="real-gpu",
                    derived_from="26.07",
                    image=_services["image"],
                    digest=_services["image_digest"],
                    triton_core="2.51.0",
                    size_mib=_settings["image_mib"],
                ),
                "registry": Registry(
                    key=Secret.command("cat", str(_state / "secrets/ngc_key")), ca_file=_services["registry_ca_file"]
                ),
                "hub": Hub(
                    endpoint=_services["hub_tls_url"],
                    token=Secret.command("cat", str(_state / "secrets/hub_token")),
                    ca_file=_services["registry_ca_file"],
                ),
                "mirrors": Mirrors(
                    nvidia=_mirror("compute/cuda/repos"),
                    docker=_mirror("linux"),
                    toolkit=_mirror("libnvidia-container/stable/deb"),
                ),
                "servers": _servers[_layout],
                "firewall": Firewall(allow=(str(_ipaddress.ip_interface(f"{_machine['address']}/24").network),)),
                "gateway": Gateway(hold_seconds=600) if _layout in ("beside", "cards") else None,
                "own_random_weights": ("bge-reranker-large", "nomic-embed-text-v2-moe"),
            },
        )
    ],
    {},
)
