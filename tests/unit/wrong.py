"""Wrong inventories by the promise that each proves: the wrong data, the kind of refusal, and its place.

One table of more than 300 lines, because a hundred inventories side by side are easier to compare than in ten files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from deploy.refusals.errors import Refusal
from deploy.spec import (
    LLM,
    AptMirror,
    Checkpoint,
    DataDisk,
    Docker,
    Driver,
    Firewall,
    Hub,
    KVCache,
    Mirrors,
    Opening,
    Registry,
    Release,
    Rollout,
    Secret,
    Server,
    Toolkit,
    Weights,
)
from deploy.spec.surroundings import Surroundings
from tests.unit.samples import (
    AROUND,
    EMBEDDER,
    GPT_OSS,
    LLAMA,
    MACHINE,
    MAIN,
    OWN,
    RERANKER,
    Source,
    main,
    pinned,
    refusals,
    sources,
)

A_COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Wrong(NamedTuple):
    """An inventory with a mistake."""

    data: dict[str, Any]
    kind: str
    where: str
    beside: tuple[Source, ...] = ()
    """Further hosts of the inventory."""
    around: Surroundings = AROUND

    def refused(self) -> list[Refusal]:
        """Every refusal of the inventory."""
        return refusals(*sources(**self.data), *self.beside, around=self.around)


def machine(**changes: Any) -> dict[str, Any]:
    """Data of a host whose machine differs."""
    return {"machine": replace(MACHINE, **changes)}


def own(architecture: str, **changes: Any) -> Checkpoint:
    """A custom checkpoint with an 8B's numbers."""
    numbers = {
        "parameters": 8_000_000_000,
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "kv_heads": 8,
        "intermediate": 14_336,
        "vocabulary": 128_256,
        "positions": 8192,
    }
    return Checkpoint(architecture=architecture, **{**numbers, **changes})


def own_llm(architecture: str, **changes: Any) -> LLM:
    """An LLM with a custom checkpoint."""
    return replace(LLAMA, name="mine", checkpoint=own(architecture, **changes), weights=OWN)


def with_files(*files: str) -> LLM:
    """gpt-oss with a custom list of files."""
    return replace(GPT_OSS, weights=pinned("gpt-oss-20b", files=files))


TWO = (replace(MAIN, name="one", models=(RERANKER,)), replace(MAIN, name="two", models=(EMBEDDER,), gpus=(1,)))
APART = {"http_port": 8100, "grpc_port": 8101, "metrics_port": 8102}
GPT = 'servers["main"].models["gpt-oss-20b"]'

