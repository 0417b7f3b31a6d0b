"""`enginehouse export slurm`: the jobs equal the containers of the hosts' units, argument by argument."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from deploy.__main__ import main
from deploy.exports.served import Served, ServedHost, ServedServer
from deploy.exports.slurm.cluster import NO_LIMIT, RUNTIMES, Cluster, seconds_of
from deploy.exports.slurm.folder import chosen, files
from deploy.exports.slurm.jobs import jobs_of
from deploy.exports.slurm.start_lines import enroot_image
from deploy.io.export_folder import OF_JOBS, programs, steps
from deploy.refusals.errors import Refusal
from deploy.spec import Hub, Machine, Parallel, Registry, Secret
from roles.traffic.operations import settings
from roles.triton.defaults import Defaults
from roles.triton.release import release_of
from tests.unit.exported import of_plan, rendered, start_line, unit_times
from tests.unit.golden import same_as_golden
from tests.unit.samples import GPT_OSS, plan
from tests.unit.samples import main as models

INVENTORIES = ("h100", "fleet", "from_ansible", "h100x8_replicas")
"""Shipped inventories that jobs can serve: a host, two pools and a trial, encoders alone, eight servers on a host."""


@functools.cache
def written(inventory: str, runtime: str = "docker", root: str = Cluster.root) -> dict[str, str]:
    """The files of an export."""
    return files(rendered(inventory), Cluster(runtime=runtime, root=root), steps())


def servers(inventory: str) -> list[tuple[ServedHost, ServedServer, str]]:
    """Every server of an inventory beside its start line in a job."""
    texts = written(inventory)
    return [
        (host, server, texts[f"hosts/{host.slice.host}/{server.slice.name}/run"])
        for host in rendered(inventory).hosts
        for server in host.servers
    ]


def drain_of(host: ServedHost) -> int:
    """Seconds of the host's drain."""
    return host.slice.traffic.drain_seconds if host.slice.traffic else 0


def shown(text: str) -> str:
    """A text without the digests that change with every edit of a release or a program."""
    return re.sub(r"plan-[0-9a-f]{16}|(?<=releases/)[0-9a-f]{16}|(?<=release=)[0-9a-f]{16}", "…", text)


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_runs_the_hosts_start_line(inventory: str) -> None:
    """Image, words, ports, addresses, devices, mounts, environment, sizes and switches are those of the unit's own
    file."""
    for host, server, run in servers(inventory):
        release = release_of(server.slice, Defaults(), drain_of(host))
        of_host = start_line(release.files["run"], server.path)
        of_job = start_line(run.encode(), server.path)
        assert (of_job.image, of_job.words) == (of_host.image, of_host.words)
        assert (of_job.published, of_job.devices) == (of_host.published, of_host.devices)
        assert (of_job.mounts, of_job.environment) == (of_host.mounts, of_host.environment)
        assert (of_job.tmpfs_mib, of_job.shm_mib) == (of_host.tmpfs_mib, of_host.shm_mib)
        assert of_job.switches == of_host.switches == {"--read-only", "--cap-drop ALL", "no-new-privileges"}
        for flag in ("--pids-limit", "--stop-timeout", "--publish"):
            assert re.findall(rf"{flag} (\S+)", run) == re.findall(rf"{flag} (\S+)", release.files["run"].decode())


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_has_every_byte_of_the_release(inventory: str) -> None:
    """The files are at the release's paths, so the release's id is the host's; repair packages come by hash."""
    texts = written(inventory)
    for host, server, _ in servers(inventory):
        release, folder = (
            release_of(server.slice, Defaults(), drain_of(host)),
            f"hosts/{host.slice.host}/{server.slice.name}",
        )
        carried = {
            path.removeprefix(f"{folder}/release/"): text.encode()
            for path, text in texts.items()
            if path.startswith(f"{folder}/release/")
        }
        needs = json.loads(texts[f"{folder}/pod.json"])
        assert carried == release.files
        assert needs["release"] == release.id
        assert [wheel["sha256"] for wheel in needs["wheels"]] == [wheel.digest for wheel in release.wheels]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_a_job_has_the_times_of_the_units(inventory: str) -> None:
    """The signal precedes the time limit by more than drain and stop may take, which TimeoutStopSec covers."""
    texts = written(inventory)
    for job in jobs_of(rendered(inventory).hosts):
        text = texts[f"serve-{job.name}.sbatch"]
        signal = int(re.findall(r"#SBATCH --signal=B:USR1@(\d+)", text)[0])
        least = int(re.findall(r"least_seconds=(\d+)", text)[0])
        for host in job.hosts:
            for server in host.servers:
                times = unit_times(release_of(server.slice, Defaults(), drain_of(host)).unit_settings.content)
                assert signal > times["TimeoutStopSec"]
                assert least >= times["TimeoutStartSec"] + times["TimeoutStopSec"]


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_balancers_query_a_job_like_a_host(inventory: str) -> None:
    """The settings of the traffic service, and every port that the job listens on, are in the table of nodes."""
    texts = written(inventory)
    for host in rendered(inventory).hosts:
        traffic = host.slice.traffic
        rows = [line for text in texts.values() for line in text.splitlines() if f" {host.slice.host} " in line]
        (row,) = [line.strip().strip('"').split() for line in rows if line.startswith('  "')]
        listening = {int(port) for port in row[3].split(",")}
        assert {port for server in host.servers for port, _ in server.triton.ports} <= listening
        if traffic and traffic.servers:
            assert texts[f"hosts/{host.slice.host}/traffic.json"] == settings(traffic).content
            assert {traffic.agent_port, traffic.ready_port} <= listening


