"""The plan: same inventory, same plan; waves, digest, expectation, warnings, the shipped inventory's golden file."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from deploy.inventory.fleet import Fleet
from deploy.io.inventory import load_inventory, planned
from deploy.planning.plan import make_plan
from deploy.refusals.errors import Refusal
from deploy.spec import LLM, Driver, Host, KVCache, Release, Rollout, Weights
from deploy.spec.surroundings import LocalWeights, Surroundings
from deploy.topology.waves import pools_of, waves
from tests.unit.golden import same_as_golden
from tests.unit.samples import AROUND, GPT_OSS, LLAMA, MACHINE, MAIN, TODAY, main, plan, refusals, sources

INVENTORY = str(Path(__file__).parents[2] / "inventories" / "h100.py")
FORTY = [f"h100-{number:02}" for number in range(1, 41)]


def test_the_shipped_inventory_has_this_plan() -> None:
    """The golden file has the whole plan: its diff shows what a re-run would change."""
    shipped = make_plan(Fleet.of(load_inventory(INVENTORY, {})), AROUND)
    same_as_golden("h100.plan.json", json.dumps(shipped.to_json(), indent=2, ensure_ascii=False) + "\n")


def test_the_same_inventory_gives_the_same_digest() -> None:
    """The digest does not depend on the day or the order."""
    other_day = replace(AROUND, today=date(2026, 12, 1))
    assert plan(*sources("a", "b")).digest == plan(*reversed(sources("a", "b")), around=other_day).digest


def test_a_digest_cannot_be_read_as_a_number() -> None:
    """pyinfra reads `--data` values as JSON: plain hex digits such as 12e45 would arrive as a number."""
    assert plan().digest.startswith("plan-")


def test_another_plan_than_the_expected_is_refused() -> None:
    """The refusal has the digest to type."""
    with pytest.raises(Refusal) as refused:
        plan(expect="plan-0123456789abcdef")
    assert (refused.value.kind, refused.value.facts["wanted"]) == ("unexpected-plan", "plan-0123456789abcdef")


def test_the_expected_plan_is_made() -> None:
    """The expectation itself is not part of the digest."""
    assert plan(expect=plan().digest).digest == plan().digest


def test_forty_hosts_go_canary_first_then_in_quarters() -> None:
    """The canary is one host; a quarter is 25 percent of the other 39 hosts, rounded up."""
    assert [len(wave) for wave in plan(*sources(*FORTY)).waves] == [1, 10, 10, 10, 9]


def test_a_single_host_is_a_single_wave() -> None:
    """The only host is the canary."""
    assert plan().waves == (("h100-01",),)


def test_a_rollout_without_canaries_is_possible() -> None:
    """The first share then comes first."""
    rollout = Rollout(canary_hosts=0, wave_percent=50)
    assert waves(pools_of([("b", ""), ("a", "")], rollout), rollout) == (("a",), ("b",))


def test_a_limited_plan_keeps_its_digest_and_order() -> None:
    """`--limit` only shows fewer hosts; the plan is made for all."""
    whole = plan(*sources(*FORTY))
    some = whole.only(["h100-01", "h100-30"])
    assert (some.digest, some.hosts, some.waves) == (
        whole.digest,
        ("h100-01", "h100-30"),
        (("h100-01",), ("h100-30",)),
    )


def test_encoders_load_before_the_llm() -> None:
    """The order of the inventory does not matter; the LLM's cache takes the remaining memory."""
    server = plan(**main(GPT_OSS, *MAIN.models[:2])).for_host("h100-01").servers[0]
    assert [model.name for model in server.models] == ["bge", "nomic", "gpt-oss-20b"]


def test_debian_takes_the_driver_from_nvidia() -> None:
    """Canonical's signed modules exist on Ubuntu only."""
    assert plan(machine=replace(MACHINE, os="debian-12")).for_host("h100-01").driver.source == "nvidia"


def test_fabric_manager_comes_with_nvswitches_only() -> None:
    """A single GPU of a board needs none in the guest."""
    managers = [
        plan(machine=replace(MACHINE, gpus=8, nvswitch=seen)).for_host("h100-01").driver.fabric_manager
        for seen in (False, True)
    ]
    assert managers == [False, True]


def test_disk_counts_the_image_three_times_weights_once_and_headroom() -> None:
    """Image 3 x 13,543 MiB, weights 2,136, 1,814 and 13,124, headroom 8,192."""
    assert plan().for_host("h100-01").disk_needed_mib == 65_895


def test_an_image_of_one_s_own_size_asks_for_its_own_room() -> None:
    """The room is smaller by three times the difference of the image sizes, 13,543 and 1,000 MiB."""
    small = Release(name="ours", derived_from="26.07", size_mib=1_000)
    assert plan(release=small).for_host("h100-01").disk_needed_mib == 65_895 - 37_629


