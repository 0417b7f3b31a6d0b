"""Files of the gateway role: the settings that the gateway reads, and the units that run it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from deploy.spec import Gateway, GatewayLimits
from gateway.settings import settings_of
from roles.gateway.programs import unit
from roles.gateway.settings import grpc, rendered
from tests.roles.gateway.gateways import INVENTORIES, h100, with_gateway
from tests.roles.slices import SERVER
from tests.roles.triton.llm_servers import EVERY, host_with
from tests.unit.golden import same_as_golden


def test_the_settings_of_the_shipped_inventory_are_the_reviewed_ones() -> None:
    same_as_golden("gateway/settings.json", rendered(*h100()))


def test_the_unit_of_the_shipped_inventory_is_the_reviewed_one() -> None:
    """Digests in it are excluded, because they change with every edit of the programs."""
    same_as_golden(
        "gateway/enginehouse-gateway@.service", re.sub(r"\b[0-9a-f]{16}\b", "DIGEST", unit(h100()[1]).content)
    )


def test_a_process_begins_anew_for_another_port_and_not_for_another_limit() -> None:
    """The mark of its start decides: a port is read once, limits again and again."""
    limits = GatewayLimits(inputs=1)
    marks = [unit(h100(gateway)[1]).content for gateway in (Gateway(), Gateway(limits=limits), Gateway(ports=(9000,)))]
    assert marks[0] == marks[1] != marks[2]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_the_gateway_accepts_the_settings_of_every_shipped_inventory(inventory: str) -> None:
    """Every model and server of every host is read by the program's own reader."""
    for mine in with_gateway(inventory):
        assert mine.gateway
        read = settings_of(json.loads(rendered(mine, mine.gateway)))
        assert read.hosts == len(with_gateway(inventory))
        assert set(read.models) == {model.name for server in mine.servers for model in server.models}
        own = {f"{mine.host}/{server.name}" for server in mine.servers}
        own |= {f"{mine.host}/{server.name}/llm" for server in mine.servers if server.standalone_llm}
        assert set(read.servers) == own | {server.name for server in mine.gateway.others}


def test_an_operator_s_gateway_settings_reach_the_program() -> None:
    declared = Gateway(
        ports=(9000, 9001), keys=None, hold_seconds=7, drain_seconds=8, limits=GatewayLimits(body_mib=1, held=9)
    )
    declared = replace(declared, trace_one_in=50, limits=replace(declared.limits, tenant_bodies_mib=2, bodies_mib=3))
    read = settings_of(json.loads(rendered(*h100(declared))))
    assert (read.listen.ports, read.listen.drain_seconds, read.hold_seconds, read.trace_one_in) == (
        (9000, 9001),
        8,
        7,
        50,
    )
    assert (read.keys_file, read.limits.body_bytes, read.limits.held) == ("", 2**20, 9)
    assert (read.limits.tenant_bodies_bytes, read.limits.bodies_bytes) == (2 * 2**20, 3 * 2**20)


def test_pages_are_in_plan_and_settings_only_if_an_operator_turns_them_off() -> None:
    """Digests and settings of older inventories do not change."""
    mine, default = h100(Gateway())
    changed, off = h100(Gateway(pages=False))
    assert "pages" not in json.dumps(mine.to_json()) + rendered(mine, default)
    assert settings_of(json.loads(rendered(mine, default))).pages
    assert not settings_of(json.loads(rendered(changed, off))).pages


def test_behind_a_balancer_a_server_is_asked_itself_whether_it_is_ready() -> None:
    """The server's host reports `drain` while requests from the balancer still arrive; by that report, clients would
    wait long."""
    mine, gateway = h100(Gateway(url="https://llm.example.com"))
    (alone,) = settings_of(json.loads(rendered(mine, gateway))).servers.values()
    read = settings_of(json.loads(rendered(mine, replace(gateway, is_behind_balancer=True))))
    (behind,) = read.servers.values()
    assert (bool(alone.ready_url), behind.ready_url, read.url) == (True, "", "https://llm.example.com")


def test_an_llm_beside_triton_is_asked_over_http_and_the_encoders_over_grpc() -> None:
    (mine,) = with_gateway("h100_vllm")
    assert mine.gateway
    same_as_golden("gateway/settings-vllm.json", rendered(mine, mine.gateway))
    read = settings_of(json.loads(rendered(mine, mine.gateway)))
    (triton, llm), name = read.servers.values(), "llama-3.1-8b-instruct"
    assert (llm.http, llm.runtime, llm.version, llm.ready_url) == ("127.0.0.1:8010", "vllm", "0.26.0", triton.ready_url)
    assert (read.models[name].servers, read.models[name].triton_model) == ((llm.name,), name)
    assert read.models["bge-reranker-large"].servers == (triton.name,)


@pytest.mark.parametrize(("runtime", "image"), EVERY)
def test_the_gateway_reads_the_settings_of_every_runtime(runtime: str, image: str) -> None:
    """Salts, parsers and formats: the gateway refuses the whole file for a setting that the program lacks."""
    mine = host_with(runtime, image)
    assert mine.gateway
    read = settings_of(json.loads(rendered(mine, mine.gateway)))
    assert [server.runtime for server in read.servers.values()] == ["", runtime]
    assert read.models["llama-3.1-8b-instruct"].salts is (runtime == "vllm")
    assert bool(read.salt_file) is bool(mine.gateway.keys), "the program of the next swap may take salts"


def test_one_llm_in_two_lengths_has_one_name() -> None:
    """The gateway accepts these settings: both engines have the same files."""
    (mine,) = with_gateway("two_lengths", Gateway(aliases={"llama": ("llama-128k", "llama-8k")}))
    assert mine.gateway
    alias = settings_of(json.loads(rendered(mine, mine.gateway))).aliases["llama"]
    assert (alias.model, alias.shorter) == ("llama-128k", ("llama-8k",))


@pytest.mark.parametrize(
    ("listens", "address"),
    [
        ("127.0.0.1", "127.0.0.1:8001"),
        ("0.0.0.0", "127.0.0.1:8001"),
        ("10.0.0.11", "10.0.0.11:8001"),
        ("::", "[::1]:8001"),
        ("fd00::5", "[fd00::5]:8001"),
    ],
)
def test_a_server_is_asked_where_it_listens(listens: str, address: str) -> None:
    assert grpc(replace(SERVER, address=listens)) == address
