"""A checkpoint that several models of a host share is fetched once, to one directory."""

from __future__ import annotations

from dataclasses import replace

from deploy.slices.host import Slice
from deploy.spec import LLM, Draft
from tests.unit.samples import LLAMA, MACHINE, MAIN, ONE_B, OWN, plan

LONG = replace(LLAMA, name="llama-128k", max_seq_len=131_072, chunked_prefill=True, max_batch_size=4)
BESIDE = {"gpus": (1,), "http_port": 8010, "grpc_port": 8011, "metrics_port": 8012}
TWO_GPUS = replace(MACHINE, gpus=2)


def two_servers(first: LLM, second: LLM) -> Slice:
    """The slice of a host whose two servers serve these models, one each."""
    servers = (replace(MAIN, models=(first,)), replace(MAIN, name="long", models=(second,), **BESIDE))
    return plan(machine=TWO_GPUS, servers=servers).slices[0]


def test_one_checkpoint_under_two_names_is_fetched_once() -> None:
    """The checkpoint is in the directory of the first model; both servers read it from there, and the disk has it
    once."""
    mine = two_servers(LLAMA, LONG)
    alone = plan(machine=TWO_GPUS, servers=(replace(MAIN, models=(LLAMA,)),)).slices[0]
    assert [weights.model for weights in mine.weights] == ["llama"]
    assert [server.models[0].weights for server in mine.servers] == [*mine.weights, *mine.weights]
    assert mine.disk_needed_mib == alone.disk_needed_mib


def test_one_repository_at_two_commits_is_fetched_twice() -> None:
    """The two commits have different files, in separate directories."""
    mine = two_servers(LLAMA, replace(LONG, weights=replace(LONG.weights, revision="b" * 40)))
    assert [weights.model for weights in mine.weights] == ["llama", "llama-128k"]


def test_a_model_alone_keeps_the_directory_of_its_name() -> None:
    """A host that already serves the model fetches nothing."""
    assert [weights.model for weights in plan(servers=(replace(MAIN, models=(LONG,)),)).slices[0].weights] == [
        LONG.name
    ]


def test_a_draft_that_another_server_serves_is_fetched_once() -> None:
    """The target's settings name the directory of the served model."""
    small = replace(LLAMA, name="small", checkpoint=ONE_B, weights=OWN)
    mine = two_servers(small, replace(LLAMA, speculative=Draft(checkpoint=ONE_B, weights=OWN)))
    settings = mine.servers[1].models[0].settings["speculative_config"]
    assert [weights.model for weights in mine.weights] == ["small", "llama"]
    assert isinstance(settings, dict)
    assert settings["speculative_model_dir"] == f"/var/lib/enginehouse/weights/small/{OWN.revision}"
