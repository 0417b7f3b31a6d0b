"""The doctor sends each host one command, proposes no operation, and reports all hosts together."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.doctor.archive import let_in
from deploy.doctor.readings import Readings
from deploy.doctor.report import Report
from deploy.io.doctor import examined
from deploy.refusals.errors import Refusal
from deploy.slices.traffic import BalancerSlice
from roles import doctor
from roles._shipping.places import SERVERS
from roles.doctor.questions import MOST_BYTES, About, asking, names_of, questions, script
from tests.roles.fake import Ran, run
from tests.roles.slices import SERVER, a_slice
from tests.unit.doctored import BARE, HEALTHY, smi

ROOT = Path(__file__).parents[3]
RELEASE = {"main": "0f63ebc3e7737224"}
BALANCER = BalancerSlice(
    host="edge", os="debian-13", haproxy="3.0", address="0.0.0.0", metrics_port=8405, certificate="",
    certificate_key=None, routes=(),
)  # fmt: skip
QUICK = {"fake_delay": 0, "fake_delay_jitter": 0}
BROKEN = {**HEALTHY, "smi": smi(("GPU Recovery Action", "Reset"))}


def printed(texts: Mapping[str, str], **ended: str) -> list[str]:
    """Lines of a host with these answers; its clock is this machine's, because clocks have their own test."""
    texts = {name: text for name, text in texts.items() if name != "clock"}
    lines = [f"{name}|{line}" for name, text in texts.items() for line in text.splitlines()]
    return [*lines, "clock#0", *(f"{name}#{ended.get(name, '0')}" for name in texts)]


DONE_HOST, BROKEN_HOST, BARE_HOST = printed(HEALTHY), printed(BROKEN), printed(BARE, smi="127")


def looked_at(**hosts: list[str] | dict[str, object]) -> Ran:
    """The doctor's run on hosts that print these lines."""
    return run(
        lambda: doctor.examine(a_slice(), RELEASE),
        answers={name: {"begin smi": lines} for name, lines in hosts.items()},
        hosts=tuple(hosts),
        data={"json": "yes"},
    )


