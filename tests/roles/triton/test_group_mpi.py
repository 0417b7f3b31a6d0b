"""A host of a group under Open MPI: its start line, and the files in its release."""

from __future__ import annotations

import json
import subprocess

import pytest

from deploy.slices.host import Slice
from deploy.spec import Parallel
from roles.triton.defaults import Defaults
from roles.triton.render import render
from tests.unit.golden import same_as_golden
from tests.unit.grouped import ETHERNET, INFINIBAND, MIXTRAL_8X22B, group, model, named
from tests.unit.samples import plan

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"


def hosts(number: int = 2, fabric: object = INFINIBAND) -> tuple[Slice, ...]:
    """The slices of a group of trtllm-serve."""
    parallel = Parallel(tensor=4, pipeline=number, hosts=named(number))
    llm = model("mixtral-8x22b", MIXTRAL_8X22B, runtime="trtllm-serve", image=IMAGE, parallel=parallel)
    return plan(*group(llm, "h100-80", 4, fabric, number)).slices


def files_of(mine: Slice) -> dict[str, bytes]:
    """The release of the host's server."""
    return render(mine.servers[0], Defaults())


def run_of(mine: Slice) -> str:
    """The start line of the host's part."""
    return files_of(mine)["llm/run"].decode()


@pytest.mark.parametrize("number", [0, 1])
def test_a_part_under_open_mpi_has_this_start_line(number: int) -> None:
    text = run_of(hosts()[number])
    same_as_golden(f"groups/mpi-{number}.sh", text)
    assert subprocess.run(["bash", "-n"], input=text.encode(), check=False).returncode == 0


def test_each_gpu_has_a_rank_in_the_order_of_the_hosts() -> None:
    first, *others = [run_of(mine) for mine in hosts(4)]
    assert "--np 16" in first and "--host 10.0.8.1:4,10.0.8.2:4,10.0.8.3:4,10.0.8.4:4" in first
    assert "--map-by slot" in first and "trtllm-llmapi-launch" in first and "--tp_size 4" in first
    assert not any("mpirun" in text or "trtllm-serve serve" in text for text in others)
    assert [f"follow 10.0.8.1 29502 10.0.8.{number}" in text for number, text in enumerate(others, 2)] == [True] * 3


def test_every_host_has_the_program_that_starts_its_ranks_and_no_key() -> None:
    for mine in hosts():
        files = files_of(mine)
        assert b"orted" in files["llm/ranks.py"]
        assert not any(b"PRIVATE KEY" in content or b"ssh-" in content for content in files.values())
    alone = model("m", MIXTRAL_8X22B, parallel=Parallel(tensor=4, pipeline=2, hosts=named()))
    assert "llm/ranks.py" not in files_of(plan(*group(alone, "h100-80", 4)).slices[0])


def test_open_mpi_looks_for_no_infiniband_over_plain_ethernet() -> None:
    texts = [run_of(hosts(fabric=fabric)[0]) for fabric in (ETHERNET, INFINIBAND)]
    assert ["--mca pml ob1" in text for text in texts] == [True, False]
    assert "--mca btl_tcp_if_include eth1" in texts[0] and "--mca btl_tcp_if_include ib0" in texts[1]


def test_the_program_that_answers_listens_on_loopback_alone() -> None:
    text = run_of(hosts()[0])
    assert "--host 127.0.0.1" in text and "0.0.0.0" not in text
    identities = {json.loads(files_of(mine)["server.json"])["group"]["identity"] for mine in hosts()}
    assert len(identities) == 1