MACHINES = {
    "an unknown OS is offered the nearest": Wrong(machine(os="ubuntu24.04"), "unknown-os", "machine.os"),
    "a newer system is offered as no older one": Wrong(machine(os="ubuntu-28.04"), "unknown-os", "machine.os"),
    "an unknown cloud is offered the nearest": Wrong(machine(notices="gpc"), "unknown-choice", "machine.notices"),
    "an unknown repair is offered the nearest": Wrong(machine(repair="rebot"), "unknown-choice", "machine.repair"),
    "a host without servers has nothing that proves a repair": Wrong(
        machine(repair="reset") | {"servers": (), "farm": True}, "repair-without-server", "machine.repair"
    ),
    "a card whose driver is somebody else's is not repaired": Wrong(
        machine(repair="reboot") | {"driver": Driver(manage=False)}, "repair-not-managed", "machine.repair"
    ),
    "a card that is cut into instances is not reset": Wrong(
        machine(repair="reset", mig=("7g.80gb",)), "repair-mig", "machine.repair"
    ),
    "a pool without a balancer is asked by nobody": Wrong(
        machine(repair="reset") | {"pool": "chat"},
        "repair-without-balancer",
        "machine.repair",
        (Source("h100-02", {"machine": MACHINE, "servers": (MAIN,), "pool": "chat"}),),
    ),
    "an unknown GPU is offered the nearest": Wrong(machine(gpu="H100"), "unknown-gpu", "machine.gpu"),
    "a MIG slice is not a card": Wrong(machine(gpu="h100-80-mig-1g.10gb"), "mig", "machine.gpu"),
    "an ARM machine has no image here": Wrong(machine(gpu="gh200-96"), "platform", "machine.gpu"),
    "a machine is declared without a card": Wrong(machine(gpu="none"), "no-gpus", "machine.gpu"),
    "a machine without GPUs serves nothing": Wrong(machine(gpus=0), "no-gpus", "machine.gpus"),
    "a machine's memory is no less than nothing": Wrong(
        machine(memory_mib=-65_536), "negative-size", "machine.memory_mib"
    ),
    "a machine's disk is no less than nothing": Wrong(machine(disk_mib=-1), "negative-size", "machine.disk_mib"),
    "confidential mode has never been run": Wrong(
        machine(confidential=True), "confidential-mode", "machine.confidential"
    ),
    "Debian 12's own Docker has no CDI": Wrong(
        machine(os="debian-12") | {"docker": Docker(source="distribution")}, "docker-without-cdi", "docker.source"
    ),
    "Secure Boot loads no unsigned module": Wrong(
        machine(os="debian-12", secure_boot=True), "secure-boot", "machine.secure_boot"
    ),
    "Canonical's driver is not for Debian": Wrong(
        machine(os="debian-13") | {"driver": Driver(source="canonical")}, "canonical-driver-on-debian", "driver.source"
    ),
    "a data disk is mounted where the data is": Wrong(
        machine(data_disk=DataDisk(device="/dev/nvme1n1", mount="/mnt/data")),
        "data-disk-mount",
        "machine.data_disk.mount",
    ),
    "a data disk does not hide what is under /var/lib": Wrong(
        machine(data_disk=DataDisk(device="/dev/nvme1n1", mount="/var/lib")),
        "data-disk-mount",
        "machine.data_disk.mount",
    ),
    "a data disk is a block device": Wrong(
        machine(data_disk=DataDisk(device="nvme1n1")), "data-disk-device", "machine.data_disk.device"
    ),
}

RELEASES = {
    "an unknown release is offered the nearest": Wrong({"release": "26.70"}, "unknown-release", "release"),
    "a release that is too old is told from a misspelt one": Wrong(
        {"release": "24.08"}, "release-not-offered", "release"
    ),
    "26.08 has no TensorRT-LLM": Wrong({"release": "26.08"}, "release-without-trtllm", "release"),
    "an image has a size": Wrong(
        {"release": Release(name="ours", derived_from="26.07", size_mib=-1)}, "image-size", "release.size_mib"
    ),
    "a derived release starts from a known row": Wrong(
        {"release": Release(name="ours", derived_from="26.99")}, "unknown-release", "release.derived_from"
    ),
    "a digest is sha256 and 64 digits": Wrong({"image_digest": "sha256:abc"}, "malformed-digest", "image_digest"),
    "an image has one digest": Wrong(
        {
            "image_digest": "sha256:" + "a" * 64,
            "release": Release(name="ours", derived_from="26.07", digest="sha256:" + "b" * 64),
        },
        "two-digests",
        "image_digest",
    ),
    "an unknown driver branch is offered the nearest": Wrong(
        {"driver": Driver(branch="585")}, "unknown-driver-branch", "driver.branch"
    ),
    "an ended driver branch is refused": Wrong(
        {"driver": Driver(branch="610")}, "ended-driver-branch", "driver.branch"
    ),
    "a driver below the image's floor is refused": Wrong(
        {"driver": Driver(version="580.50.01")}, "driver-below-floor", "driver.version"
    ),
    "a driver version belongs to its branch": Wrong(
        {"driver": Driver(version="595.91.07")}, "driver-version-of-another-branch", "driver.version"
    ),
    "a driver version has three numbers": Wrong(
        {"driver": Driver(version="580.95")}, "no-driver-version", "driver.version"
    ),
    "a driver version is none of a package": Wrong(
        {"driver": Driver(version="580.95.05-0ubuntu1")}, "no-driver-version", "driver.version"
    ),
    "a toolkit below the security floor is refused": Wrong(
        {"toolkit": Toolkit(version="1.17.8-1")}, "toolkit-too-old", "toolkit.version"
    ),
}

