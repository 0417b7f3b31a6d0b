"""Weights that every host has already are read where they are: never fetched, sent, shared, bundled or cleaned up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.bundle.contents import Contents
from deploy.bundle.lacking import _weights
from deploy.exports.kubernetes.refused import problems as of_kubernetes
from deploy.exports.served import Served, ServedHost
from deploy.exports.slurm.cluster import Cluster
from deploy.exports.slurm.refused import _of_host as of_slurm
from deploy.planning.plan import Plan
from deploy.reports.plan import plan_report
from deploy.spec import LLM, Embedder, Gateway, Sharing, Weights
from roles.cleanup.defaults import Defaults as Settings
from roles.cleanup.operations import kept
from roles.model_store.operations import texts
from roles.triton.defaults import Defaults
from roles.triton.render import container
from tests.unit.published import locked
from tests.unit.samples import AROUND, EMBEDDER, GPT_OSS, LLAMA, RERANKER, main, plan, refusals, sources
from tests.unit.test_report import printed

PLACE = "/mnt/models/gpt-oss-20b"
MODEL = replace(GPT_OSS, weights=Weights.on_host(PLACE))


def planned(*models: Any, **data: Any) -> Plan:
    """The plan of a host that has the weights of an LLM."""
    return plan(*sources(**main(*(models or (RERANKER, MODEL))), **data))


def test_the_container_and_the_gateway_read_the_directory() -> None:
    mine = planned(gateway=Gateway()).slices[0]
    assert PLACE in container(mine.servers[0], Defaults()).directories
    assert mine.gateway and [model.files for model in mine.gateway.models if model.kind == "llm"] == [PLACE]


def test_deploys_neither_bring_nor_remove_the_files() -> None:
    """Fetch, sharing, disk and clean-up count only the other models."""
    mine, before = planned().slices[0], plan(*sources(**main(RERANKER, GPT_OSS))).slices[0]
    assert [files.model for files in mine.weights] == ["bge"]
    assert not any("gpt-oss" in text.path or PLACE in text.content for text in texts(mine))
    size = before.servers[0].models[1].weights.size_mib
    assert before.disk_needed_mib - mine.disk_needed_mib == size > 13_000
    pair = [
        sources(f"h{number}", **main(RERANKER, MODEL), sharing=Sharing(), peer_address=f"10.0.0.{number}")
        for number in (1, 2)
    ]
    shared = plan(*pair[0], *pair[1])
    assert all("bge" in str(slice_.sharing) for slice_ in shared.slices)
    assert all("gpt-oss" not in str(slice_.sharing) for slice_ in shared.slices)


def test_the_plan_counts_and_names_weights_on_the_host() -> None:
    mine = planned()
    (files,) = mine.slices[0].on_host
    assert (files.path, files.architecture, files.size_mib) == (PLACE, "GptOssForCausalLM", 13_124)
    text = " ".join(printed(plan_report(mine)).split())
    assert f"{PLACE}, on the host already" in text
    assert mine.digest != plan(*sources(**main(RERANKER, GPT_OSS))).digest


def test_a_host_without_weights_on_it_has_no_trace_of_the_field() -> None:
    assert "on_host" not in plan(*sources()).slices[0].to_json()


def test_a_model_by_its_name_is_compared_with_its_lock() -> None:
    """The lock's commit and size are among the values that preflight compares."""
    around = replace(AROUND, locked={"x/qwen3-32b": locked("qwen3-32b")})
    model = LLM("x/qwen3-32b", weights=Weights.on_host("/srv/models/qwen3-32b"))
    (files,) = plan(*sources(**main(model)), around=around).slices[0].on_host
    assert files.revision == "c" * 40 and files.size_mib == pytest.approx(62_488, rel=0.001)
    encoder = Embedder("x/bge-small-en-v1.5", weights=Weights.on_host("/srv/models/bge-small"))
    around = replace(AROUND, locked={"x/bge-small-en-v1.5": locked("bge-small-en-v1.5")})
    (files,) = plan(*sources(**main(encoder)), around=around).slices[0].on_host
    assert files.architecture == "BertModel"


def test_an_llm_beside_triton_reads_weights_on_the_host() -> None:
    beside = replace(MODEL, runtime="vllm", image="vllm/vllm-openai:v0.26.0")
    mine = planned(beside, gateway=Gateway()).slices[0]
    assert mine.servers[0].standalone_llm and PLACE in mine.servers[0].standalone_llm[1].arguments
    assert not mine.weights


def test_a_bundle_has_no_weights_that_are_on_the_host() -> None:
    """A host without a network needs no file of such a model from its bundle."""
    mine = replace(planned(MODEL).slices[0], bundle="bundle")
    assert list(_weights(mine, Contents.__new__(Contents))) == []


def test_the_clean_up_knows_directories_of_its_own_alone() -> None:
    assert PLACE not in kept(planned().slices[0], Settings())


def test_pods_and_jobs_refuse_a_directory_of_a_host() -> None:
    mine = planned(MODEL).slices[0]
    texts_of: dict[str, Any] = {"weights": {}, "traffic": "", "authority": "", "gateway": None, "servers": ()}
    host = ServedHost(slice=mine, watch_seconds=1, answer_seconds=1, misses=1, keep_releases=1, **texts_of)
    paths: dict[str, Any] = {"programs": {}, "programs_path": "", "settings_path": "", "branches": ()}
    served = Served(digest="", inventory="", hosts=(host,), **paths)
    problems = (*of_kubernetes(served), *of_slurm(host, Cluster()))
    assert [problem.kind for problem in problems] == ["weights-of-a-host"] * 2


@pytest.mark.parametrize(
    ("model", "place"),
    [
        *(
            (replace(GPT_OSS, weights=Weights.on_host(path)), "weights.path")
            for path in ("", "models", "/", "/mnt/../etc/x", "/mnt/a,b", "/mnt/a b", "/var/lib/enginehouse/weights/x",
                         "/home/me/models", "/root/models", "/tmp/x", "/mnt/x/")
        ),
        (replace(GPT_OSS, weights=Weights.on_host(PLACE, "openai/gpt-oss-20b", "main")), "weights.revision"),
        (replace(GPT_OSS, weights=Weights(path=PLACE, directory="x")), "weights"),
        (replace(LLAMA, path="engine", weights=Weights.on_host(PLACE)), "weights"),
    ],
)  # fmt: skip
def test_a_wrong_directory_is_refused_where_it_is_wrong(model: LLM, place: str) -> None:
    problems = [problem for problem in refusals(**main(model)) if problem.kind == "weights-on-host"]
    assert [problem.facts["where"].split("].")[-1] for problem in problems] == [place]


def test_an_embedder_s_directory_is_planned() -> None:
    mine = planned(replace(EMBEDDER, weights=Weights.on_host("/srv/nomic")), MODEL).slices[0]
    assert [files.path for files in mine.on_host] == ["/srv/nomic", PLACE]
