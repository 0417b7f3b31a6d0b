"""Gateways that send to servers of other hosts: the plan of both sides, and of hosts without such a gateway."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deploy.models.files import TOKENIZER_FILES, weights_path
from deploy.planning.plan import Plan
from deploy.refusals.errors import Refusal
from deploy.reports.plan import plan_report
from deploy.slices.gateway import MutualGatewaySlice, MutualSlice
from deploy.spec import LLM, Adapter, Alias, EngineTrust, Gateway, LoRA, Sharing, Traffic, Weights
from deploy.topology.mutual import common_name
from roles.gateway.settings import rendered
from tests.unit.golden import same_as_golden
from tests.unit.samples import EMBEDDER, GPT_OSS, LLAMA, MACHINE, MAIN, RERANKER, Source, main, plan
from tests.unit.test_report import printed

LORA = LoRA(adapters=(Adapter(name="sql", task_id=1, weights=Weights.hub("acme/sql", "1" * 40)),))


def fleet(others: tuple[str, ...] = ("search",), llm: LLM = GPT_OSS, **changes: object) -> Plan:
    """`front` has a gateway and an LLM, `back` of the pool `search` the encoders."""
    back = {"machine": MACHINE, "release": "26.07"} | {
        "servers": (replace(MAIN, models=(RERANKER, EMBEDDER)),),
        "peer_address": "10.0.0.2",
    }
    hosts = (
        Source("back", {**back, "gateway": None, "pool": "search", **changes}),
        front(others, llm),
    )
    return plan(*hosts)


def front(
    others: tuple[str, ...], llm: LLM = GPT_OSS, name: str = "front", number: int = 1, **changes: object
) -> Source:
    data = {"machine": MACHINE, "release": "26.07", "peer_address": f"10.0.0.{number}", **main(llm)}
    return Source(name, {**data, "gateway": Gateway(others=others), **changes})


def test_a_gateway_offers_the_models_of_its_other_hosts() -> None:
    gateway = fleet().for_host("front").gateway
    assert gateway
    assert {model.name: model.servers for model in gateway.models} == {
        "bge": ("back/main",),
        "gpt-oss-20b": ("main",),
        "nomic": ("back/main",),
    }
    assert {alias.name for alias in gateway.aliases} == {"nomic:query", "nomic:document"}
    assert [(server.name, server.address, server.port) for server in gateway.others] == [
        ("back/main", "10.0.0.2", 8009)
    ]


def test_both_hosts_have_an_address_and_only_the_remote_host_has_a_port() -> None:
    made = fleet(traffic=Traffic(gateways_port=9009))
    assert made.for_host("front").mutual == MutualSlice(address="10.0.0.1")
    gateways = (MutualGatewaySlice(name="front", address="10.0.0.1"),)
    assert made.for_host("back").mutual == MutualSlice(address="10.0.0.2", port=9009, gateways=gateways)


def test_a_model_of_two_hosts_has_both_servers() -> None:
    made = fleet(("back",), **main(GPT_OSS, EMBEDDER))
    gateway = made.for_host("front").gateway
    assert gateway and {model.name: model.servers for model in gateway.models} == {
        "gpt-oss-20b": ("main", "back/main"),
        "nomic": ("back/main",),
    }


def test_the_gateways_host_gets_the_tokenizer_of_an_llm_that_only_another_host_serves() -> None:
    tuned = replace(LLAMA, path="engine", precision="float16", lora=LORA)
    reached = fleet(engine_trust=EngineTrust(key="keys/engines"), **main(tuned, EMBEDDER))
    alone, front = fleet(()).for_host("front"), reached.for_host("front")
    assert front.gateway
    model = next(model for model in front.gateway.models if model.name == "llama")
    (tokenizer,) = set(front.weights) - set(alone.weights)
    same_as_golden("gateway/settings-remote-llm.json", rendered(front, front.gateway))
    assert model.servers == ("back/main",) and model.context_tokens == tuned.max_seq_len
    assert model.files == weights_path(tokenizer) and "/llama-tokenizer/" in model.files
    assert tokenizer.files == TOKENIZER_FILES and not any("safetensors" in name for name in tokenizer.files)
    assert "llama:sql" in {alias.name for alias in front.gateway.aliases}
    assert front.servers == alone.servers and front.engines == alone.engines
    assert front.disk_needed_mib == alone.disk_needed_mib + tokenizer.size_mib


def test_an_alias_and_a_default_may_name_a_model_of_another_host() -> None:
    back = {"machine": MACHINE, "gateway": None, "peer_address": "10.0.0.9", **main(replace(LLAMA, path="pytorch"))}
    aliases = {
        "gpt-4o": "llama",
        "chat": Alias(models={"gpt-oss-20b": 1}, fallback="llama"),
        "ranks": Alias(models={"bge": 1}),
    }
    encoders = Source("rear", {**back, "peer_address": "10.0.0.8", **main(EMBEDDER, RERANKER)})
    named = Gateway(others=("back", "rear"), aliases=aliases, default_embedder="nomic", default_reranker="ranks")
    gateway = plan(Source("back", back), encoders, front((), gateway=named)).for_host("front").gateway
    assert gateway and {alias.name: (alias.models, alias.fallback) for alias in gateway.aliases if not alias.task} == {
        "chat": (("gpt-oss-20b",), "llama"),
        "gpt-4o": (("llama",), ""),
        "ranks": (("bge",), ""),
    }


def test_the_tokenizer_of_a_private_model_is_shared_by_no_gateways_hosts() -> None:
    """The host that serves it shares nothing, so that only it says the word `private`."""
    llama = replace(LLAMA, path="pytorch", weights=replace(LLAMA.weights, private=True))
    back = {"machine": MACHINE, "gateway": None, "peer_address": "10.0.0.9", **main(llama)}
    fronts = [front(("back",), name=f"front-{number}", number=number, sharing=Sharing()) for number in (1, 2)]
    for host in plan(Source("back", back), *fronts).slices[1:]:
        assert len(host.weights) == 2 and host.sharing
        assert "gpt-oss-20b" in {files.model for files in host.sharing.files}
        assert "llama-tokenizer" not in {files.model for files in host.sharing.files}


def test_an_llm_that_takes_other_requests_on_two_other_hosts_is_refused() -> None:
    """The gateway's host serves neither; release 25.10 does not separate tenants, 26.07 does."""
    llama = replace(LLAMA, path="pytorch")
    data = {"machine": MACHINE, "gateway": None, **main(llama)}
    hosts = (
        Source("back", {**data, "release": "25.10", "peer_address": "10.0.0.2"}),
        Source("rear", {**data, "release": "26.07", "peer_address": "10.0.0.3"}),
    )
    with pytest.raises(Refusal, match="cannot ask llama on back/main and on rear/main alike"):
        plan(*hosts, front(("back", "rear")))