SERVERS = {
    "a host serves something": Wrong({"servers": ()}, "no-servers", "servers"),
    "a server has models": Wrong(
        {"servers": (Server(name="main", models=()),)}, "empty-server", 'servers["main"].models'
    ),
    "a server's name can name a unit": Wrong(main(name="Main Server"), "bad-name", 'servers["Main Server"].name'),
    "two servers have two names": Wrong(
        machine(gpus=2) | {"servers": (TWO[0], replace(TWO[1], name="one", **APART))},
        "duplicate-server",
        'servers["one"].name',
    ),
    "a port is given out once on a host": Wrong(
        machine(gpus=2) | {"servers": (TWO[0], replace(TWO[1], **APART | {"grpc_port": 8000}))},
        "port-twice",
        'servers["two"].grpc_port',
    ),
    "a port is given out once in a server": Wrong(main(grpc_port=8000), "port-twice", 'servers["main"].grpc_port'),
    "the last port is given out once, too": Wrong(
        main(http_port=65535, grpc_port=65535), "port-twice", 'servers["main"].grpc_port'
    ),
    "a port needs no privilege": Wrong(main(http_port=80), "unbelievable-number", 'servers["main"].http_port'),
    "a GPU belongs to one server": Wrong(
        {"servers": (TWO[0], replace(TWO[1], gpus=(0,), **APART))}, "gpus-used-twice", 'servers["two"].gpus'
    ),
    "a server names a GPU once": Wrong(main(RERANKER, gpus=(0, 0)), "gpus-used-twice", 'servers["main"].gpus'),
    "a server's GPUs exist": Wrong(main(gpus=(1,)), "gpu-index", 'servers["main"].gpus'),
    "a server has a GPU": Wrong(main(gpus=()), "server-without-gpu", 'servers["main"].gpus'),
    "a public address needs protection": Wrong(main(address="0.0.0.0"), "public-address", 'servers["main"].address'),
    "a private address needs protection too": Wrong(
        main(address="10.0.0.5"), "public-address", 'servers["main"].address'
    ),
    "an address is an address": Wrong(main(address="localhost:8000"), "bad-address", 'servers["main"].address'),
    "a stop takes a sensible time": Wrong(main(stop_seconds=0), "unbelievable-number", 'servers["main"].stop_seconds'),
}

