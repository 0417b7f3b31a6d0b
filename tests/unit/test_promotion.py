"""An LLM's promotion: its plan equals that of the changed inventory, and its page lists the changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deploy.__main__ import main as enginehouse
from deploy.inventory.fleet import Fleet
from deploy.inventory.promotion import Promotion, promoted
from deploy.planning.plan import Plan, make_plan
from deploy.reports.promotion import promotion_report
from deploy.rollout.promotion import compared_lines
from deploy.slices.host import ReplaySlice
from deploy.spec import LLM, Gateway, Replay
from roles.triton.judging import replay_of
from tests.unit.golden import same_as_golden
from tests.unit.samples import AROUND, EMBEDDER, LLAMA, RERANKER, main, plan, sources
from tests.unit.test_report import printed
from tests.unit.wrong_runtimes import JUDGED, ON_VLLM, SERVE, VLLM

JUDGED_ON_VLLM = replace(ON_VLLM, replay=JUDGED)
PROGRAMS = {
    "trtllm-serve": replace(JUDGED_ON_VLLM, runtime="trtllm-serve", image=SERVE),
    "vllm": JUDGED_ON_VLLM,
    "triton": replace(JUDGED_ON_VLLM, runtime="triton", image=""),
}


def planned(model: LLM, **data: Any) -> Plan:
    """The plan of a host with this LLM."""
    return plan(**main(RERANKER, EMBEDDER, model), gateway=Gateway(), **data)


@pytest.mark.parametrize("runtime", PROGRAMS)
@pytest.mark.parametrize("now", PROGRAMS)
def test_the_plan_of_a_promotion_is_that_of_the_inventory_with_the_same_words(now: str, runtime: str) -> None:
    """The inventory's next run then changes nothing."""
    if now != runtime:
        promotion = planned(PROGRAMS[now], promote=f"llama:{runtime}")
        assert promotion.digest == planned(PROGRAMS[runtime]).digest != planned(PROGRAMS[now]).digest


def test_a_promotion_names_its_image_after_its_program() -> None:
    image = f"registry.example:5000/mine/release:1.2.1@sha256:{'a' * 64}"
    assert Promotion.to("llama", "trtllm-serve", image).word == f"llama:trtllm-serve:{image}"
    llm = planned(JUDGED_ON_VLLM, promote=f"llama:trtllm-serve:{image}").slices[0].servers[0].models[-1]
    assert llm.runtime and llm.runtime.image.pull_reference == image.replace(":1.2.1@", "@")


def test_another_image_of_the_same_program_is_a_promotion() -> None:
    """A new release of the program is compared with the old release."""
    fleet = Fleet.of(sources(**main(JUDGED_ON_VLLM), gateway=Gateway()))
    hosts, problems = promoted(fleet.hosts, f"llama:vllm:{VLLM}-mine")
    assert not problems and hosts[0].servers[0].standalone_llms[0].image == f"{VLLM}-mine"


def test_every_host_that_serves_the_model_has_it_on_the_new_program() -> None:
    hosts = sources("h100-01", "h100-02", **main(RERANKER, JUDGED_ON_VLLM), gateway=Gateway(), promote="llama:triton")
    made = make_plan(Fleet.of(hosts), AROUND)
    assert [slice_.servers[0].standalone_llm for slice_ in made.slices] == [None, None]


@pytest.mark.parametrize("runtime", ["trtllm-serve", "triton"])
def test_the_page_of_a_promotion_is_the_reviewed_one(runtime: str) -> None:
    promotion = Promotion.to("llama", runtime)
    then = planned(JUDGED_ON_VLLM, promote=promotion.word)
    report = promotion_report(planned(JUDGED_ON_VLLM), then, promotion, "inventory.py")
    same_as_golden(f"promotion/{runtime}.txt", printed(report))


def test_the_page_of_an_unjudged_promotion_says_so() -> None:
    none = replace(JUDGED_ON_VLLM, replay=Replay.none(reason="our own evaluation has"))
    promotion = Promotion.to("llama", "trtllm-serve")
    report = printed(promotion_report(planned(none), planned(none, promote=promotion.word), promotion, "inventory.py"))
    assert "judged  not judged: the inventory says Replay.none" in report


def test_the_verb_prints_the_export_or_the_plans_refusal() -> None:
    words = ["promote", "inventories/h100_vllm.py", "llama-3.1-8b-instruct", "--to", "trtllm-serve"]
    done = CliRunner().invoke(enginehouse, words)
    assert done.exit_code == 1 and "although its answers there were never compared" in done.output


def test_a_replay_changes_no_answer_of_the_gateway() -> None:
    """The gateway's fingerprint does not change, so balancers treat hosts with and without a replay alike."""
    plans = [planned(model).slices[0].gateway for model in (ON_VLLM, JUDGED_ON_VLLM)]
    assert plans[0] and plans[1] and plans[0].fingerprint == plans[1].fingerprint


def test_an_llm_without_a_replay_has_the_digest_that_it_had() -> None:
    slice_ = planned(replace(LLAMA, path="pytorch")).slices[0]
    assert "replay" not in str(slice_.to_json()["servers"])


def test_prompts_and_limits_reach_the_host_and_stored_files_stay(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a"}\n\n{"prompt": "b"}\n')
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "1+1=", "expected": "2"}\n')
    files = Replay(
        prompts=f"{tmp_path}/prompts.jsonl", tasks=f"{tmp_path}/tasks.jsonl", minimum_percent=80, equal_percent=95
    )
    server = planned(replace(ON_VLLM, replay=files, max_batch_size=8)).slices[0].servers[0]
    assert isinstance(server.models[-1].replay, ReplaySlice)
    assert replay_of(server) == {
        "model": "llama",
        "prompts": ["a", "b"],
        "tasks": [{"prompt": "1+1=", "expected": "2"}],
        "max_tokens": 64,
        "equal_percent": 95.0,
        "minimum_percent": 80.0,
        "streams": 8,
        "gpus": 1,
    }


def test_figures_of_both_programs_and_their_cost_are_shown() -> None:
    load = {"streams": 8, "requests": 16, "first_token_p50_ms": 41.0, "first_token_p95_ms": 80.5}
    compared = {"model": "llama", "equal_percent": 93.75, "equal_wanted": 90.0, "unit": "words", "count": 1024}
    compared |= {"tasks": 20, "met": 18, "met_before": 19, "met_wanted": 80.0, "gpus": 2}
    compared |= {"before": load | {"tokens_per_second": 1000.0}, "now": load | {"tokens_per_second": 1250.0}}
    assert compared_lines({"compared": compared}) == [
        "llama: 93.8 % of 1,024 words equal (90.0 % wanted), 18 of 20 tasks met, 19 before (80.0 % wanted)",
        "load: 8 streams, 16 requests: 1,250.0 tokens a second, 1,000.0 before (+25 %)",
        "first token: 41.0 ms (p95 80.5), 41.0 ms (p95 80.5) before",
        "cost: 1,600 GPU seconds a million tokens, 2,000 before",
    ]


@pytest.mark.parametrize("compared", ["x", [1], {"equal_percent": "x"}, {"equal_percent": 1.0, "count": [1]}, 5])
def test_malformed_figures_are_reported_and_end_no_run(compared: object) -> None:
    (line,) = compared_lines({"compared": compared})
    assert line == "the replay's figures cannot be read: the host says them in another form"


def test_a_swap_without_a_replay_says_nothing_and_one_without_a_predecessor_says_why() -> None:
    assert compared_lines({}) == []
    assert compared_lines({"not_compared": "no other release served llama before"}) == [
        "the replay compared nothing: no other release served llama before"
    ]
