"""A group of hosts serves one model: the plan has every rank's layers and memory, and one report has all mistakes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deploy.models.stages import layers_of_stages
from deploy.planning.groups import groups_in_part, not_exported
from deploy.planning.plan import Plan
from deploy.reports.plan import plan_report
from deploy.slices.group import GroupSlice
from deploy.spec import Firewall, Machine, Parallel
from tests.unit.golden import same_as_golden
from tests.unit.grouped import ETHERNET, GROUPS, LLAMA_405B, SERVE, VLLM, changed, group, model, named, with_model
from tests.unit.samples import Source, plan, refusals
from tests.unit.test_report import printed

EACH = pytest.mark.parametrize("name", sorted(GROUPS))
LLAMA = GROUPS["llama_405b_fp8_tp8_pp2"]
MIXTRAL = GROUPS["mixtral_8x22b_ep4_2x4_h100"]
PROGRAMS = {"vllm": VLLM, "trtllm-serve": SERVE}
"""Image by program."""


def parts(planned: Plan) -> list[GroupSlice]:
    """The group of each host of a plan."""
    runtimes = [model.runtime for slice_ in planned.slices for server in slice_.servers for model in server.models]
    return [runtime.group for runtime in runtimes if runtime and runtime.group]


def kinds(sources: list[Source]) -> set[str]:
    """The kinds of all refusals of an inventory."""
    return {refusal.kind for refusal in refusals(*sources)}


@EACH
def test_the_plan_of_a_group_shows_ranks_layers_and_memory_of_every_host(name: str) -> None:
    same_as_golden(f"groups/{name}.txt", printed(plan_report(plan(*GROUPS[name]))))


@EACH
def test_every_layer_and_every_expert_is_on_exactly_one_stage(name: str) -> None:
    ranks = [rank for part in parts(plan(*GROUPS[name])) for rank in part.ranks]
    first = parts(plan(*GROUPS[name]))[0]
    assert [rank.rank for rank in ranks] == list(range(first.tensor * first.pipeline))
    stages = sorted({rank.layers for rank in ranks})
    assert [start for start, _end in stages[1:]] == [end + 1 for _start, end in stages[:-1]]
    assert stages[0][0] == 0 and len(stages) == first.pipeline


@EACH
def test_no_rank_of_a_group_has_more_than_its_gpu(name: str) -> None:
    planned = plan(*GROUPS[name])
    for slice_ in planned.slices:
        server = slice_.servers[0]
        group_ = server.models[0].runtime.group if server.models[0].runtime else None
        assert group_ and all(rank.total_mib + server.overhead_mib + 2048 <= 143_771 for rank in group_.ranks)
        assert server.models[0].memory.total_mib == max(rank.total_mib for rank in group_.ranks)


def test_405b_in_fp8_takes_24_442_mib_of_weights_on_each_of_16_gpus() -> None:
    """Calculated by hand: half of the layers' 401,650,696,192 bytes and the 4,202,692,608 of table or head, over 8
    GPUs."""
    weights = {rank.weights_mib for part in parts(plan(*LLAMA)) for rank in part.ranks}
    assert weights == {-(-(401_650_696_192 // 2 + 4_202_692_608) // 8 // 2**20)} == {24_442}


@pytest.mark.parametrize(
    ("layers", "stages", "runtime", "counts"),
    [
        (126, 2, "vllm", [63, 63]),
        (61, 2, "vllm", [31, 30]),
        (94, 4, "vllm", [23, 24, 24, 23]),
        (95, 4, "vllm", [24, 24, 24, 23]),
        (94, 4, "trtllm-serve", [24, 24, 23, 23]),
        (61, 1, "vllm", [61]),
    ],
)
def test_layers_are_split_as_the_program_splits_them(layers: int, stages: int, runtime: str, counts: list[int]) -> None:
    """The expected splits come from vLLM's get_pp_indices and TensorRT-LLM's pp_layers, run by hand."""
    assert [end - start + 1 for start, end in layers_of_stages(layers, stages, runtime)] == counts


def test_hosts_of_a_group_start_one_program_each_and_only_the_first_answers() -> None:
    programs = [slice_.servers[0].models[0].runtime for slice_ in plan(*LLAMA).slices]
    lines = [" ".join(program.arguments) for program in programs if program]
    assert all("--nnodes 2" in line and "--master-addr 10.0.8.1 --master-port 29502" in line for line in lines)
    assert ["--headless" in line for line in lines] == [False, True]
    assert [line.split("--node-rank ")[1][0] for line in lines] == ["0", "1"]
    assert lines[0].partition(" --distributed")[0] == lines[1].partition(" --distributed")[0]
    assert [dict(program.environment)["VLLM_HOST_IP"] for program in programs if program] == ["10.0.8.1", "10.0.8.2"]


def test_experts_of_a_group_stay_whole_where_the_inventory_says_so() -> None:
    part, program = parts(plan(*MIXTRAL))[0], plan(*MIXTRAL).slices[0].servers[0].models[0].runtime
    assert program and "--enable-expert-parallel" in program.arguments
    assert {rank.experts for rank in part.ranks} == {2}


def test_a_group_is_one_unit_of_pool_and_wave() -> None:
    planned = plan(*LLAMA)
    assert planned.waves == (named(),)
    assert [pool.units for pool in planned.pools] == [(named(),)]


def test_one_report_has_every_mistake_of_a_group() -> None:
    """The second host has another GPU, no network, no firewall, its own image and no address."""
    larger = Machine(os="ubuntu-24.04", gpu="h200-141", gpus=8, nvswitch=True)
    wrong = changed(LLAMA, 1, machine=larger, firewall=Firewall(), peer_address="", image_digest="sha256:" + "a" * 64)
    assert {
        "group-unequal",
        "group-without-fabric",
        "group-without-firewall",
        "group-without-address",
    } <= kinds(wrong)
    unequal = [str(refusal.facts["seen"]) for refusal in refusals(*wrong) if refusal.kind == "group-unequal"]
    assert len(unequal) == 3 and all("gpu-01" in text and "gpu-02" in text for text in unequal)
    same_as_golden("groups/wrong.txt", "\n\n".join(str(refusal) for refusal in refusals(*wrong)) + "\n")


@pytest.mark.parametrize(
    ("hosts", "kind"),
    [
        (("gpu-01", "gpu-09"), "group-member-missing"),
        (("gpu-01",), "group-names"),
        (("gpu-01", "gpu-01"), "group-names"),
        (("gpu-01", "elsewhere"), "group-without-this-host"),
    ],
)
def test_the_names_of_a_group_are_hosts_of_the_inventory(hosts: tuple[str, ...], kind: str) -> None:
    assert kind in kinds(with_model(LLAMA, parallel=Parallel(tensor=8, pipeline=2, hosts=hosts)))


def test_ranks_are_as_many_as_the_gpus_of_all_hosts() -> None:
    wrong = refusals(*with_model(LLAMA, parallel=Parallel(tensor=8, pipeline=1, hosts=named())))
    assert [refusal.attempt for refusal in wrong if refusal.kind == "parallel-not-gpus"] == [
        "tensor=8, pipeline=2: every host is a stage"
    ]


def test_triton_serves_no_group() -> None:
    assert "group-of-triton" in kinds(with_model(LLAMA, runtime="triton", image=""))


def test_hosts_that_say_no_tensor_get_all_gpus_of_the_group() -> None:
    planned = parts(plan(*with_model(LLAMA, parallel=Parallel(pipeline=2, hosts=named()))))
    assert (planned[0].tensor, planned[0].pipeline) == (8, 2)


def test_plain_ethernet_for_tensor_parallelism_is_noted_with_its_cost() -> None:
    """By hand: 126 layers x 2 all-reduces x 256 MiB x 2 x 1/2: 64,512 MiB, 21,647 ms at 25 Gbit/s."""
    llm = model("llama", LLAMA_405B, parallel=Parallel(tensor=16, hosts=named()))
    planned = plan(*group(llm, "h100-80", 8, ETHERNET))
    assert any("plain Ethernet of 25 Gbit/s" in warning for warning in planned.warnings)
    assert (parts(planned)[0].sent.tensor_mib, parts(planned)[0].sent.milliseconds) == (64_512, 21_647)
    assert not any("plain Ethernet" in warning for warning in plan(*group(llm, "h100-80", 8)).warnings)


def test_an_image_that_cannot_measure_the_network_is_named() -> None:
    """TensorRT-LLM's has nccl-tests, which run before the first start."""
    plans = {runtime: plan(*with_model(LLAMA, runtime=runtime, image=image)) for runtime, image in PROGRAMS.items()}
    noted = {name: any("nccl-tests" in warning for warning in planned.warnings) for name, planned in plans.items()}
    assert noted == {"vllm": True, "trtllm-serve": False}


