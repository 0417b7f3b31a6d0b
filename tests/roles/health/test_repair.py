"""The program that repairs a host's GPUs, on a host in a folder with its nvidia-smi, systemctl, journal and balancer.

More than 300 lines, because every result of a repair is tested in one place.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from host import places, systemd
from host.repair import act, main
from host.repair.main import Repairs
from host.repair.pool import TURN_SECONDS, Pool
from host.traffic.state import hold_file
from tests.roles.health.test_gpu_state import LINE, REAL, Host
from tests.roles.web import Answer, Request, serving

BACKENDS = ("chat_http", "chat_grpc")
PENDING = REAL.replace("No, No,", "Yes, No,")
SMI = """case "$*" in
*--gpu-reset*) echo "nvidia-smi $*" >>calls
    [ ! -e refuses ] || { printf 'These could not be reset:\\n  GPU 0: In use by another client\\n'; exit 19; }
    [ -e stays ] || rm -f ill ;;
*) [ -e ill ] && cat ill || echo "REAL" ;;
esac"""
SYSTEMCTL = """case "$1" in
is-active) shift; for unit; do [ -e broken ] && echo failed || echo active; done ;;
list-units) ;;
*) echo "$*" >>calls ;;
esac"""
RESET = [
    "stop triton@main.service",
    "nvidia-smi --gpu-reset -i 0",
    "reset-failed triton@main.service",
    "start --no-block triton@main.service",
]


class Balancer:
    """HAProxy's exporter before three hosts: h1, which is the test's host, h2 and h3."""

    def __init__(self, *out: str) -> None:
        self.out = set(out)
        self.is_deaf = False
        self.goes_with_us = ""
        """A host that begins its own drain in the moment in which h1 does."""

    def __call__(self, request: Request) -> Answer:
        drained = {"h1"} if hold_file("main").exists() and not self.is_deaf else set()
        if drained and self.goes_with_us:
            self.out.add(self.goes_with_us)
        lines = []
        for host in ("h1", "h2", "h3"):
            state = "DRAIN" if host in self.out | drained else "UP"
            for backend in BACKENDS:
                labels = f'proxy="{backend}",server="{host}.main"'
                lines += [f'haproxy_server_status{{{labels},state="{state}"}} 1']
                lines += [f"haproxy_server_current_sessions{{{labels}}} 0"]
        return 200, {}, "\n".join(lines).encode()


class Ill:
    """A host of one H100, and its program."""

    def __init__(self, root: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.host = root, host
        self.boot = "first"
        host.program("nvidia-smi", f"cd {root}; {SMI.replace('REAL', REAL)}")
        host.program("systemctl", f"cd {root}; {SYSTEMCTL}")
        for name in ("RUNTIME", "LOCK"):
            monkeypatch.setattr(places, name, root / name.lower())
        monkeypatch.setattr(time, "sleep", lambda _: None)
        monkeypatch.setattr(main, "boot", lambda: self.boot)
        release = root / "releases/a1"
        release.mkdir(parents=True)
        (release / "server.json").write_text(json.dumps({"start_seconds": 60}))
        (root / "servers/main/current").symlink_to("../../releases/a1")

    def program(self, *balancers: str, allowed: str = "reset", most: int = 1, mig: bool = False) -> Repairs:
        """The program as its unit starts it."""
        settings = {"allowed": allowed, "max_unavailable": most, "gpus": 1, "mig": mig, "tries": 3, "look_seconds": 5}
        seen_as = [f"{backend}/h1.main" for backend in BACKENDS]
        traffic = {
            "servers": {"main": {"models": ["chat"], "seen_as": seen_as}},
            "balancers": [{"name": "edge", "metrics": f"{url}/metrics"} for url in balancers],
            "drain_seconds": 60,
            "heard_seconds": 5,
        }
        return Repairs(settings, traffic)

    def falls(self, row: str = PENDING) -> None:
        """Sets nvidia-smi's line for the GPU from now on."""
        (self.root / "ill").write_text(f"{row}\n")

    def has(self, name: str) -> None:
        """Sets a fault: `refuses`: nvidia-smi refuses resets; `stays`: a reset does not help; `broken`: no unit
        starts."""
        (self.root / name).touch()

    def looks(self, program: Repairs, times: int = main.LOOKS) -> Repairs:
        """Runs a number of checks, a minute apart."""
        for _ in range(times):
            program.look(time.time())
        return program

    @property
    def calls(self) -> list[str]:
        """Commands that stopped, reset, started or rebooted, in order."""
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def results(self) -> list[str]:
        """The results in the host's history."""
        file = self.root / "history.jsonl"
        return [json.loads(line)["result"] for line in file.read_text().splitlines()] if file.exists() else []

    def metric(self, name: str) -> int:
        """The value of a metric in the textfile."""
        lines = (self.root / "metrics/repair.prom").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"enginehouse_{name} ")).split()[-1])


