"""A host without supervision, and after it is given up: a hang, a fault of the GPU, cleaning up, removal.

The tests share a machine with its own number and run in pytest's order. daemon.json has foreign settings before the
deploy, which remain after the removal.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

import pytest

from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from tests.rehearsal.operator import Operator, Run, fresh_machines

# Minutes on a machine: `make faults` runs it.
pytestmark = [pytest.mark.rehearsal, pytest.mark.faults, pytest.mark.xdist_group("number-3")]

PLACES = Places(REPOSITORY / ".rehearsal" / "number-3", 3)
INVENTORY = "tests/rehearsal/inventories/watched.py"
FOREIGN = '{"features": {"buildkit": true}, "log-opts": {"labels": "theirs"}}\n'
PRUNED = " -o ".join(f"-path {path}" for path in ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/var/log"])
PLACES_OF_DATA = "/ /var/lib/docker /var/lib/containerd /var/lib/enginehouse"  # each a file system of its own
FILES = f"find {PLACES_OF_DATA} -xdev \\( {PRUNED} \\) -prune -o ! -type d -print 2>/dev/null | sort -u"
# Left on any Debian by installing and removing packages, or written by the machine itself as time passes.
ALLOWED = (
    "/var/cache/", "/var/lib/apt/", "/var/lib/dpkg/", "/var/lib/systemd/", "/var/lib/misc/", "/etc/ld.so.cache",
    "/usr/lib/modules/",  # the stand-in of dkms keeps its list there
    "/var/backups/",  # written by Debian's timers at midnight
    "/etc/group-", "/etc/gshadow-", "/etc/passwd-", "/etc/shadow-", "/etc/.pwd.lock", "/root/",
)  # fmt: skip
HANG = "kill -STOP $(pgrep -f 'python_backend_stu[b].*minilm')"
XID = "NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=tritonserver, GPU has fallen off the bus."
ACTIVE = "systemctl show -p ActiveState --value triton@main"
RELEASE = "basename $(readlink /var/lib/enginehouse/servers/main/current)"
WAIT_SECONDS = 600
GPU_METRICS = "systemctl start enginehouse-gpu-state.service; cat /var/lib/enginehouse/metrics/gpu.prom"
UNFIT = "0 remapped_rows.pending Yes\n0 ecc.errors.uncorrected.volatile.total 2\n"
OURS = (
    "find /etc/enginehouse /usr/local/lib/enginehouse /var/lib/enginehouse /run/enginehouse -mindepth 1 2>/dev/null;"
    " ls /etc/docker;"
    " { iptables -S; nft list tables; ip -brief link; getent passwd; getent group; ls /etc/systemd/system; }"
    " | grep -e enginehouse -e triton -e ^docker: -e nvidia"
)


@dataclass
class Story:
    """The machine, its operator, and the machine's initial files."""

    machine: Machine
    operator: Operator
    files: list[str]
    first: Run

    def type(self, *words: str, verb: str = "deploy.py", **environment: str) -> Run:
        """Runs `pyinfra INVENTORY VERB WORDS`."""
        with mock.patch.dict(os.environ, environment):
            return self.operator.pyinfra(*words, inventory=INVENTORY, verb=verb)

    def says(self, command: str) -> str:
        """Returns the output of a command on the machine."""
        return self.machine.run(command, check=False).stdout.strip()


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Yields a machine after its first deploy; removes it before and afterwards."""
    with fresh_machines(PLACES, ["d13k"], "13") as (operator, (machine,)):
        machine.run("mkdir -p /etc/docker && cat >/etc/docker/daemon.json", input=FOREIGN)
        files = machine.run(FILES).stdout.splitlines()
        first = operator.pyinfra(inventory=INVENTORY)
        assert first.code == 0, first.output[-4000:]
        yield Story(machine, operator, files, first)


def until(holds: Callable[[], bool]) -> bool:
    """Returns True if the condition became true in time."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.5)
    return False


def test_a_finished_host_is_watched_and_a_second_run_changes_nothing(story: Story) -> None:
    assert until(lambda: "answer_seconds{" in story.says("cat /var/lib/enginehouse/metrics/watch-main.prom"))
    assert story.type().changed == {}
    metric = 'enginehouse_watch_misses{server="main",model="minilm"} 0'
    assert until(lambda: metric in story.says("cat /var/lib/enginehouse/metrics/*.prom"))


def test_the_state_of_the_gpu_is_a_metric(story: Story) -> None:
    assert until(lambda: "enginehouse_gpu_answers 1" in story.says("cat /var/lib/enginehouse/metrics/gpu.prom"))


def test_a_hanging_model_is_detected_and_restarted_although_triton_says_ready(story: Story) -> None:
    before = story.says("systemctl show -p InvocationID --value triton@main")
    story.machine.run(HANG)
    address = f"{story.machine.address}:8000/v2/health/ready"
    assert story.says(f"curl -s -o /dev/null -w '%{{http_code}}' {address}") == "200"
    again = "systemctl show -p InvocationID --value triton@main"
    assert until(lambda: story.says(again) != before and story.says(ACTIVE) == "active")
    assert until(lambda: 'misses{server="main",model="minilm"} 0' in story.says("cat /var/lib/enginehouse/metrics/w*"))