def test_no_group_is_exported() -> None:
    """A Pod and a first boot start each host by itself."""
    for runtime, image in PROGRAMS.items():
        planned = plan(*with_model(LLAMA, runtime=runtime, image=image))
        assert parts(planned)[1].number == 1
        assert [refusal.kind for refusal in not_exported(planned.slices)] == ["group-not-exported"]


def test_open_mpi_starts_ranks_at_addresses_of_ipv4_alone() -> None:
    sources = with_model(LLAMA, runtime="trtllm-serve", image=SERVE)
    assert "group-wants-ipv4" not in kinds(sources)
    assert "group-wants-ipv4" in kinds(changed(sources, 1, peer_address="fd00::2"))
    assert "group-wants-ipv4" not in kinds(changed(LLAMA, 1, peer_address="fd00::2"))


def test_a_run_has_a_group_whole_or_not_at_all() -> None:
    planned = plan(*LLAMA)
    assert groups_in_part(planned.slices) == groups_in_part(()) == []
    (refused,) = groups_in_part(planned.only(["gpu-02"]).slices)
    assert refused.attempt == "--limit gpu-01 --limit gpu-02"


def test_a_fleet_without_a_group_has_no_word_of_one_in_its_plan() -> None:
    """The digests of older inventories do not change."""
    alone = with_model(group(model("m", replace(LLAMA_405B, layers=8, parameters=30_000_000_000)), "h100-80", 8)[:1])
    machine = Machine(os="ubuntu-24.04", gpu="h100-80", gpus=8)
    text = json.dumps(plan(*changed(alone, 0, firewall=None, machine=machine)).to_json())
    assert not any(f'"{word}":' in text for word in ("fabric", "group", "environment"))


def test_a_host_of_a_group_is_not_repaired_by_itself() -> None:
    """The other hosts of the group would stop serving with it."""
    sources = [
        replace(source, data=source.data | {"machine": replace(source.data["machine"], repair="reset")})
        if "machine" in source.data
        else source
        for source in LLAMA
    ]
    assert "repair-in-a-group" in kinds(sources)