@pytest.fixture
def ill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ill:
    """A host whose GPU is healthy so far."""
    return Ill(tmp_path, Host(tmp_path, monkeypatch), monkeypatch)


def test_gpus_that_are_fit_are_left_alone(ill: Ill) -> None:
    ill.looks(ill.program(), 5)
    assert (ill.calls, ill.results, ill.metric("repair_needed")) == ([], [], 0)


@pytest.mark.parametrize("number", [13, 31, 43])
def test_an_application_s_own_fault_is_nothing_to_repair(ill: Ill, number: int) -> None:
    ill.host.journal(LINE.replace("79", str(number)))
    ill.looks(ill.program(), 5)
    assert (ill.calls, ill.results) == ([], [])


def test_a_single_reading_starts_no_repair(ill: Ill) -> None:
    """A single failure of the tool is not enough evidence of a fault."""
    ill.falls()
    ill.looks(ill.program(), 1)
    assert ill.calls == []


@pytest.mark.parametrize(
    ("row", "xid"), [(PENDING, 0), (REAL.replace("None", "Drain and Reset"), 0), (REAL, 95), (REAL, 119)]
)
def test_a_gpu_that_asks_for_a_reset_gets_one_while_no_server_runs(ill: Ill, row: str, xid: int) -> None:
    """Cases: pending rows, the driver's recovery action, an uncontained error, a processor without an answer."""
    ill.falls(row)
    if xid:
        ill.host.journal(LINE.replace("79", str(xid)), at=int(time.time()) - 60)
    with serving(Balancer()) as edge:
        ill.looks(ill.program(edge.url))
    assert (ill.calls, ill.results) == (RESET, ["repair begun", "repaired"])
    assert not hold_file("main").exists()


def test_a_host_is_held_while_it_is_repaired_and_no_run_may_begin_on_it(
    ill: Ill, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, dict[str, str]]] = []
    monkeypatch.setattr(
        act, "reset", lambda *_: seen.append((hold_file("main").exists(), json.loads(places.LOCK.read_text())))
    )
    ill.falls()
    ill.looks(ill.program())
    ((is_held, record),) = seen
    assert (is_held, record["who"], sorted(record)) == (
        True,
        "this host's repair of its GPUs",
        ["plan", "run", "since", "who"],
    )
    assert not places.LOCK.exists()


def test_a_pool_with_as_many_hosts_out_as_may_be_keeps_the_ill_one(ill: Ill) -> None:
    ill.falls()
    balancer = Balancer("h2")
    with serving(balancer) as edge:
        program = ill.looks(ill.program(edge.url), 4)
        assert (ill.calls, ill.metric("repair_waits")) == ([], 1)
        assert program.kept["waits"] == "h2 of the pool are out of service, which is the limit"
        balancer.out.clear()
        ill.looks(program, 1)
    assert (ill.results, ill.metric("repair_waits")) == (["repair begun", "repaired"], 0)


def test_two_may_be_out_where_the_rollout_says_so(ill: Ill) -> None:
    ill.falls()
    with serving(Balancer("h2")) as edge:
        ill.looks(ill.program(edge.url, most=2))
    assert ill.results == ["repair begun", "repaired"]


def test_a_host_that_is_out_already_is_repaired_at_once(ill: Ill) -> None:
    """The repair takes no capacity from the pool; two such hosts would otherwise wait for each other for ever."""
    ill.falls()
    with serving(Balancer("h1", "h2")) as edge:
        ill.looks(ill.program(edge.url))
    assert ill.results == ["repair begun", "repaired"]