MODELS = {
    "a request waits no time less than nothing": Wrong(
        main(replace(EMBEDDER, max_queue_delay_microseconds=-7)),
        "unbelievable-number",
        'servers["main"].models["nomic"].max_queue_delay_microseconds',
    ),
    "an unknown checkpoint is offered by its hub name": Wrong(
        main(replace(GPT_OSS, checkpoint="gpt-oss-20B-mxfp4")), "unknown-checkpoint", f"{GPT}.checkpoint"
    ),
    "an unknown architecture is offered its own spelling alone": Wrong(
        main(own_llm("LLamaForCausalLM")),
        "unknown-architecture",
        'servers["main"].models["mine"].checkpoint.architecture',
    ),
    "a multi-modal model is named and refused": Wrong(
        main(own_llm("Qwen2_5_VLForConditionalGeneration")), "multi-modal", 'servers["main"].models["mine"].checkpoint'
    ),
    "an encoder-decoder is named and refused": Wrong(
        main(own_llm("T5ForConditionalGeneration")), "encoder-decoder", 'servers["main"].models["mine"].checkpoint'
    ),
    "a reranker needs a classification head": Wrong(
        main(replace(RERANKER, checkpoint="nomic-embed-text-v2-moe")),
        "wrong-kind",
        'servers["main"].models["bge"].checkpoint',
    ),
    "a decoder that embeds is no LLM": Wrong(
        main(replace(GPT_OSS, name="qwen", checkpoint="qwen3-embedding-0.6b", weights=OWN, max_seq_len=512)),
        "wrong-kind",
        'servers["main"].models["qwen"].checkpoint',
    ),
    "states beyond float16 are not kept in it": Wrong(
        main(replace(EMBEDDER, checkpoint="qwen3-embedding-0.6b", weights=OWN)),
        "states-beyond-float16",
        'servers["main"].models["nomic"].dtype',
    ),
    "8-bit products are those of BERT and NomicBert": Wrong(
        main(replace(EMBEDDER, checkpoint="gte-modernbert-base", weights=OWN, products="fp8")),
        "no-fp8-of-this-family",
        'servers["main"].models["nomic"].products',
    ),
    "gpt-oss has no engine": Wrong(main(replace(GPT_OSS, path="engine")), "no-engine", f"{GPT}.path"),
    "the engine path is gone after TensorRT-LLM 1.2.1": Wrong(
        main(replace(LLAMA, path="engine")) | {"release": Release(name="next", derived_from="26.07", trtllm="1.3.0")},
        "engine-removed",
        'servers["main"].models["llama"].path',
    ),
    "gpt-oss needs TensorRT-LLM 1.1": Wrong({"release": "25.10"}, "release-too-old-for-model", f"{GPT}.path"),
    "an LLM does not run on the python path": Wrong(
        main(replace(GPT_OSS, path="python")), "path-python-for-llm", f"{GPT}.path"
    ),
    "an encoder has the python path only": Wrong(
        main(replace(RERANKER, path="engine")), "path-for-encoder", 'servers["main"].models["bge"].path'
    ),
    "a checkpoint of one's own has numbers": Wrong(
        main(own_llm("LlamaForCausalLM", heads=0)),
        "impossible-shape",
        'servers["main"].models["mine"].checkpoint.heads',
    ),
    "key/value heads divide the heads": Wrong(
        main(own_llm("LlamaForCausalLM", kv_heads=5)),
        "impossible-shape",
        'servers["main"].models["mine"].checkpoint.kv_heads',
    ),
    "a model's name can name a directory": Wrong(
        main(replace(EMBEDDER, name="nomic/v2")), "bad-name", 'servers["main"].models["nomic/v2"].name'
    ),
    "two models have two names": Wrong(
        main(RERANKER, replace(EMBEDDER, name="bge")), "duplicate-model", 'servers["main"].models'
    ),
    "remote code is never trusted": Wrong(
        main(replace(EMBEDDER, trust_remote_code=True)),
        "remote-code",
        'servers["main"].models["nomic"].trust_remote_code',
    ),
    "a sequence fits the positions": Wrong(
        main(replace(GPT_OSS, max_seq_len=200_000, max_num_tokens=200_000)), "beyond-positions", f"{GPT}.max_seq_len"
    ),
    "8-bit products stand in a 16-bit network": Wrong(
        main(replace(RERANKER, products="fp8", dtype="float32")),
        "fp8-beside-float32",
        'servers["main"].models["bge"].products',
    ),
    "8-bit products need a card that has them": Wrong(
        machine(gpu="a100-80") | main(replace(RERANKER, products="fp8")),
        "wrong-sm",
        'servers["main"].models["bge"].products',
    ),
    "a text fits what the encoder was trained for": Wrong(
        main(replace(RERANKER, max_tokens=514)), "beyond-positions", 'servers["main"].models["bge"].max_tokens'
    ),
    "a pair leaves the passage a token": Wrong(
        main(replace(RERANKER, max_tokens=16)), "below-one-pair", 'servers["main"].models["bge"].max_tokens'
    ),
    "a prompt fits one iteration": Wrong(
        main(replace(GPT_OSS, max_seq_len=32_768)), "prompt-beyond-iteration", f"{GPT}.max_num_tokens"
    ),
    "one batch holds one text": Wrong(
        main(replace(EMBEDDER, max_batch_tokens=256)),
        "batch-below-one-text",
        'servers["main"].models["nomic"].max_batch_tokens',
    ),
    "passes run beside each other in a few streams": Wrong(
        main(replace(RERANKER, streams=0)), "unbelievable-number", 'servers["main"].models["bge"].streams'
    ),
    "a task is one the family was trained with": Wrong(
        main(replace(EMBEDDER, default_task="search_documents")),
        "unknown-task",
        'servers["main"].models["nomic"].default_task',
    ),
    "a prefix is that of a task clients can ask for": Wrong(
        main(replace(EMBEDDER, prefixes={"query": "query: "})),
        "unknown-task",
        'servers["main"].models["nomic"].prefixes',
    ),
    "a cache holds one sequence": Wrong(
        main(replace(GPT_OSS, kv_cache=KVCache(tokens=4096))), "cache-below-one-sequence", f"{GPT}.kv_cache.tokens"
    ),
    "a cache is not larger than all contexts": Wrong(
        main(replace(GPT_OSS, kv_cache=KVCache(tokens=1_000_000))), "cache-beyond-context", f"{GPT}.kv_cache.tokens"
    ),
    "gpt-oss on Hopper has no fp8 cache": Wrong(
        main(replace(GPT_OSS, kv_cache=KVCache(dtype="fp8"))), "fp8-cache", f"{GPT}.kv_cache.dtype"
    ),
    "gpt-oss keeps no blocks for reuse": Wrong(
        main(replace(GPT_OSS, kv_cache=KVCache(reuse=True))), "unsupported-feature", f"{GPT}.kv_cache.reuse"
    ),
    "gpt-oss prefills in one piece": Wrong(
        main(replace(GPT_OSS, chunked_prefill=True)), "unsupported-feature", f"{GPT}.chunked_prefill"
    ),
    "NVFP4 weights need Blackwell": Wrong(
        main(own_llm("LlamaForCausalLM", quantisation="nvfp4")), "wrong-sm", 'servers["main"].models["mine"].checkpoint'
    ),
    "nvidia-smi's name of a card leads to the catalog's": Wrong(
        machine(gpu="NVIDIA H100 80GB HBM3"), "unknown-gpu", "machine.gpu"
    ),
    "a card beside an Arm processor is known and not served": Wrong(
        machine(gpu="gb200-186"), "platform", "machine.gpu"
    ),
    "MXFP4 weights need Hopper": Wrong(machine(gpu="a100-80"), "wrong-sm", f"{GPT}.checkpoint"),
    "heads split evenly over the GPUs": Wrong(
        machine(gpus=3) | main(GPT_OSS, gpus=(0, 1, 2)), "uneven-split", 'servers["main"].gpus'
    ),
    "a dense model has no expert backend": Wrong(
        main(replace(LLAMA, moe_backend="CUTLASS")),
        "moe-backend-without-experts",
        'servers["main"].models["llama"].moe_backend',
    ),
}

