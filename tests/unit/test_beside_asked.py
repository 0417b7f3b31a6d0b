"""An LLM beside Triton for `enginehouse ask` and the doctor: asked through the gateway, judged by its unit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.io.ask import requests, unopened
from deploy.io.gateway_key import GivenKey
from deploy.refusals.errors import Refusal
from deploy.spec import Gateway
from tests.unit.doctored import HEALTHY, UNITS, WANTED, examined, ids
from tests.unit.samples import GPT_OSS, MAIN, plan, sources

ON_VLLM = replace(GPT_OSS, runtime="vllm", image="vllm/vllm-openai:v0.26.0")
PLAN = plan(*sources(servers=(replace(MAIN, models=(*MAIN.models[:2], ON_VLLM)),), gateway=Gateway()))
UNIT = (
    "\n\nId=llm@main.service\nLoadState=loaded\nActiveState={}\nSubState=running\nResult=success\n"
    "NRestarts=0\nUnitFileState=enabled"
)
BESIDE = replace(WANTED, servers=(replace(WANTED.servers[0], llm="llm"),))


def test_an_llm_beside_triton_is_asked_through_the_gateway_alone() -> None:
    """Without a key the encoders of Triton are asked, and a sentence names the skipped LLM."""
    assert [request.model.name for request in requests(PLAN, {}, "", ())] == ["bge", "nomic"]
    assert unopened(PLAN, None).endswith("the gateway is asked, and gpt-oss-20b too")
    with pytest.raises(Refusal) as refused:
        requests(PLAN, {}, "gpt-oss-20b", ())
    assert (refused.value.kind, "ENGINEHOUSE_KEY" in refused.value.attempt) == ("no-key", True)
    with_key = requests(PLAN, {}, "", (), GivenKey("eh-key", "'$KEY'"))
    assert [request.model.name for request in with_key] == ["bge", "nomic", "gpt-oss-20b"]


def test_a_healthy_llm_beside_triton_has_no_finding() -> None:
    assert ids(examined({"units": UNITS + UNIT.format("active")}, BESIDE)) == []


def test_a_failed_llm_unit_is_found() -> None:
    finding_ids = ids(examined({"units": UNITS + UNIT.format("failed")}, BESIDE))
    assert any("unit" in kind or "server" in kind for kind in finding_ids), finding_ids


def test_an_llm_that_does_not_answer_is_found_by_its_own_page() -> None:
    answers = HEALTHY["ready"].replace("main llm 200", "main llm 503")
    (finding,) = examined({"units": UNITS + UNIT.format("active"), "ready": answers}, BESIDE)
    assert (finding.id, finding.evidence) == ("model-not-ready", "/health answers 503")
