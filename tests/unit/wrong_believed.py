"""Wrong inventories that were once accepted: an empty claim, another model's numbers, typed-out keys.

A table like that of tests.unit.wrong, in a separate file because these are about a plan's claims.
"""

from __future__ import annotations

from dataclasses import replace

from deploy.catalog import CHECKPOINTS
from deploy.spec import (
    AptMirror,
    DataDisk,
    Docker,
    Draft,
    EngineStore,
    EngineTrust,
    Firewall,
    Hub,
    Mirrors,
    Replay,
    Secret,
    Weights,
)
from tests.unit.samples import EMBEDDER, GPT_OSS, LLAMA, MACHINE, main, pinned
from tests.unit.wrong import Wrong, own, own_llm

OTHER = Weights.hub("example/other", "b" * 40)

PROTECTION = {
    "the word firewall closes nothing": Wrong(
        main(address="0.0.0.0", protection="firewall"), "protection-without-firewall", 'servers["main"].protection'
    ),
    "the word balancer closes nothing": Wrong(
        main(address="10.0.0.5", protection="balancer"), "protection-without-balancer", 'servers["main"].protection'
    ),
    "an address is no balancer": Wrong(
        main(address="10.0.0.5", protection="balancer") | {"firewall": Firewall(allow=("10.0.0.9/32", "fd00::9"))},
        "protection-without-balancer",
        'servers["main"].protection',
    ),
}

SECRET = "canary4711canary"
PROXY = f"http://builder:{SECRET}@proxy.example:3128"

SECRETS = {
    "a token in the hub's URL is a secret": Wrong(
        {"hub": Hub(endpoint=f"https://user:{SECRET}@hub.example")}, "literal-secret", "hub.endpoint"
    ),
    "a token in a query is a secret": Wrong(
        {"hub": Hub(endpoint=f"https://hub.example/api?token={SECRET}")}, "literal-secret", "hub.endpoint"
    ),
    "a token as the user of a URL is a secret": Wrong(
        {"mirrors": Mirrors(docker=AptMirror(url=f"https://{SECRET}@apt.example/docker", key_file="keys/docker.asc"))},
        "literal-secret",
        "mirrors.docker.url",
    ),
    "a proxy's password is a secret": Wrong(
        {"docker": Docker(daemon={"proxies": {"https-proxy": PROXY}})},
        "literal-secret",
        'docker.daemon["proxies"]["https-proxy"]',
    ),
    "a registry mirror's password is a secret": Wrong(
        {"docker": Docker(daemon={"registry-mirrors": [f"https://user:{SECRET}@mirror.example"]})},
        "literal-secret",
        'docker.daemon["registry-mirrors"][0]',
    ),
    "a log driver's token is a secret": Wrong(
        {"docker": Docker(daemon={"log-opts": {"splunk-token": SECRET}})},
        "literal-secret",
        'docker.daemon["log-opts"]["splunk-token"]',
    ),
    "a role's settings hold no secret either": Wrong(
        {"docker_settings": {"repository": f"https://user:{SECRET}@apt.example"}},
        "literal-secret",
        'docker_settings["repository"]',
    ),
    "a stored engine's place holds no secret": Wrong(
        {"engine_store": EngineStore.directory(f"/mnt/engines?password={SECRET}")},
        "literal-secret",
        "engine_store.place",
    ),
    "a model's own fields hold no secret": Wrong(
        main(replace(GPT_OSS, weights=Weights.local(f"https://user:{SECRET}@hub.example/weights"))),
        "literal-secret",
        'servers["main"].models["gpt-oss-20b"].weights.directory',
    ),
    "a command that reads a secret holds none": Wrong(
        {"hub": Hub(token=Secret.command("curl", f"https://user:{SECRET}@vault.example"))},
        "literal-secret",
        "hub.token",
    ),
}

MINE = 'servers["main"].models["mine"].checkpoint'