MEMORY = {
    "a GPU is not over-committed": Wrong(
        main(RERANKER, replace(LLAMA, kv_cache=KVCache(tokens=524_288))), "over-committed", 'servers["main"].models'
    ),
    "one stream less may be enough": Wrong(
        main(RERANKER, replace(LLAMA, kv_cache=KVCache(tokens=446_464))), "over-committed", 'servers["main"].models'
    ),
    "a model too large for the card is refused": Wrong(
        machine(gpu="a100-40") | main(own_llm("LlamaForCausalLM", parameters=30_000_000_000, layers=128)),
        "over-committed",
        'servers["main"].models',
    ),
    "what is left holds one sequence": Wrong(
        main(own_llm("LlamaForCausalLM", parameters=37_000_000_000, intermediate=80_000)),
        "left-below-one-sequence",
        'servers["main"].models["mine"].kv_cache.tokens',
    ),
    "a declared disk holds image and weights": Wrong(machine(disk_mib=50_000), "disk-too-small", "machine.disk_mib"),
    "two LLMs do not both take what is left": Wrong(main(LLAMA, GPT_OSS), "two-leftovers", f"{GPT}.kv_cache.tokens"),
}

WEIGHTS = {
    "weights are pinned to a commit": Wrong(
        main(replace(GPT_OSS, weights=Weights.hub("openai/gpt-oss-20b", "main"))),
        "unpinned-weights",
        f"{GPT}.weights.revision",
    ),
    "a repository is owner and name": Wrong(
        main(replace(GPT_OSS, weights=Weights.hub("https://huggingface.co/openai/gpt-oss-20b", A_COMMIT))),
        "bad-repository",
        f"{GPT}.weights.repository",
    ),
    "a pickle is never fetched": Wrong(
        main(with_files("config.json", "model.safetensors", "pytorch_model.bin")), "pickle", f"{GPT}.weights.files"
    ),
    "a star would fetch pickles too": Wrong(main(with_files("*")), "pickle", f"{GPT}.weights.files"),
    "a file lies inside the checkpoint": Wrong(
        main(with_files("../../etc/shadow", "model.safetensors")), "file-outside", f"{GPT}.weights.files"
    ),
    "weights are safetensors": Wrong(main(with_files("config.json")), "no-safetensors", f"{GPT}.weights.files"),
    "weights have a source": Wrong(main(replace(GPT_OSS, weights=Weights())), "no-weights", f"{GPT}.weights"),
    "a local checkpoint is there": Wrong(
        main(replace(GPT_OSS, weights=Weights.local("weights/gpt-oss-20b"))),
        "no-local-weights",
        f"{GPT}.weights.directory",
    ),
    "one name is one set of files": Wrong(
        machine(gpus=2)
        | {
            "servers": (
                replace(MAIN, name="one", models=(GPT_OSS,)),
                replace(
                    MAIN,
                    name="two",
                    gpus=(1,),
                    models=(replace(GPT_OSS, weights=Weights.hub("openai/gpt-oss-20b", A_COMMIT)),),
                    **APART,
                ),
            )
        },
        "same-model-two-weights",
        'servers["two"].models["gpt-oss-20b"].weights',
    ),
}