def test_the_restart_is_in_history_journal_and_metrics(story: Story) -> None:
    last = json.loads(story.says("grep restarted /var/lib/enginehouse/history.jsonl | tail -n 1"))
    assert (last["result"], last["reason"]) == ("restarted", "minilm did not answer 2 probes in a row")
    journal = story.says("journalctl -o cat -u enginehouse-watch@main")
    assert journal.splitlines() == ["minilm did not answer 2 probes in a row: triton@main.service is restarted"]
    assert 'restarts_total{server="main"} 1' in story.says("cat /var/lib/enginehouse/metrics/watch-main.prom")


@pytest.fixture(scope="module")
def refused(story: Story) -> tuple[str, Run]:
    """Returns the serving release, and a deploy of another one after the driver reported a lost GPU."""
    serving = story.says(RELEASE)
    story.machine.run(f"logger -t kernel '{XID}'")
    return serving, story.type(SECOND="1")


def test_an_xid_stops_a_swap_and_says_what_to_do(refused: tuple[str, Run]) -> None:
    output = refused[1].output
    assert refused[1].code == 1
    assert "main: GPU 0 is not fit to start a release on" in output
    assert "seen    GPU 0: Xid 79, the GPU has fallen off the bus" in output
    assert "try     reboot the host" in output
    assert "state   the swap did not begin; the serving release stays in service" in output


def test_the_previous_release_keeps_serving_after_a_stopped_swap(story: Story, refused: tuple[str, Run]) -> None:
    assert (story.says(RELEASE), story.says(ACTIVE)) == (refused[0], "active")


def test_the_xid_is_a_metric(story: Story, refused: object) -> None:
    assert 'enginehouse_gpu_xids{pci="0000:01:00",xid="79",remedy="boot"} 1' in story.says(GPU_METRICS)


def test_faulty_memory_stops_a_swap_and_is_a_metric(story: Story, refused: object) -> None:
    story.machine.run("python3 -B /usr/local/lib/enginehouse/host gpu-state mended")
    story.machine.put("/run/rehearsal/gpu-faults", UNFIT)
    output, metrics = story.type(SECOND="1").output, story.says(GPU_METRICS)
    assert "rows of its memory wait to be remapped" in output
    assert "GPU 0: 2 uncorrected memory errors since the driver was loaded" in output
    assert 'ecc_uncorrected_volatile{gpu="0"} 2' in metrics and 'remap_pending{gpu="0"} 1' in metrics


def test_mended_it_goes_on(story: Story, refused: tuple[str, Run]) -> None:
    story.machine.run("rm -f /run/rehearsal/gpu-faults")
    assert (story.type(SECOND="1").code, story.says(RELEASE) != refused[0]) == (0, True)


def test_a_cleanup_lists_its_removals_first_and_keeps_the_last_release(story: Story, refused: object) -> None:
    old = "/var/lib/enginehouse/weights/minilm/1111111111111111111111111111111111111111"
    story.machine.run(f"mkdir -p {old} {old[:-1]}2; touch -d 2020-01-01 {old}")
    dry = story.type("--dry", SECOND="1")
    assert list(dry.announced.values()) == ["Cleanup | Remove unneeded images, weights and engines"]
    assert f"no longer needed: {old} (" in dry.output
    assert story.type(SECOND="1").code == 0
    assert story.says(f"ls -d {old} {old[:-1]}2") == f"{old[:-1]}2"
    assert len(story.says("ls /var/lib/enginehouse/releases").split()) == 2
    assert story.type(SECOND="1").changed == {}


def test_the_previous_release_keeps_all_its_files_in_a_cleanup(story: Story, refused: tuple[str, Run]) -> None:
    assert story.type(verb="rollback.py").code == 0
    assert (story.says(RELEASE), story.says(ACTIVE)) == (refused[0], "active")


@pytest.fixture(scope="module")
def unagreed(story: Story, refused: object) -> Run:
    """Runs `remove.py` without the confirming word."""
    return story.type(verb="remove.py")


def test_a_removal_lists_its_steps_first_and_changes_nothing(story: Story, unagreed: Run) -> None:
    assert (unagreed.code, unagreed.changed, story.says(ACTIVE)) == (0, {}, "active")
    assert "; the driver: firmware-nvidia-gsp libcuda1 " in unagreed.output
    assert "nothing was changed; `--data remove=yes` removes these items" in unagreed.output


@pytest.fixture(scope="module")
def removed(story: Story, unagreed: Run) -> Run:
    """Runs `remove.py` with confirmation."""
    story.machine.run("touch /etc/docker/daemon.json.enginehouse-new")  # left by a killed run
    run = story.type("--data", "remove=yes", verb="remove.py")
    assert run.code == 0, run.output[-4000:]
    return run


def test_removal_leaves_the_files_that_were_there(story: Story, removed: Run) -> None:
    now = story.machine.run(FILES).stdout.splitlines()
    differing = {path for path in {*now} ^ {*story.files} if not path.startswith(ALLOWED)}
    assert sorted(differing) == []


def test_removal_leaves_nothing_that_runs_filters_or_has_our_name(story: Story, removed: Run) -> None:
    assert story.says(OURS) == "daemon.json"


def test_removal_keeps_foreign_settings(story: Story, removed: Run) -> None:
    assert story.says("cat /etc/docker/daemon.json") == FOREIGN.strip()
    assert story.says("apt-mark showhold; systemctl list-units --plain --no-legend 'triton@*' 'enginehouse-*'") == ""


def test_a_second_removal_finds_nothing(story: Story, removed: Run) -> None:
    again = story.type("--data", "remove=yes", verb="remove.py")
    assert (again.code, again.changed, "goes: " in again.output) == (0, {}, False)