def test_hosts_of_a_pool_share_a_file_and_every_host_is_in_one() -> None:
    """A requeued job may then start on another host of its pool."""
    jobs = jobs_of(rendered("fleet").hosts)
    assert [job.name for job in jobs] == ["chat", "search", "trial"]
    assert [host.slice.host for job in jobs for host in job.hosts] == [
        host.slice.host for host in rendered("fleet").hosts
    ]


def test_the_files_are_reviewed() -> None:
    """The golden files have the batch files, a start line for each runtime, and the page."""
    texts = written("fleet")
    for name in ("serve-chat.sbatch", "stage.sbatch", "README.md"):
        same_as_golden(f"slurm/{name.replace('.md', '.txt')}", shown(texts[name]))
    run = "hosts/chat-01.example.internal/main/run"
    for runtime in RUNTIMES:
        same_as_golden(f"slurm/run-{runtime}", shown(written("fleet", runtime, "/shared/enginehouse")[run]))


def test_every_shell_text_is_bash() -> None:
    """bash parses each file of each runtime completely."""
    for runtime in RUNTIMES:
        texts = written("fleet", runtime)
        for name in [name for name in texts if name.endswith((".sbatch", ".sh", "/main/run"))]:
            subprocess.run(["bash", "-n"], input=texts[name].encode(), check=True)


def test_the_options_are_sbatchs_own() -> None:
    """Each option is a line before the first command, because Slurm reads no later options."""
    text = written("fleet")["serve-chat.sbatch"]
    head = re.match(r"#!/bin/bash\n((?:#SBATCH --\S+\n)+)", text)
    assert head and text.count("#SBATCH") == head[1].count("#SBATCH")
    assert {"--requeue", "--exclusive", "--gres=gpu:1", "--open-mode=append"} <= set(head[1].split())


def test_ranks_have_a_task_each_under_pyxis() -> None:
    """The tasks use pmix; with Docker there is one container, whose program starts its ranks as on a host."""
    split = split_plan()
    texts = {runtime: files(split, Cluster(runtime=runtime), steps()) for runtime in RUNTIMES}
    run, batch = texts["pyxis"]["hosts/h100-01/main/run"], texts["pyxis"]["serve-h100-01.sbatch"]
    assert "--ntasks=2 --mpi=pmix" in run and "trtllm-llmapi-launch /var/lib/enginehouse/releases/" in run
    assert '"$work/passwd-main:/etc/passwd:ro"' in run
    assert "#SBATCH --ntasks-per-node=2\n#SBATCH --exclusive\n#SBATCH --mem=0\n#SBATCH --gres=gpu:2\n" in batch
    assert "pmix" not in texts["docker"]["hosts/h100-01/main/run"]


def split_plan() -> Served:
    """A host of two GPUs with an LLM that is split between them."""
    server = models(replace(GPT_OSS, parallel=Parallel(tensor=2)))["servers"][0]
    return of_plan(
        plan(servers=(replace(server, gpus=(0, 1)),), machine=Machine(os="debian-12", gpu="h100-80", gpus=2))
    )


def test_secrets_are_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's token is a file of the submitting user; no value is written, and no environment is passed on."""
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("NGC_API_KEY", "hunter2")
    declared = plan(hub=Hub(token=Secret.env("HF_TOKEN")), registry=Registry(key=Secret.env("NGC_API_KEY")))
    texts = files(of_plan(declared), Cluster(), steps())
    assert 'source="$credentials",target=/run/credentials/enginehouse,readonly' in texts["stage.sbatch"]
    assert not any("hunter2" in text for text in texts.values())


def test_an_image_of_a_registry_is_written_as_enroot_reads_it() -> None:
    """A digest replaces the tag."""
    pinned = f"nvcr.io/nvidia/tritonserver@sha256:{'5e' * 32}"
    assert enroot_image(pinned) == f"nvcr.io#nvidia/tritonserver:sha256:{'5e' * 32}"
    assert enroot_image("vllm/vllm-openai:v0.26.0") == "vllm/vllm-openai:v0.26.0"