def test_the_plan_of_a_fleet_without_remote_gateways_has_no_field_for_them() -> None:
    plain = fleet(())
    assert ["mutual" in slice_.to_json() for slice_ in plain.slices] == [False, False]
    assert "others" not in json.dumps([slice_.to_json() for slice_ in plain.slices])


def test_a_gateway_and_its_hosts_answer_with_one_fingerprint_of_all_models() -> None:
    alone, together = fleet(()).for_host("front").gateway, fleet().for_host("front").gateway
    assert alone and together and alone.fingerprint != together.fingerprint


def test_the_plan_lists_the_clients_of_each_port() -> None:
    text = " ".join(printed(plan_report(fleet())).split())
    assert "gateways of front connect to port 8009 over mutual TLS" in text and "also to back/main" in text


def test_an_llm_that_takes_other_requests_there_is_refused() -> None:
    """Release 25.10 does not separate tenants, 26.07 does."""
    llama = replace(LLAMA, path="pytorch")
    with pytest.raises(Refusal, match="cannot ask llama here and on back/main alike"):
        fleet(llm=llama, **main(llama), release="25.10")


def test_a_long_name_fits_into_a_certificate() -> None:
    assert common_name("h1.example.internal") == "h1.example.internal"
    assert len(common_name("h" * 65)) == 32 and common_name("h" * 65) != common_name("h" * 66)