SOURCES = {
    "a hub is a URL": Wrong({"hub": Hub(endpoint="huggingface.co")}, "bad-url", "hub.endpoint"),
    "a mirror is a URL": Wrong(
        {"mirrors": Mirrors(docker=AptMirror(url="mirror/docker", key_file="keys/docker.asc"))},
        "bad-url",
        "mirrors.docker.url",
    ),
    "a mirror has a signing key": Wrong(
        {"mirrors": Mirrors(nvidia=AptMirror(url="https://mirror.example/cuda", key_file=""))},
        "unsigned-mirror",
        "mirrors.nvidia.key_file",
    ),
    "Docker's data lies at an absolute path": Wrong(
        {"docker": Docker(data_root="data/docker")}, "relative-path", "docker.data_root"
    ),
}

FIREWALL = {
    "a network has no host bits": Wrong({"firewall": Firewall(allow=("10.0.0.5/8",))}, "bad-network", "firewall.allow"),
    "a network is a CIDR": Wrong(
        {"firewall": Firewall(allow=("10.0.0.0/8",), ssh=("office",))}, "bad-network", "firewall.ssh"
    ),
    "a firewall lets somebody in": Wrong({"firewall": Firewall(allow=())}, "firewall-allows-nobody", "firewall.allow"),
    "a firewall does not let everybody in": Wrong(
        {"firewall": Firewall(allow=("10.0.0.0/8",), metrics=("::/0",))},
        "firewall-allows-everybody",
        "firewall.metrics",
    ),
    "half of all addresses are everybody": Wrong(
        {"firewall": Firewall(allow=("128.0.0.0/1",))}, "firewall-allows-everybody", "firewall.allow"
    ),
    "all that IPv6 has given out is everybody": Wrong(
        {"firewall": Firewall(allow=("2000::/3",))}, "firewall-allows-everybody", "firewall.allow"
    ),
    "a server's port is opened by the server's own list": Wrong(
        {"firewall": Firewall(allow=("10.0.0.0/8",), open=(Opening(port=8000),), rest="closed")},
        "port-of-a-server",
        "firewall.open[0].port",
    ),
    "an opening is a port": Wrong(
        {"firewall": Firewall(allow=("10.0.0.0/8",), open=(Opening(port=0),), rest="closed")},
        "unbelievable-number",
        "firewall.open[0].port",
    ),
    "openings need a closed host": Wrong(
        {"firewall": Firewall(allow=("10.0.0.0/8",), open=(Opening(port=9100),))},
        "openings-of-an-open-host",
        "firewall.open",
    ),
    "new rules are confirmed in a sensible time": Wrong(
        {"firewall": Firewall(allow=("10.0.0.0/8",), confirm_seconds=1)},
        "unbelievable-number",
        "firewall.confirm_seconds",
    ),
    "blocks are reused or kept apart": Wrong(
        main(replace(LLAMA, kv_cache=KVCache(reuse=True, per_tenant=True))),
        "reuse-among-tenants",
        'servers["main"].models["llama"].kv_cache.per_tenant',
    ),
    "a list of networks is a tuple": Wrong(
        {"firewall": Firewall(allow="10.0.0.0/8")},
        "wrong-type",
        "firewall.allow",
    ),
}