def test_time_limits_are_read_as_slurm_writes_them() -> None:
    """A limit has minutes, and may have seconds, hours and days."""
    limits = {"30": 1800, "30:10": 1810, "2:00:00": 7200, "1-0": 86400, "1-2:30": 95400, "1-00:00:01": 86401}
    assert {limit: seconds_of(limit) for limit in limits} == limits
    assert (seconds_of(NO_LIMIT), seconds_of("a day"), seconds_of("1:2:3:4")) == (-1, 0, 0)


def export(inventory: str, *words: str) -> str:
    """The output of a refused `enginehouse export slurm`."""
    done = CliRunner().invoke(main, ["export", "slurm", f"inventories/{inventory}.py", "-o", "never", *words])
    assert (done.exit_code, Path("never").exists()) == (1, False), done.output
    return done.output


REFUSED = {
    "an-engine": ("h100_engine",),
    "an-llm-beside-triton": ("h100_vllm",),
    "mig": ("mig",),
    "servers-that-share-a-network": ("h100x8_replicas", "--runtime", "pyxis"),
    "a-limit-below-start-and-stop": ("h100", "--time", "30"),
    "a-limit-of-no-form": ("h100", "--time", "a day"),
    "a-directory-of-no-form": ("h100", "--root", "shared dir"),
    "a-host-of-another-inventory": ("fleet", "chat-01"),
}


@pytest.mark.parametrize("promise", REFUSED)
def test_it_is_refused_with_the_reason(promise: str) -> None:
    """The whole message, reviewed as a golden file; it has a command to type."""
    same_as_golden(f"slurm/refused-{promise}.txt", export(*REFUSED[promise]))


def test_named_hosts_alone_are_written(tmp_path: Path) -> None:
    """A foreign folder stays unchanged."""
    host = "search-01.example.internal"
    arguments = ["export", "slurm", "inventories/fleet.py", host, "-o"]
    done = CliRunner().invoke(main, [*arguments, str(tmp_path / "jobs")])
    assert done.exit_code == 0, done.output
    assert [path.name for path in (tmp_path / "jobs/hosts").iterdir()] == [host]
    assert [path.name for path in (tmp_path / "jobs").glob("serve-*")] == ["serve-search.sbatch"]
    (tmp_path / "mine.txt").write_text("kept")
    assert CliRunner().invoke(main, [*arguments, str(tmp_path)]).exit_code == 1


def test_a_bare_node_gets_all_missing_parts_in_one_report(tmp_path: Path) -> None:
    """The job itself reports everything, with commands to type; nothing is started, and its folder is unchanged."""
    for name, text in written("fleet").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    stubs = {"docker": "echo cannot connect >&2; exit 1", "scontrol": "echo EndTime=2026-11-27T00:00:00"}
    for name, text in stubs.items():
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "chat-02", "SLURM_SUBMIT_DIR": str(tmp_path)}
    ran = subprocess.run(
        ["bash", "serve-chat.sbatch"],
        cwd=tmp_path,
        env=environment | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HF_TOKEN": "hunter2"},
        capture_output=True,
        text=True,
        check=False,
    )
    problems = re.findall(
        r"(?m)^([a-z].*)\n  where   node chat-02, job 7\n  seen    .*\n  wanted  .*\n  try     .+\n", ran.stderr
    )
    assert {"the job has other GPUs than the plan", "the time limit leaves no time to serve"} <= set(problems)
    assert any("cannot use Docker on this node" in problem for problem in problems)
    assert "this node lacks the address of its host" in problems
    assert (ran.returncode, ran.stdout, list(Path("/tmp").glob("enginehouse-7*"))) == (1, "", [])


def test_a_node_of_another_host_gets_the_possible_names(tmp_path: Path) -> None:
    """The message has the sbatch option that excludes it."""
    (tmp_path / "job.sh").write_text(steps())
    environment = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "login", "SLURM_SUBMIT_DIR": str(tmp_path)}
    ran = subprocess.run(
        ["bash", "-s", "--", "--check"],
        input=written("fleet")["serve-search.sbatch"],
        env=environment | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    same_as_golden("slurm/refused-on-another-node.txt", ran.stderr)


def test_a_program_that_a_job_starts_is_in_the_folder() -> None:
    """Each program of the steps is there with all its imports."""
    texts = programs(OF_JOBS)
    started = set(re.findall(r'"\$\{host\[@\]\}" ([a-z-]+) ', steps()))
    assert started == {"pod", "prove", "job", "traffic"}
    assert {"host/job.py", "host/prove.py", "host/traffic/stopping.py", "host/watch.py"} <= set(texts)


def test_an_unknown_host_has_a_name_to_type() -> None:
    """The refusal has the nearest name."""
    with pytest.raises(Refusal, match=r"try     search-02\.example\.internal"):
        chosen(rendered("fleet"), ["search-02.example.internl"])
