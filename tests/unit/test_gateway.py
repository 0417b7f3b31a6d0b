"""The gateway in the plan: the models for clients, and an unchanged plan without a gateway."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deploy.catalog import CHECKPOINTS, RELEASES
from deploy.catalog.versions import at_least
from deploy.inventory.fleet import Fleet
from deploy.planning.plan import Plan
from deploy.reports.plan import plan_report
from deploy.slices.gateway import GatewaySlice
from deploy.spec import LLM, Adapter, Alias, EngineTrust, Gateway, KVCache, LoRA, Machine, Weights
from deploy.validation.default_gateway import with_default_gateway
from roles.gateway.settings import settings
from tests.unit.samples import (
    EMBEDDER,
    GPT_OSS,
    LLAMA,
    MAIN,
    OWN,
    RERANKER,
    Source,
    main,
    pinned,
    plan,
    refusals,
    sources,
)
from tests.unit.test_report import printed


def gateway(made: Plan) -> GatewaySlice:
    """The gateway of the plan's only host."""
    served = made.slices[0].gateway
    assert served
    return served


def test_the_plan_of_a_host_without_a_gateway_is_unchanged() -> None:
    """The slice has no field for a gateway, so digests of older inventories do not change."""
    assert "gateway" not in plan().slices[0].to_json()


def undeclared(*names: str, **data: Any) -> list[Source]:
    """An inventory of these hosts that declares no gateway."""
    return [
        Source(source.name, {key: value for key, value in source.data.items() if key != "gateway"})
        for source in sources(*names, **data)
    ]


def test_the_only_host_of_an_inventory_has_a_gateway_unless_it_says_none() -> None:
    assert plan(*undeclared("a")).slices[0].gateway == gateway(plan(gateway=Gateway()))
    assert plan(*sources("a")).slices[0].gateway is None, "gateway=None"


def test_several_hosts_have_no_implicit_gateway() -> None:
    assert [mine.gateway for mine in plan(*undeclared("a", "b")).slices] == [None, None]


def test_a_host_that_builds_and_serves_nothing_has_no_gateway() -> None:
    fleet = with_default_gateway(Fleet.of(undeclared("a", farm=True)))
    assert [host.gateway for host in fleet.hosts] == [None]


@pytest.mark.parametrize(
    "data",
    [
        main(http_port=8080),
        main(replace(GPT_OSS, decoupled=False)),
        main(replace(GPT_OSS, weights=pinned("gpt-oss-20b", files=("*.safetensors",)))),
    ],
    ids=["port", "in-one-piece", "no-tokenizer"],
)
def test_an_undeclared_gateway_that_cannot_run_is_left_out_with_a_note(data: dict[str, Any]) -> None:
    """The plan has the reason for its absence; a declared gateway is refused."""
    made = plan(*undeclared("a", **data))
    assert made.slices[0].gateway is None
    assert [note for note in made.warnings if note.startswith("no gateway: ")]
    assert refusals(gateway=Gateway(), **data)


def test_a_gateway_asks_for_keys_on_loopback_unless_it_says_otherwise() -> None:
    made = plan(gateway=Gateway())
    assert (gateway(made).keys, gateway(made).address, gateway(made).ports) == ("file", "127.0.0.1", (8080,))
    assert not [note for note in made.warnings if "key" in note]


def test_a_gateway_without_keys_is_noted() -> None:
    made = plan(gateway=Gateway(keys=None))
    assert gateway(made).keys == ""
    assert [note for note in made.warnings if "asks for no key" in note]


def test_every_offered_model_has_the_fields_that_the_gateway_needs() -> None:
    bge, gpt_oss, nomic = gateway(plan(gateway=Gateway())).models
    assert (bge.kind, bge.max_items, bge.max_tokens, bge.files) == ("reranker", 1024, 512, "")
    assert (gpt_oss.kind, gpt_oss.context_tokens, gpt_oss.triton_model) == ("llm", 8192, "gpt-oss-20b")
    assert gpt_oss.files == f"/var/lib/enginehouse/weights/gpt-oss-20b/{GPT_OSS.weights.revision}"
    assert (nomic.kind, nomic.dimensions, nomic.tasks[0]) == ("embedder", 768, "search_query")


def test_an_engine_is_asked_through_the_model_that_streams() -> None:
    compiled = replace(LLAMA, path="engine", precision="bfloat16")
    (model,) = gateway(plan(gateway=Gateway(), engine_trust=EngineTrust(key="keys/engines"), **main(compiled))).models
    assert (model.name, model.triton_model) == ("llama", "llama_completion")


def test_client_options_follow_the_catalog_and_the_operators_setting() -> None:
    (of_row,) = gateway(plan(gateway=Gateway(), **main(LLAMA))).models
    (declared,) = gateway(
        plan(gateway=Gateway(), **main(replace(LLAMA, tool_parser="none", guided_decoding=True)))
    ).models
    assert (of_row.tool_parser, of_row.guided_decoding) == ("llama3_json", False)
    assert (declared.tool_parser, declared.guided_decoding) == ("", True)


def test_the_plan_says_which_parsers_of_tool_calls_there_are_where_none_is_known() -> None:
    """The note comes before the first refused client; catalog models and an operator's choice have no note."""
    weights = Weights.hub("acme/own", "0" * 40)
    unknown = replace(LLAMA, name="own", checkpoint=CHECKPOINTS["qwen3-8b"].shape, weights=weights)

    def notes(*models: LLM) -> list[str]:
        warnings = plan(gateway=Gateway(), **main(*models)).warnings
        return [note for note in warnings if "tool_parser" in note]

    for known in (LLAMA, replace(unknown, tool_parser="none"), replace(unknown, tool_parser="hermes")):
        assert notes(known) == []
    (note,) = notes(unknown)
    assert note.startswith("own: the gateway refuses chats with tools")
    assert "tool_parser= takes hermes, llama3_json, mistral or harmony, and none without" in note
    assert not [note for note in plan(gateway=None, **main(unknown)).warnings if "tool_parser" in note]


