"""The choice of the program that serves an LLM, and the plan of one beside Triton: flags, memory, notes, digests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.catalog import ARCHITECTURES
from deploy.catalog.runtimes import RUNTIMES, SERVE, TRITON, VLLM, row_of, rows_of
from deploy.models import runtimes
from deploy.models.files import weights_path
from deploy.models.memory import MIB
from deploy.models.runtimes import known_only, memory_fraction, suggested, verdicts
from deploy.planning.fit import FitOptions, fit_of, model_named
from deploy.planning.plan import Plan
from deploy.reports.plan import fit_report
from deploy.spec import Gateway, KVCache, Parallel, Release
from roles.triton.defaults import Defaults
from roles.triton.render import render
from tests.unit.samples import AROUND, EMBEDDER, LLAMA, MACHINE, RERANKER, main, plan
from tests.unit.test_report import printed
from tests.unit.wrong_runtimes import ADAPTERS, ON_VLLM
from tests.unit.wrong_runtimes import SERVE as SERVE_IMAGE

MINE = (RERANKER, EMBEDDER)


def planned(model: Any = ON_VLLM, gpus: int = 1, **changes: Any) -> Plan:
    """The plan of a host with two encoders in Triton and this LLM beside it."""
    data = main(*MINE, replace(model, **changes), gpus=tuple(range(gpus)))
    return plan(**data, gateway=Gateway(), machine=replace(MACHINE, gpus=gpus))


def arguments(**changes: Any) -> dict[str, str]:
    """Flags of the LLM's start line with their values."""
    llm = planned(**changes).slices[0].servers[0].models[-1]
    assert llm.runtime
    words, flags = llm.runtime.arguments[1:], dict[str, str]()
    for word, following in zip(words, (*words[1:], "--"), strict=True):
        if word.startswith("--"):
            flags[word] = "" if following.startswith("--") else following
    return flags


def test_memory_of_both_containers_fits_the_card_and_the_cache_takes_the_rest() -> None:
    server = planned().slices[0].servers[0]
    taken = server.overhead_mib + sum(model.memory.total_mib for model in server.models)
    usable = 81_079 - 2_048
    assert 0 <= usable - taken < 64
    assert arguments()["--kv-cache-memory-bytes"] == str(server.models[-1].memory.kv_cache_mib * MIB)


def test_a_declared_cache_is_the_cache() -> None:
    llm = planned(kv_cache=KVCache(tokens=65_536)).slices[0].servers[0].models[-1]
    assert (llm.kv_cache_tokens, llm.memory.kv_cache_mib) == (65_536, 8_192)


@pytest.mark.parametrize(("share", "total", "fraction"), [(73_137, 81_559, "0.89"), (10, 81_559, "0.01")])
def test_the_share_of_the_card_is_never_rounded_up(share: int, total: int, fraction: str) -> None:
    """vLLM compares it with the free memory at its start, of which encoders already use a part."""
    assert memory_fraction(share, total) == fraction


def test_an_llm_is_split_over_the_gpus_of_its_server() -> None:
    assert arguments(gpus=2)["--tensor-parallel-size"] == "2"
    split = arguments(gpus=2, parallel=Parallel(tensor=1, pipeline=2))
    assert (split["--tensor-parallel-size"], split["--pipeline-parallel-size"]) == ("1", "2")


def test_tenants_kept_apart_reuse_no_blocks() -> None:
    assert "--no-enable-prefix-caching" in arguments(kv_cache=KVCache(per_tenant=True))
    assert "--enable-prefix-caching" in arguments()


def test_precisions_become_the_program_s_own_words() -> None:
    assert arguments(precision="fp8")["--quantization"] == "fp8"
    assert arguments(precision="bfloat16")["--dtype"] == "bfloat16"
    assert not {"--quantization", "--dtype"} & arguments().keys()


def test_adapters_have_the_names_that_the_gateway_asks_for() -> None:
    """Each adapter has a separate directory, which the container reads."""
    made = planned(lora=ADAPTERS).slices[0]
    flags, llm = arguments(lora=ADAPTERS), made.servers[0].models[-1]
    assert (flags["--max-loras"], flags["--max-cpu-loras"], flags["--max-lora-rank"]) == ("2", "2", "64")
    named = dict(word.split("=", 1) for word in llm.runtime.arguments[-2:]) if llm.runtime else {}
    assert list(named.values()) == [weights_path(files) for files in llm.adapters]
    assert made.gateway
    aliases = {alias.name: (alias.models, alias.adapter) for alias in made.gateway.aliases if alias.adapter}
    assert aliases == {f"llama:{name}": (("llama",), name) for name in named}
    run = render(made.servers[0], Defaults())["llm/run"].decode()
    assert all(f"source={path},target={path},readonly" in run for path in named.values())


def test_a_flag_that_the_release_lacks_ends_the_plan() -> None:
    """TensorRT-LLM 1.2.1 has no telemetry and no option for the served name."""
    (old, new), name = rows_of(SERVE), ("--served_model_name", "llama")
    assert known_only(name, new) == name
    with pytest.raises(AssertionError, match=r"trtllm-serve 1\.2\.1 has no --served_model_name"):
        known_only(name, old)
    assert (old.knows("--no-telemetry"), new.knows("--no-telemetry")) == (False, True)


def test_switches_alone_may_be_turned_off() -> None:
    (row,) = rows_of(VLLM)
    assert (row.knows("--no-enable-prefix-caching"), row.knows("--no-max-model-len")) == (True, False)