def printed_report(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The report on standard output, as JSON."""
    return dict(json.loads(capsys.readouterr().out))


def ids(report: Mapping[str, object]) -> dict[str, list[str]]:
    """The ids of the findings, by host."""
    hosts = report["hosts"]
    assert isinstance(hosts, dict)
    return {host.removeprefix("@fake/"): [finding["id"] for finding in findings] for host, findings in hosts.items()}


def test_one_report_covers_a_bare_a_finished_and_a_broken_host(capsys: pytest.CaptureFixture[str]) -> None:
    looked_at(bare=BARE_HOST, done=DONE_HOST, broken=BROKEN_HOST)
    report = printed_report(capsys)
    assert ids(report) == {"bare": ["nothing-deployed"], "done": [], "broken": ["recovery-reset"]}
    assert (report["verdict"], report["exit_code"], report["not_asked"]) == ("broken", 2, {})


@pytest.mark.parametrize("host", [BARE_HOST, DONE_HOST, BROKEN_HOST])
def test_no_operation_is_proposed_and_the_host_gets_one_command(host: list[str]) -> None:
    ran = looked_at(host=host)
    assert (ran.steps, ran.would_change, ran.commands, ran.failed_hosts) == ((), (), (), ())
    assert [(len(re.findall(r"^begin", heard.command, re.M)), heard.executing) for heard in ran.shell["host"]] == [
        (len(HEALTHY) + 1, False)
    ]


def test_a_silent_host_is_reported_beside_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    ran = looked_at(silent={"success": False}, done=DONE_HOST)
    report = printed_report(capsys)
    assert (ran.failed_hosts, ids(report), report["exit_code"]) == (("silent",), {"done": []}, 1)
    assert list(report["not_asked"]) == ["@fake/silent"]


def test_a_silent_host_is_reported_if_it_is_the_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    looked_at(silent={"success": False})
    assert printed_report(capsys)["exit_code"] == 1


def test_garbage_instead_of_answers_is_reported_as_unread(capsys: pytest.CaptureFixture[str]) -> None:
    looked_at(host=["what", "smi", "\x00|#"])
    assert set(ids(printed_report(capsys))["host"]) == {"unread"}


def test_people_get_text(capsys: pytest.CaptureFixture[str]) -> None:
    run(lambda: doctor.examine(a_slice(), RELEASE), answers={"begin smi": BROKEN_HOST})
    text = capsys.readouterr().out
    assert "broken  recovery-reset  GPU 0  on @fake/host" in text and text.endswith(
        "verdict: broken, 1 of 1 hosts asked\n"
    )


def test_an_archive_is_a_new_private_file_of_printed_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.tar.gz"
    data = {"json": "yes", "report": str(path)}
    ran = run(lambda: doctor.examine(a_slice(), RELEASE), answers={"begin smi": DONE_HOST}, data=data)
    output = capsys.readouterr()
    line = output.err.strip().removeprefix("writing ")
    assert line.startswith(f"{path}: {path.stat().st_size:,} bytes, ")
    assert (json.loads(output.out)["archive"], oct(path.stat().st_mode)[-3:], ran.failed_hosts) == (line, "600", ())


def test_a_report_never_overwrites_a_file_and_asks_no_host(tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    path.write_text("mine")
    with pytest.raises(Refusal, match="it is there already"):
        run(lambda: doctor.examine(a_slice(), RELEASE), answers={"begin smi": DONE_HOST}, data={"report": str(path)})
    assert path.read_text() == "mine"


def test_a_balancer_is_asked_of_its_machine_only() -> None:
    checks = questions(BALANCER)
    assert {"smi", "pci", "ready", "servers"} & set(checks) == set()
    assert {"units", "certificates", "listening", "lock"} <= set(checks)
    assert "-u enginehouse-balancer" in checks["causes"] and "triton@" not in checks["causes"]


def test_the_command_fits_into_one_argument_of_a_shell() -> None:
    """Linux allows 128 KiB for an argument; sudo and a login shell quote the command once more."""
    assert len(shlex.quote(script(About(a_slice())))) < 100_000


def test_every_question_has_an_answer_in_the_recorded_host() -> None:
    """A question without a rule, or a rule without a question, fails this test."""
    assert set(names_of(About(a_slice()))) == set(HEALTHY)


def test_each_model_is_asked_whether_it_is_ready() -> None:
    shell = questions(a_slice(servers=(replace(SERVER, address="10.0.0.7", http_port=9000),)))["ready"]
    assert "ready main 10.0.0.7 9000 - /v2/health/ready" in shell


def test_no_question_writes() -> None:
    """No command of a question changes a host, and output is redirected only to /dev/null."""
    for shell in questions(a_slice()).values():
        words = set(shell.replace(";", " ").split())
        assert words & {"rm", "mv", "tee", "touch", "start", "stop", "restart", "sync", "mount", "kill"} == set()
        assert (
            shell.replace("2>/dev/null", "")
            .replace(">/dev/null", "")
            .replace("3<>/dev/tcp", "")
            .replace("3>&-", "")
            .replace(">&3", "")
            .count(">")
            == 0
        )


def bash(command: str) -> Readings:
    """The readings of this machine after the doctor's command ran on it."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, timeout=300)
    return Readings.parse(done.stdout.splitlines())


def test_answers_come_back_whole_with_the_status_of_each() -> None:
    read = bash(asking({"one": "echo a; echo '  b | c#1'; exit 3", "two": "true", "three": "nothing-like-this"}))
    assert (read.text("one"), read.text("two")) == ("a\n  b | c#1", "")
    assert read.ended == {"one": "3", "two": "0", "three": "127"}
    assert "not found" in read.text("three")


def test_a_missing_nvidia_smi_is_recorded_in_the_archive() -> None:
    read = bash(asking({"smi": f"PATH=/nowhere; {questions(a_slice())['smi']}"}))
    assert (read.ended, let_in(read).text("smi")) == ({"smi": "127"}, "nvidia-smi: command not found")


@pytest.mark.parametrize("trtllm", ["1.2.1", ""])
def test_the_archive_keeps_each_servers_image_from_its_release(trtllm: str, tmp_path: Path) -> None:
    (release := tmp_path / "main/current").mkdir(parents=True)
    image = {"triton_core": "2.71.0", "trtllm": trtllm, "reference": "example.com/triton:ours"}
    (release / "server.json").write_text(json.dumps({"image": image, "address": "::"}, indent=2, sort_keys=True))
    read = bash(asking({"images": questions(a_slice())["images"].replace(str(SERVERS), str(tmp_path))}))
    assert read.text("images") == f"main triton_core 2.71.0 trtllm {trtllm}".strip()
    assert let_in(read).text("images") == read.text("images")


def test_held_packages_are_listed_as_installed_and_half_removed_ones_not(tmp_path: Path) -> None:
    """The test's example is Docker, whose packages this project holds."""
    lines = r"hi  containerd.io 1.7.24-1\nii  haproxy 2.6.12-1+deb12u3\nrc  docker.io 20.10.24\n"
    (program := tmp_path / "dpkg-query").write_text(f"#!/bin/sh\nprintf '{lines}'; exit 1\n")
    program.chmod(0o755)
    read = bash(asking({"installed": f"PATH={tmp_path}:$PATH; {questions(a_slice())['installed']}"}))
    packages = read.lines("installed")[:2]
    assert packages == ["containerd.io 1.7.24-1", "haproxy 2.6.12-1+deb12u3"]
    assert "docker.io" not in read.text("installed")
    assert let_in(read).lines("installed")[:2] == packages


def test_a_slow_check_is_late_and_endless_output_is_cut() -> None:
    """The other checks are answered, and no process of the slow one remains. A process that hangs in the driver
    behaves in this way."""
    of_this_run = f"4321.{os.getpid()}"
    stuck = f"echo begun; trap '' TERM; (sleep {of_this_run}; true) & wait"
    read = bash(asking({"stuck": stuck, "endless": "yes", "well": "echo yes"}, 5))
    assert (read.ended, read.text("stuck")) == ({"stuck": "late", "endless": "cut", "well": "0"}, "begun")
    assert 0 < len(read.text("endless")) <= MOST_BYTES
    assert of_this_run not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_the_whole_script_runs_on_a_machine_that_has_nothing_of_ours() -> None:
    """The machine is this one: usually without systemd, and without a GPU."""
    read = bash(script(About(a_slice())))
    assert set(read.ended) == set(HEALTHY)
    assert (read.text("user").isdigit(), read.has("room"), "%" in read.text("inodes")) == (True, True, True)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Four hosts of a shipped inventory, examined as by `enginehouse doctor`: doctor.py in a separate process."""
    text = (ROOT / "inventories/h100.py").read_text()
    printing = {"bare": BARE_HOST, "done": DONE_HOST, "broken": BROKEN_HOST}
    hosts = [(f"@fake/{name}", {**QUICK, "fake_responses": {"begin smi": lines}}) for name, lines in printing.items()]
    away = ("far", {"ssh_hostname": "127.0.0.1", "ssh_port": 1})
    file = tmp_path_factory.mktemp("doctor") / "fleet.py"
    file.write_text(text.replace('["h100-01.example.internal"]', repr([*hosts, away])))
    return examined(str(file), with_drift=False)


def test_the_command_gets_the_findings_of_each_host(report: Report) -> None:
    """The plan is made as for a deploy, so a release other than the planned one is reported."""
    ids_by_host = {host: [finding.id for finding in listed] for host, listed in report.findings.items()}
    assert ids_by_host == {
        "@fake/bare": ["nothing-deployed"],
        "@fake/broken": ["recovery-reset", "release-differs"],
        "@fake/done": ["release-differs"],
    }


def test_an_unreachable_host_is_named_with_the_reason(report: Report) -> None:
    assert (list(report.unasked), report.exit_code) == (["far"], 1)
    assert "Could not connect" in report.unasked["far"]