CACHES = {
    "DeepSeek's cache is a latent of some size": Wrong(main(own_llm("DeepseekV3ForCausalLM")), "unknown-cache", MINE),
    "a Llama has no latent": Wrong(
        main(own_llm("LlamaForCausalLM", kv_lora_rank=512, qk_rope_head_dim=64)), "unknown-cache", MINE
    ),
    "a draft's latent has a size too": Wrong(
        main(replace(LLAMA, speculative=Draft(checkpoint=own("DeepseekV3ForCausalLM"), weights=OTHER))),
        "unknown-cache",
        'servers["main"].models["llama"].speculative.checkpoint',
    ),
    "a hybrid is no near name of a decoder": Wrong(main(own_llm("NemotronHForCausalLM")), "unknown-cache", MINE),
    "a model with linear attention is unknown": Wrong(main(own_llm("Qwen3NextForCausalLM")), "unknown-cache", MINE),
    "an indexer's cache is unknown": Wrong(main(own_llm("DeepseekV32ForCausalLM")), "unknown-cache", MINE),
}

BIG = CHECKPOINTS["gpt-oss-120b"].shape

REPOSITORIES = {
    "a checkpoint is that of its repository": Wrong(
        main(replace(GPT_OSS, weights=pinned("gpt-oss-120b"))),
        "repository-of-another-checkpoint",
        'servers["main"].models["gpt-oss-20b"].weights.repository',
    ),
    "a mirror's name says what it holds": Wrong(
        main(replace(GPT_OSS, weights=pinned("gpt-oss-120b", repository="mirror/GPT-OSS-120B-bf16"))),
        "repository-of-another-checkpoint",
        'servers["main"].models["gpt-oss-20b"].weights.repository',
    ),
    "a draft is that of its repository too": Wrong(
        main(replace(LLAMA, speculative=Draft(checkpoint="qwen3-8b", weights=pinned("gpt-oss-20b")))),
        "repository-of-another-checkpoint",
        'servers["main"].models["llama"].speculative.weights.repository',
    ),
    "numbers typed for a known repository are its own": Wrong(
        main(replace(GPT_OSS, checkpoint=replace(BIG, layers=24, experts=32), weights=pinned("gpt-oss-120b"))),
        "numbers-of-another-checkpoint",
        'servers["main"].models["gpt-oss-20b"].checkpoint',
    ),
}

ENGINE = replace(LLAMA, path="engine", replay=None)
TRUST = {"engine_trust": EngineTrust(key="keys/engines")}

JUDGING = {
    "an engine is judged, or somebody says why not": Wrong(
        main(ENGINE) | TRUST, "unjudged-engine", 'servers["main"].models["llama"].replay'
    ),
    "a reason has words": Wrong(
        main(replace(ENGINE, replay=Replay.none(reason=" "))) | TRUST,
        "no-reason",
        'servers["main"].models["llama"].replay.reason',
    ),
    "what nobody judges has no prompts": Wrong(
        main(replace(ENGINE, replay=Replay(prompts="p.jsonl", judged=False, reason="we know it"))) | TRUST,
        "replay-and-none",
        'servers["main"].models["llama"].replay',
    ),
}

STRAY = {
    "a group of receivers is no client": Wrong(
        {"firewall": Firewall(allow=("224.0.0.0/8",))}, "network-of-nobody", "firewall.allow"
    ),
    "the host itself is no client of its firewall": Wrong(
        {"firewall": Firewall(allow=("127.0.0.0/8",))}, "network-of-nobody", "firewall.allow"
    ),
    "a device that forgets is no disk": Wrong(
        {"machine": replace(MACHINE, data_disk=DataDisk(device="/dev/loop0"))},
        "data-disk-device",
        "machine.data_disk.device",
    ),
    "a prefix is a text": Wrong(
        main(replace(EMBEDDER, prefixes={"search_query": None})),
        "wrong-type",
        'servers["main"].models["nomic"].prefixes["search_query"]',
    ),
}

ALL = STRAY | JUDGING | PROTECTION | SECRETS | CACHES | REPOSITORIES