def test_of_two_simultaneous_repairs_one_waits_and_serves_again(ill: Ill) -> None:
    ill.falls()
    balancer = Balancer()
    balancer.goes_with_us = "h3"
    with serving(balancer) as edge:
        program = ill.looks(ill.program(edge.url))
    assert (ill.calls, hold_file("main").exists()) == ([], False)
    assert program.kept["waits"] == "h3 of the pool went out of service meanwhile"
    assert program.kept["tries"] == []


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_order_of_steps_repairs_more_hosts_than_may_be_out(most: int) -> None:
    """Six faulty hosts; each takes its steps at random moments: check, announce, check again, repair, end."""
    draw, names = random.Random(38), [f"h{number}" for number in range(6)]
    most_seen = 0
    for _ in range(200):
        out, steps = set[str](), dict.fromkeys(names, "look")
        for _ in range(60):
            name = draw.choice(names)
            seen = Pool(name, tuple(names), frozenset(out), name in out)
            if steps[name] == "look" and seen.has_room(most):
                out.add(name)
                steps[name] = "announced"
            elif steps[name] == "announced":
                steps[name] = "repairs" if len(seen.others_out) < most else "look"
                if steps[name] == "look":
                    out.remove(name)
            elif steps[name] == "repairs" and draw.random() < 0.3:
                out.remove(name)
                steps[name] = "look"
            repaired = list(steps.values()).count("repairs")
            most_seen = max(most_seen, repaired)
            assert repaired <= most
    assert most_seen == most


def test_hosts_announce_in_turn_by_the_clock() -> None:
    pools = [Pool(name, ("h1", "h2", "h3"), frozenset(), False) for name in ("h1", "h2", "h3")]
    for moment in range(0, 60, 3):
        waits = [pool.seconds_to_turn(moment) for pool in pools]
        assert waits.count(0.0) == 1
        assert max(waits) <= 2 * TURN_SECONDS
    assert pools[1].seconds_to_turn(3 * TURN_SECONDS + 4) == TURN_SECONDS - 4


def test_no_host_is_repaired_while_a_balancer_is_silent(ill: Ill) -> None:
    """The number of hosts that are out is then unknown."""
    ill.falls()
    with serving(Balancer()) as edge:
        program = ill.looks(ill.program(edge.url, "http://127.0.0.1:9"))
    assert ill.calls == []
    assert "edge does not answer" in program.kept["waits"]


def test_a_balancer_that_does_not_take_the_host_out_lets_nothing_be_stopped(
    ill: Ill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "HEARD_SECONDS", 0.05)
    ill.falls()
    balancer = Balancer()
    balancer.is_deaf = True
    with serving(balancer) as edge:
        ill.looks(ill.program(edge.url))
    assert (ill.calls, hold_file("main").exists()) == ([], False)