@pytest.mark.parametrize(
    ("runtime", "tag", "version"),
    [
        (VLLM, "v0.26.0", "0.26.0"),
        (VLLM, "0.26.0-mine", "0.26.0"),
        (VLLM, "v0.26.01", ""),
        (SERVE, "1.2.1", "1.2.1"),
        (SERVE, "1.3.0rc29", "1.3.0rc29"),
        (SERVE, "1.3.0rc2", ""),
        (SERVE, "latest", ""),
    ],
)
def test_an_image_s_tag_names_the_release_whose_flags_are_known(runtime: str, tag: str, version: str) -> None:
    row = row_of(runtime, tag)
    assert (row.version if row else "") == version


def test_every_catalog_row_has_the_fields_of_a_plan() -> None:
    for row in RUNTIMES.values():
        assert row.image.rsplit(":", 1)[1].removeprefix("v") == row.version
        assert row.metrics.path.startswith("/") and row.metrics.answers and row.metrics.generated_tokens


@pytest.mark.parametrize(
    ("architecture", "serving", "first"),
    [
        ("LlamaForCausalLM", [TRITON, SERVE, VLLM], TRITON),
        ("GptOssForCausalLM", [TRITON, VLLM], TRITON),
        ("GPT2LMHeadModel", [TRITON, VLLM], TRITON),
    ],
)
def test_each_program_says_in_a_line_whether_it_serves_a_model(
    architecture: str, serving: list[str], first: str
) -> None:
    judged = verdicts(ARCHITECTURES[architecture], "1.2.1")
    assert [verdict.runtime for verdict in judged] == [TRITON, SERVE, VLLM]
    assert [verdict.runtime for verdict in judged if verdict.serves] == serving
    assert all(verdict.reason and "\n" not in verdict.reason for verdict in judged)
    assert suggested(ARCHITECTURES[architecture], "1.2.1") == first


def test_a_model_that_only_newer_releases_know_is_suggested_to_trtllm_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = replace(ARCHITECTURES["LlamaForCausalLM"], name="LatestForCausalLM", pytorch_since="1.3", engine=False)
    assert suggested(newer, "1.2.1") == SERVE
    monkeypatch.setattr(runtimes, "VLLM_ARCHITECTURES", frozenset(["LatestForCausalLM"]))
    nowhere = replace(newer, pytorch_since="9.0")
    assert suggested(nowhere, "1.2.1") == VLLM


def test_a_plan_notes_an_image_beside_triton_that_is_not_pinned() -> None:
    unpinned = "the image of llama is not pinned: `enginehouse pin INVENTORY` asks the registry and writes its digest"
    assert unpinned in planned().warnings
    pinned_image = f"{ON_VLLM.image}@sha256:{'a' * 64}"
    plan_of_pinned = planned(image=pinned_image)
    assert not [note for note in plan_of_pinned.warnings if "image of llama" in note]
    (image,) = plan_of_pinned.slices[0].runtime_images
    assert image.pull_reference == f"vllm/vllm-openai@sha256:{'a' * 64}"


def test_both_images_are_counted_on_the_disk() -> None:
    """Each image counts three times, because Docker keeps the download and the unpacked layers."""
    alone = plan(**main(*MINE, LLAMA), gateway=Gateway()).slices[0].disk_needed_mib
    assert planned().slices[0].disk_needed_mib - alone == 3 * rows_of(VLLM)[0].size_mib


def test_an_image_of_the_same_digest_under_another_name_takes_no_room_of_its_own() -> None:
    """Docker stores its layers once."""
    digest = f"sha256:{'b' * 64}"
    release = Release(name="mine", derived_from="26.07", image="r.io/triton:1", digest=digest, size_mib=9000)
    same, different = (f"{ON_VLLM.image}@sha256:{letter * 64}" for letter in "bc")
    data = {image: main(*MINE, replace(ON_VLLM, image=image)) for image in (same, different)}
    room = {
        image: plan(**placed, gateway=Gateway(), release=release).slices[0].disk_needed_mib
        for image, placed in data.items()
    }
    assert room[different] - room[same] == 3 * rows_of(VLLM)[0].size_mib


def test_a_host_without_one_has_the_plan_it_had() -> None:
    """The plan has no field for such programs, so digests of older inventories do not change."""
    shown = str(plan(**main(*MINE, LLAMA), gateway=Gateway()).slices[0].to_json())
    assert "runtime" not in shown and "llm_port" not in shown


def test_a_changed_flag_is_another_digest() -> None:
    assert planned().digest != planned(max_batch_size=16).digest
    assert planned().digest != planned(runtime="trtllm-serve", image=SERVE_IMAGE).digest


@pytest.mark.parametrize("runtime", [VLLM, SERVE])
def test_fit_shows_an_llm_beside_triton_and_other_possible_runtimes(runtime: str) -> None:
    models = tuple(model_named(name) for name in ("llama-3.1-8b-instruct", "bge-reranker-large"))
    fitted = fit_of("h100-80", models, "26.07", AROUND, FitOptions(runtime=runtime))
    assert fitted.cache_tokens > 400_000
    text = printed(fit_report(fitted))
    assert [line.split()[:2] for line in text.splitlines()[-3:]] == [["triton", "yes"], [SERVE, "yes"], ["vllm", "yes"]]


def test_an_architecture_that_triton_lacks_is_offered_the_program_that_has_it() -> None:
    lacking = replace(ARCHITECTURES["LlamaForCausalLM"], pytorch_since="1.3", engine=False)
    assert runtimes.runtime_instead(LLAMA, lacking, "1.2.1") == "vllm", "a release before a candidate"
    assert runtimes.runtime_instead(LLAMA, replace(lacking, name="Latest"), "1.2.1") == "trtllm-serve"
    assert runtimes.image_for("trtllm-serve", lacking) == "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc29"