def test_a_derived_release_replaces_only_its_named_fields() -> None:
    """A repaired image on a mirror with an older Triton core; CUDA is the row's."""
    own = Release(
        name="ours",
        derived_from="26.07",
        image="mirror.example/triton:1",
        digest="sha256:" + "a" * 64,
        triton_core="2.51.0",
        repairs=("openai",),
    )
    image = plan(release=own).for_host("h100-01").image
    assert (image.pull_reference, image.triton_core, image.trtllm, image.cuda, image.repairs) == (
        "mirror.example/triton@sha256:" + "a" * 64,
        "2.51.0",
        "1.2.1",
        "13.1.0",
        (),
    )


def test_a_digest_beside_a_derived_release_pins_it() -> None:
    """`enginehouse pin` writes image_digest for every release."""
    digest = "sha256:" + "b" * 64
    image = plan(release=Release(name="ours", derived_from="26.07"), image_digest=digest).for_host("h100-01").image
    assert image.digest == digest


def test_local_weights_are_named_by_their_headers() -> None:
    """Each set of local files has its own directory on the host."""
    local = LocalWeights(revision="local-0123", stored_bytes=2**30, parameters=2**29, files=("model.safetensors",))
    model = replace(GPT_OSS, weights=Weights.local("weights/gpt"))
    around = Surroundings(today=TODAY, local={"weights/gpt": local})
    weights = plan(around=around, **main(model)).for_host("h100-01").weights[0]
    assert (weights.revision, weights.size_mib, weights.fetch_on) == ("local-0123", 1024, "control")


def test_an_inventorys_own_file_list_replaces_the_default() -> None:
    """The checkpoint has other file names."""
    weights = replace(GPT_OSS.weights, files=("config.json", "*.safetensors"))
    assert plan(**main(replace(GPT_OSS, weights=weights))).for_host("h100-01").weights[0].files == (
        "config.json",
        "*.safetensors",
    )


def test_two_servers_of_one_model_share_its_files() -> None:
    """Eight servers on eight GPUs download once."""
    servers = tuple(
        replace(
            MAIN,
            name=f"gpu{n}",
            gpus=(n,),
            http_port=8000 + 10 * n,
            grpc_port=8001 + 10 * n,
            metrics_port=8002 + 10 * n,
        )
        for n in range(8)
    )
    host = plan(machine=replace(MACHINE, gpus=8), servers=servers).for_host("h100-01")
    assert (len(host.servers), len(host.weights)) == (8, 3)


def test_a_branch_that_ends_within_90_days_warns() -> None:
    """Driver branch 590 ends on 31 December 2026."""
    assert plan(driver=Driver(branch="590")).warnings[0] == (
        "driver branch 590 ends on 2026-12-31, in 40 days; 580 lasts to 2028"
    )


def test_a_branch_on_its_last_day_warns_and_the_day_after_is_refused() -> None:
    """The last day is included in the support."""
    inventory = sources(driver=Driver(branch="590"))
    last, after = (replace(AROUND, today=date(2026, 12, 31)), replace(AROUND, today=date(2027, 1, 1)))
    assert (refusals(*inventory, around=last), [problem.kind for problem in refusals(*inventory, around=after)]) == (
        [],
        ["ended-driver-branch"],
    )


def test_an_older_branch_than_the_image_bundles_is_noted() -> None:
    """The host has branch 580, and the image was built with 590."""
    assert "release 26.07 bundles driver 590.44.01" in plan().warnings[0]


def test_a_pinned_image_needs_no_reminder() -> None:
    assert not [warning for warning in plan(image_digest="sha256:" + "a" * 64).warnings if "not pinned" in warning]


def test_a_plan_is_made_once_for_all_hosts() -> None:
    """pyinfra runs deploy.py once for every host."""
    inventory = load_inventory(INVENTORY, {})
    first, second = (planned(inventory, host) for host in [*inventory, *inventory])
    assert first is second


def test_tensor_parallel_follows_the_gpus_of_the_server() -> None:
    """The model is split four ways, and each GPU holds a quarter of the weights."""
    data = main(LLAMA, gpus=(0, 1, 2, 3)) | {"machine": replace(MACHINE, gpus=4)}
    model = plan(**data).for_host("h100-01").servers[0].models[0]
    assert (model.settings["tensor_parallel_size"], model.memory.weights_mib) == (4, 3_830)


def test_an_impossible_slice_is_our_mistake_and_no_refusal() -> None:
    """Validation comes first; an undecidable slice after it is a defect of this project."""
    from deploy.planning.plan import host_slice

    with pytest.raises(AssertionError):
        host_slice(Host(name="a", machine=MACHINE, servers=(MAIN,), release="99.99"), AROUND)


def test_the_llm_with_the_remaining_memory_loads_last() -> None:
    """Of two LLMs, one has a number of tokens, and the other takes the remaining memory."""
    small = LLM(
        name="small",
        checkpoint="qwen3-8b",
        weights=Weights.hub("Qwen/Qwen3-8B", "0" * 40),
        kv_cache=KVCache(tokens=65_536),
    )
    models = plan(**main(GPT_OSS, small)).for_host("h100-01").servers[0].models
    assert [model.kv_cache_tokens for model in models] == [65_536, 262_144]