def test_somebody_else_s_drain_run_or_swap_is_not_disturbed(ill: Ill) -> None:
    ill.falls()
    hold_file("main").parent.mkdir()
    hold_file("main").write_text(json.dumps({"since": 1.0, "until": 9e9, "who": "ada"}))
    program = ill.looks(ill.program())
    assert program.kept["waits"] == "somebody else has drained main"
    hold_file("main").unlink()
    holding = [sys.executable, "-c", "import fcntl,sys; f=open(sys.argv[1],'a'); fcntl.flock(f,2); print(); input()"]
    for file, reason in (
        (places.LOCK, "a run is changing this host"),
        (ill.root / "servers/main/lock", "a swap of server main"),
    ):
        with subprocess.Popen([*holding, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as somebody:
            assert somebody.stdout and somebody.stdout.readline()
            assert reason in ill.looks(program).kept["waits"]
            somebody.communicate(b"\n")
    assert (ill.calls, ill.results) == ([], [])
    ill.looks(program)
    assert ill.results == ["repair begun", "repaired"]


def test_a_reboot_that_is_not_allowed_is_left_to_a_person_once(ill: Ill) -> None:
    ill.host.journal(LINE)
    program = ill.looks(ill.program(), 6)
    assert (ill.calls, ill.results, ill.metric("repair_person")) == ([], ["left to a person"], 1)
    assert "reboot the host" in program.kept["person"]


def test_another_card_is_left_to_a_person(ill: Ill) -> None:
    ill.falls(REAL.replace("No, No,", "No, Yes,"))
    assert "ask the provider" in ill.looks(ill.program(allowed="reboot"), 3).kept["person"]
    assert (ill.calls, ill.results) == ([], ["left to a person"])


def test_a_fault_that_comes_back_three_times_is_left_to_a_person(ill: Ill) -> None:
    """The count is reset once the GPU is fit again."""
    program = ill.program()
    for _ in range(4):
        ill.falls()
        ill.looks(program, 3)
    assert ill.results == [*["repair begun", "repaired"] * 3, "left to a person"]
    assert "repaired 3 times within a day" in program.kept["person"]
    assert "check the card" in ill.looks(ill.program(), 2).kept["person"]  # a restart of the program keeps the history
    (ill.root / "ill").unlink()
    assert ill.looks(program, 1).kept["person"] == ""
    assert ill.metric("repair_person") == 0


def test_the_next_day_it_may_be_repaired_again(ill: Ill) -> None:
    program = ill.program()
    program.kept["tries"] = [time.time() - 90_000.0] * 3
    ill.falls()
    ill.looks(program)
    assert ill.results == ["repair begun", "repaired"]


@pytest.mark.parametrize("trouble", ["stays", "broken"])
def test_a_repair_that_mends_nothing_has_failed_and_is_not_tried_for_ever(ill: Ill, trouble: str) -> None:
    ill.falls()
    ill.has(trouble)
    program = ill.program()
    for _ in range(8):
        ill.looks(program, 1)
        ill.falls()
    assert ill.results == [*["repair begun", "repair failed"] * 3, "left to a person"]
    assert not hold_file("main").exists()
    assert program.kept["totals"] == {"reset failed": 3}


def test_a_reset_that_nvidia_smi_refuses_becomes_a_reboot_only_where_that_is_allowed(
    ill: Ill, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill.falls()
    ill.has("refuses")
    program = ill.looks(ill.program(), 4)
    assert ill.calls == RESET
    assert "GPU 0: In use by another client" in program.kept["person"]
    monkeypatch.setattr(act, "REBOOT_SECONDS", 0.0)
    program.settings["allowed"] = "reboot"
    ill.looks(program, 1)
    assert ill.calls[len(RESET) : len(RESET) + 2] == ["stop triton@main.service", "reboot"]


def test_gpus_that_are_cut_into_instances_are_rebooted_and_not_reset(ill: Ill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "REBOOT_SECONDS", 0.0)
    ill.falls()
    ill.looks(ill.program(allowed="reboot", mig=True))
    assert ill.calls[:2] == ["stop triton@main.service", "reboot"]


def test_a_repair_by_reboot_is_proved_by_the_program_of_the_next_boot(
    ill: Ill, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl = systemd.systemctl

    def stopped(*words: str) -> int:
        if systemctl(*words) or words == ("reboot",):
            raise SystemExit(0)
        return 0

    ill.host.journal(LINE)
    program = ill.program(allowed="reboot")
    with monkeypatch.context() as going, pytest.raises(SystemExit):
        going.setattr(systemd, "systemctl", stopped)
        ill.looks(program)
    assert ill.calls == ["stop triton@main.service", "reboot"]
    assert hold_file("main").exists()  # the server stays on hold until the proof
    ill.boot = "second"
    ill.host.journal()
    ill.program(allowed="reboot").resume(time.time())
    assert (ill.results, hold_file("main").exists()) == (["repair begun", "repaired"], False)


def test_a_repair_that_was_cut_is_taken_up_and_servers_are_started(ill: Ill) -> None:
    program = ill.program(allowed="reboot")
    for phase, result in (("reset", "repaired"), ("proving", "repaired"), ("reboot", "repair failed")):
        program.kept |= {"phase": phase, "remedy": "reset", "boot": "first"}
        program.write(time.time())
        program.hold(time.time())
        again = ill.program(allowed="reboot")
        again.resume(time.time())
        assert (ill.results[-1], again.kept["phase"], hold_file("main").exists()) == (result, "", False)
        assert ill.calls[-1] == "start --no-block triton@main.service"


def test_a_host_that_serves_nothing_yet_is_not_judged(ill: Ill) -> None:
    """The host's driver may still be installing."""
    (ill.root / "servers/main/current").unlink()
    ill.falls()
    ill.looks(ill.program(), 4)
    assert (ill.calls, ill.results) == ([], [])


def test_a_repair_that_cannot_be_counted_does_not_begin(ill: Ill, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    ill.falls()
    program = ill.program()
    monkeypatch.setattr("host.repair.main.disk.replace_durably", full)
    ill.looks(program)
    assert [call for call in ill.calls if "reset -i" in call] == []