def test_tasks_and_declared_aliases_have_their_own_names() -> None:
    named = gateway(plan(gateway=Gateway(aliases={"gpt-4o": "gpt-oss-20b"})))
    assert [(alias.name, alias.models, alias.task) for alias in named.aliases] == [
        ("nomic:query", ("nomic",), "search_query"),
        ("nomic:document", ("nomic",), "search_document"),
        ("gpt-4o", ("gpt-oss-20b",), ""),
    ]


def test_a_split_and_a_fallback_are_in_the_plan_and_in_the_gateway_s_settings() -> None:
    small = replace(GPT_OSS, name="small", max_seq_len=4096, kv_cache=KVCache(tokens=8192))
    aliases = {
        "chat": Alias(models={"gpt-oss-20b": 95, "small": 5}),
        "sure": Alias(models={"gpt-oss-20b": 1}, fallback="small"),
    }
    made = plan(gateway=Gateway(aliases=aliases), **main(GPT_OSS, small))
    (written,) = [settings(mine, gateway(made))["aliases"] for mine in made.slices]
    assert written == {
        "chat": {"shares": {"gpt-oss-20b": 95, "small": 5}, "sticky": "key"},
        "sure": {"model": "gpt-oss-20b", "fallback": "small"},
    }
    assert [note for note in made.warnings if "sure falls back to small, whose context of 4,096 tokens" in note]


def test_the_plan_of_an_alias_without_weights_is_unchanged() -> None:
    """The slice has no field for splits, so digests of older inventories do not change."""
    (alias, *_) = plan(gateway=Gateway()).slices[0].to_json()["gateway"]["aliases"]
    assert alias == {"name": "nomic:query", "models": ("nomic",), "task": "search_query", "adapter": ""}


def test_an_adapter_is_asked_for_by_a_name_of_its_own() -> None:
    lora = LoRA(adapters=(Adapter(name="sql", task_id=1, weights=OWN),))
    tuned = replace(LLAMA, path="engine", precision="float16", lora=lora)
    (alias,) = gateway(plan(gateway=Gateway(), engine_trust=EngineTrust(key="keys/engines"), **main(tuned))).aliases
    assert (alias.name, alias.models, alias.adapter) == ("llama:sql", ("llama",), "sql")


def test_tenants_share_no_prefix_where_the_release_takes_a_salt_and_else_the_plan_says_that_they_do() -> None:
    def salts_and_warns(release: str, **more: object) -> tuple[bool, bool]:
        made = plan(**main(replace(LLAMA, kv_cache=KVCache(reuse=True))), release=release, gateway=Gateway(**more))
        (model,) = gateway(made).models
        return model.salts, any("share cached prefixes of llama" in note and "leaks" in note for note in made.warnings)

    assert salts_and_warns("26.02") == (True, False)
    assert salts_and_warns("25.10") == (False, True)
    assert salts_and_warns("25.10", keys=None) == (False, False)


def test_two_servers_with_one_model_stand_behind_one_name() -> None:
    second = replace(MAIN, name="two", gpus=(1,), http_port=8010, grpc_port=8011, metrics_port=8012)
    machine = Machine(os="ubuntu-24.04", gpu="h100-80", gpus=2)
    merged = gateway(plan(gateway=Gateway(), machine=machine, servers=(MAIN, second)))
    assert {model.servers for model in merged.models} == {("main", "two")}


def test_the_fingerprint_depends_on_the_servers_and_not_on_addresses() -> None:
    moved = gateway(plan(gateway=Gateway(ports=(9000,)), **main(grpc_port=8011)))
    shorter = gateway(plan(gateway=Gateway(), **main(RERANKER, EMBEDDER, replace(GPT_OSS, max_seq_len=4096))))
    assert gateway(plan(gateway=Gateway())).fingerprint == moved.fingerprint != shorter.fingerprint


def test_two_hosts_with_a_gateway_each_are_shown_once() -> None:
    made = plan(*sources("a", "b", gateway=Gateway()))
    assert printed(plan_report(made)).count("gateway http://127.0.0.1:8080, clients need a key: bge, gpt-oss-20b") == 1


def test_the_plan_with_a_gateway_is_plain_json() -> None:
    assert (
        json.loads(json.dumps(plan(gateway=Gateway()).to_json()))["hosts"]["h100-01"]["gateway"]["hold_seconds"] == 120
    )


def test_a_plan_without_tracing_has_no_setting_of_it() -> None:
    """Digests of older inventories do not change."""
    assert "trace" not in json.dumps(plan(gateway=Gateway()).slices[0].to_json())


def test_a_gateway_that_traces_says_how_often_and_its_servers_know() -> None:
    made = plan(gateway=Gateway(trace_one_in=1000))
    assert (gateway(made).trace_one_in, made.slices[0].servers[0].traces) == (1000, True)
    assert "; one request in 1,000 is traced" in printed(plan_report(made)).replace("\n", " ")


def test_another_share_of_traces_is_no_other_server() -> None:
    """A swap is needed for the first and the last trace, not for each change of the share."""
    often, rarely = (plan(gateway=Gateway(trace_one_in=share)).slices[0].servers for share in (1, 1000))
    assert often == rarely


def test_every_release_traces_only_the_gateways_requests() -> None:
    """`rate=0` has this meaning since core 2.42 (24.01)."""
    assert all(at_least(row.triton_core, "2.42.0") for row in RELEASES.values())