SECRETS = {
    "a token typed out is never shown": Wrong(
        {"hub": Hub(token="hf_abcdefghijklmnopqrstuvwxyz")},
        "literal-secret",
        "hub.token",
    ),
    "a token in place of a variable's name is never shown": Wrong(
        {"hub": Hub(token=Secret.env("hf_abcdefghijklmnopqrstuvwxyz"))}, "literal-secret", "hub.token"
    ),
    "a secret names a place": Wrong(
        {"registry": Registry(key=Secret.env("NGC KEY"))}, "nameless-secret", "registry.key"
    ),
}

DATA = {
    "an unknown data key is offered the nearest": Wrong({"relase": "26.07"}, "unknown-key", "relase"),
    "a host says what machine it is": Wrong({"machine": None}, "missing-key", "machine"),
    "a dictionary is no Machine": Wrong({"machine": {"os": "ubuntu-24.04"}}, "wrong-type", "machine"),
    "one server without a comma is no tuple": Wrong({"servers": MAIN}, "wrong-type", "servers"),
    "a list is no tuple": Wrong({"servers": [MAIN]}, "wrong-type", "servers"),
    "a port is a number": Wrong(main(http_port="8000"), "wrong-type", 'servers["main"].http_port'),
    "a choice is one of the words": Wrong(
        {"docker": Docker(source="distro")},
        "unknown-choice",
        "docker.source",
    ),
    "a share of the memory is no number of tokens": Wrong(
        main(replace(GPT_OSS, kv_cache=KVCache(tokens=0.9))),
        "fraction",
        f"{GPT}.kv_cache.tokens",
    ),
    "GPT_GPU_FRACTION becomes tokens": Wrong({"GPT_GPU_FRACTION": 0.8}, "guide-fraction", "GPT_GPU_FRACTION"),
    "KV_CACHE_FRACTION becomes tokens": Wrong(
        {"KV_CACHE_FRACTION": 0.2, "GPT_GPU_FRACTION": 0.3}, "guide-fraction", "KV_CACHE_FRACTION"
    ),
    "RERANKER_GPU_FRACTION becomes a batch": Wrong(
        {"RERANKER_GPU_FRACTION": 0.1}, "guide-fraction", "RERANKER_GPU_FRACTION"
    ),
    "EMBED_GPU_FRACTION becomes a batch": Wrong({"EMBED_GPU_FRACTION": 0.05}, "guide-fraction", "EMBED_GPU_FRACTION"),
    "MAX_BATCH_SIZE_GPT becomes a setting": Wrong({"MAX_BATCH_SIZE_GPT": 32}, "guide-name", "MAX_BATCH_SIZE_GPT"),
    "MAX_BATCH_SIZE_RERANKER becomes a setting": Wrong(
        {"MAX_BATCH_SIZE_RERANKER": 64}, "guide-name", "MAX_BATCH_SIZE_RERANKER"
    ),
    "MAX_BATCH_SIZE_EMBED becomes a setting": Wrong(
        {"MAX_BATCH_SIZE_EMBED": 128}, "guide-name", "MAX_BATCH_SIZE_EMBED"
    ),
    "TRITON_HTTP_PORT becomes a setting": Wrong({"TRITON_HTTP_PORT": 8000}, "guide-name", "TRITON_HTTP_PORT"),
    "TRITON_GRPC_PORT becomes a setting": Wrong({"TRITON_GRPC_PORT": 8001}, "guide-name", "TRITON_GRPC_PORT"),
    "TRITON_METRICS_PORT becomes a setting": Wrong({"TRITON_METRICS_PORT": 8002}, "guide-name", "TRITON_METRICS_PORT"),
    "LOG_VERBOSE becomes a setting": Wrong({"LOG_VERBOSE": 1}, "guide-name", "LOG_VERBOSE"),
    "other environment variables are not read": Wrong(
        {"CUDA_VISIBLE_DEVICES": "0"}, "unknown-key", "CUDA_VISIBLE_DEVICES"
    ),
    "a wave reaches somebody": Wrong(
        {"rollout": Rollout(wave_percent=0)}, "unbelievable-number", "rollout.wave_percent"
    ),
    "somebody may be out": Wrong({"rollout": Rollout(max_unavailable=0)}, "nobody-out", "rollout.max_unavailable"),
    "a share of a small pool is a host at least": Wrong(
        {"rollout": Rollout(max_unavailable="25%"), "pool": "chat"}, "nobody-out", "rollout.max_unavailable"
    ),
    "who may be lost leaves room for who is swapped": Wrong(
        {"rollout": Rollout(max_unavailable=1, may_be_lost=1)}, "nobody-out", "rollout.max_unavailable"
    ),
    "a share has a sign behind it": Wrong(
        {"rollout": Rollout(max_unavailable="a quarter")}, "out-of-range", "rollout.max_unavailable"
    ),
    "a wait is not less than none": Wrong(
        {"rollout": Rollout(bake_seconds=-1)}, "unbelievable-number", "rollout.bake_seconds"
    ),
    "what goes back is one of four": Wrong(
        {"rollout": Rollout(on_failure="everything")},
        "unknown-choice",
        "rollout.on_failure",
    ),
    "a pool has a name for a balancer": Wrong({"pool": "chat & search"}, "pool-name", "pool"),
    "a host is in one pool": Wrong({"pool": ("chat", "search")}, "wrong-type", "pool"),
    "a farm host is in no pool": Wrong({"pool": "chat", "farm": True, "servers": ()}, "farm-in-a-pool", "pool"),
}

ALL: dict[str, Wrong] = {
    **MACHINES,
    **RELEASES,
    **SERVERS,
    **MODELS,
    **MEMORY,
    **WEIGHTS,
    **SOURCES,
    **FIREWALL,
    **SECRETS,
    **DATA,
}
