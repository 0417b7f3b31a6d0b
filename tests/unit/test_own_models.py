"""The operator's own model beside planned ones: counted, mounted, loaded by name; never routed or exported."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deploy.exports.kubernetes.refused import problems as of_kubernetes
from deploy.exports.served import Served, ServedHost, ServedServer
from deploy.exports.slurm.cluster import Cluster
from deploy.exports.slurm.refused import _of_server as of_slurm
from deploy.planning.plan import Plan
from deploy.reports.plan import plan_report
from deploy.spec import Gateway, OwnModel
from roles.cleanup.defaults import Defaults as Settings
from roles.cleanup.operations import kept
from roles.triton.defaults import Defaults
from roles.triton.release import release_of
from roles.triton.render import container, render
from tests.unit.samples import GPT_OSS, RERANKER, main, plan, refusals, sources
from tests.unit.test_report import printed

OWN = OwnModel(name="spam", path="/srv/triton", mib=3000)
SECOND = OwnModel(name="tokens", path="/srv/triton", mib=0)


def planned(*own: OwnModel, **data: Any) -> Plan:
    """The plan of a host with a reranker, an LLM, and these models of the operator."""
    return plan(*sources(**main(RERANKER, GPT_OSS, own_models=own or (OWN,)), **data))


def cache_tokens(plan: Plan) -> int:
    return plan.slices[0].servers[0].models[-1].kv_cache_tokens


def test_its_memory_is_taken_from_the_cache() -> None:
    """An LLM that takes the remaining memory gets less, by the declared amount."""
    before = plan(*sources(**main(RERANKER, GPT_OSS)))
    assert cache_tokens(planned(replace(OWN, mib=52_000))) < cache_tokens(before)
    assert cache_tokens(planned(replace(OWN, mib=0))) == cache_tokens(before)


def test_models_that_do_not_fit_beside_it_are_refused_by_name() -> None:
    (problem,) = refusals(**main(RERANKER, GPT_OSS, own_models=(replace(OWN, mib=80_000),)))
    assert (problem.kind, "spam 80,000" in str(problem.facts["seen"])) == ("over-committed", True)


def test_a_container_reads_its_directory_and_no_other_of_the_repository() -> None:
    server = planned(OWN, SECOND).slices[0].servers[0]
    directories = container(server, Defaults()).directories
    assert {"/srv/triton/spam", "/srv/triton/tokens"} <= set(directories)
    assert "/srv/triton" not in directories


def test_triton_knows_the_repository_and_loads_nothing_of_it_by_itself() -> None:
    """Each repository has one flag, and `prove` has the names, in server.json."""
    files = render(planned(OWN, SECOND).slices[0].servers[0], Defaults())
    launch = files["launch"].decode()
    assert launch.count("--model-repository=/srv/triton ") == 1
    assert "--model-control-mode=explicit" in launch and "--load-model" not in launch
    assert json.loads(files["server.json"])["own_models"] == ["spam", "tokens"]
    assert not any("spam" in path for path in files)


def test_a_server_without_one_has_the_release_that_it_had() -> None:
    mine = plan(*sources(**main(RERANKER, GPT_OSS))).slices[0]
    assert "own_models" not in json.dumps(mine.to_json())
    assert b"own_models" not in b"".join(render(mine.servers[0], Defaults()).values())


def test_the_unit_waits_for_its_configuration() -> None:
    text = release_of(planned().slices[0].servers[0], Defaults()).unit_settings.content
    assert "test -e /srv/triton/spam/config.pbtxt" in text


def test_the_plan_shows_it_with_its_memory() -> None:
    text = " ".join(printed(plan_report(planned())).split())
    assert "/srv/triton/spam" in text and "no gateway routes to it" in text and "3,000" in text
    assert planned().digest != plan(*sources(**main(RERANKER, GPT_OSS))).digest


def test_no_gateway_routes_to_it() -> None:
    mine = planned(gateway=Gateway()).slices[0]
    assert mine.gateway and "spam" not in {model.name for model in mine.gateway.models}
    assert "spam" not in json.dumps(mine.to_json()["gateway"])


def test_nothing_brings_it_or_cleans_it_up() -> None:
    mine = planned().slices[0]
    assert not any("srv" in path for path in kept(mine, Settings()))
    assert all("spam" not in files.model for files in mine.weights)
    assert mine.disk_needed_mib == plan(*sources(**main(RERANKER, GPT_OSS))).slices[0].disk_needed_mib


def test_pods_and_jobs_refuse_it() -> None:
    mine = planned().slices[0]
    server = ServedServer.__new__(ServedServer)
    object.__setattr__(server, "slice", mine.servers[0])
    object.__setattr__(server, "triton", container(mine.servers[0], Defaults()))
    texts_of: dict[str, Any] = {"weights": {}, "traffic": "", "authority": "", "gateway": None}
    host = ServedHost(
        slice=mine, servers=(server,), watch_seconds=1, answer_seconds=1, misses=1, keep_releases=1, **texts_of
    )
    paths: dict[str, Any] = {"programs": {}, "programs_path": "", "settings_path": "", "branches": ()}
    served = Served(digest="", inventory="", hosts=(host,), **paths)
    problems = (*of_kubernetes(served), *of_slurm(host, server, Cluster()))
    assert [problem.kind for problem in problems] == ["own-model-of-a-host"] * 2


@pytest.mark.parametrize(
    ("own", "field"),
    [
        *((replace(OWN, path=path), "path") for path in ("", "models", "/srv/../etc", "/srv/a,b", "/srv/x y", "/tmp/x",
                                                         "/var/lib/enginehouse/models", "/home/me", "/srv/x/")),
        *((replace(OWN, name=name), "name") for name in ("", "a/b", "..", "bge", "gpt-oss-20b", "bge_tensorrt_llm")),
    ],
)  # fmt: skip
def test_a_wrong_name_or_directory_is_refused_where_it_is_wrong(own: OwnModel, field: str) -> None:
    problems = refusals(**main(RERANKER, GPT_OSS, own_models=(own,)))
    assert [(problem.kind, problem.facts["where"].split("].")[-1]) for problem in problems] == [("own-model", field)]


def test_a_model_is_declared_once() -> None:
    (problem,) = refusals(**main(RERANKER, GPT_OSS, own_models=(OWN, OWN)))
    assert "declared 2 times" in problem.problem
