"""The machines of a rehearsal, as an ordinary inventory over SSH: what `make rehearse` deploys to.

Everything that differs from a cloud is written here, in the words any operator has: a release derived from a row of the
catalog (an older Triton core), mirrors of the three apt repositories, a private registry and hub, encoders on the CPU.
The files it reads were written when the rehearsal came up; they hold addresses and pins, and secrets only by path.
"""

import ipaddress as _ipaddress
import json as _json
import os as _os
from pathlib import Path as _Path

from deploy.catalog.holes import HOLES as _HOLES
from deploy.refusals import Refusal as _Refusal
from deploy.spec import (
    LLM,
    AcceptedHoles,
    AptMirror,
    Calibration,
    Checkpoint,
    Embedder,
    EngineTrust,
    Firewall,
    Hub,
    KVCache,
    Machine,
    Mirrors,
    Registry,
    Release,
    Replay,
    Reranker,
    Rollout,
    Secret,
    Server,
    Weights,
)

_number = int(_os.environ.get("ENGINEHOUSE_REHEARSAL_NUMBER", "0"))
_state = _Path(".rehearsal") if _number == 0 else _Path(f".rehearsal/number-{_number}")
_machines = [_json.loads(file.read_text()) for file in sorted(_state.glob("machines/*/machine.json"))]
_services_file = _state / "services/services.json"
if not _machines or not _services_file.exists():
    raise _Refusal(
        "no rehearsal is up, so this inventory has no hosts",
        facts={"looked at": f"{_state}/machines/*/machine.json, {_services_file}"},
        attempt="make rehearse",
    )
_services = _json.loads(_services_file.read_text())


def _weights(name: str, **options: str) -> Weights:
    repository = f"rehearsal/{name}"
    return Weights.hub(repository, _services["revisions"][repository], **options)


_minilm = Embedder(
    name="minilm",
    checkpoint="all-minilm-l6-v2",
    weights=_weights("minilm"),
    dtype="float32",
    device="cpu",
    max_tokens=256,
    max_batch_tokens=4096,
)
_nomic = Embedder(
    name="nomic-moe",
    checkpoint=Checkpoint(
        architecture="NomicBertModel",
        parameters=882_000,
        layers=4,
        hidden=64,
        heads=4,
        intermediate=128,
        vocabulary=8128,
        positions=2048,
        experts=8,
        active_experts=2,
    ),
    weights=Weights.local(f"{_services['checkpoints']}/nomic-moe"),
    dtype="float32",
    device="cpu",
    max_batch_tokens=4096,
    default_task="search_document",
)
_reranker = Reranker(
    name="xlmr-reranker",
    checkpoint=Checkpoint(
        architecture="XLMRobertaForSequenceClassification",
        parameters=656_000,
        layers=3,
        hidden=64,
        heads=4,
        intermediate=128,
        vocabulary=8087,
        positions=514,
    ),
    weights=_weights("xlmr-reranker", fetch_on="control"),
    dtype="float32",
    device="cpu",
    max_batch_tokens=4096,
)
_llm = LLM(
    name="gpt-oss-tiny",
    checkpoint=Checkpoint(
        architecture="GptOssForCausalLM",
        parameters=150_000,
        layers=2,
        hidden=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        intermediate=64,
        vocabulary=265,
        positions=4096,
        experts=4,
        active_experts=2,
        quantisation="mxfp4",
    ),
    weights=_weights("gpt-oss-tiny"),
    kv_cache=KVCache(tokens=16_384),
    max_batch_size=8,
    max_seq_len=2048,
    max_num_tokens=2048,
)
_llama = LLM(
    name="llama-tiny",
    checkpoint=Checkpoint(
        architecture="LlamaForCausalLM",
        parameters=108_000,
        layers=2,
        hidden=64,
        heads=4,
        kv_heads=2,
        head_dim=16,
        intermediate=128,
        vocabulary=265,
        positions=4096,
    ),
    weights=_weights("llama-tiny"),
    path="engine",
    precision="fp8",
    calibration=Calibration(directory="rehearsal/calibration", samples=16),
    kv_cache=KVCache(tokens=16_384, dtype="fp8"),
    replay=Replay(
        prompts="rehearsal/replay/prompts.jsonl", tasks="rehearsal/replay/tasks.jsonl", minimum_percent=100.0
    ),
    max_batch_size=8,
    max_seq_len=2048,
    max_num_tokens=2048,
)


def _mirror(path: str) -> AptMirror:
    return AptMirror(url=f"{_services['apt_url']}/{path}", key_file=_services["apt_key_file"])


def _network(address: str) -> str:
    """The machines' own bridge: this computer's tests and questions come from there."""
    return str(_ipaddress.ip_interface(f"{address}/24").network)


def _data(machine: dict[str, str]) -> dict[str, object]:
    return {
        "ssh_config_file": str(_state / "ssh_config"),
        "_sudo": True,
        "machine": Machine(os=machine["os"], gpu=machine.get("gpu") or "h100-80"),
        "release": Release(
            name="rehearsal",
            derived_from="26.07",
            image=_services["image"],
            digest=_services["image_digest"],
            triton_core="2.51.0",
            size_mib=512,
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
        "servers": (
            Server(
                name="main",
                models=(_minilm, _nomic, _reranker, _llm, _llama),
                address=machine["address"],
                protection="firewall",
                start_seconds=300,
                stop_seconds=30,
                accepts=AcceptedHoles(
                    ids=tuple(hole.id for hole in _HOLES if hole.component == "triton"),
                    reason="only this computer reaches its bridge",
                ),
            ),
        ),
        "firewall": Firewall(allow=(_network(machine["address"]),)),
        "engine_trust": EngineTrust(key=str(_state / "secrets/engine_key")),
        "engines_settings": {"ledger": str(_state / "engines")},
        "rollout": Rollout(canary_hosts=min(2, len(_machines)), wave_percent=100),
        "own_random_weights": ("nomic-moe",),
    }


rehearsal = [(_machine["name"], _data(_machine)) for _machine in _machines]
