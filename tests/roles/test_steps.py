"""The operation of most roles: its fact, its answer to --dry, and its refusals."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyinfra import host
from pyinfra.api import FactBase

from deploy.refusals.errors import Refusal
from roles._pyinfra.settings import overridden
from roles._pyinfra.steps import CachedFact, Refuse, check, step, write
from roles.docker.defaults import Defaults
from tests.roles.fake import Ran, Then, run


class Lines(FactBase[list[str]]):
    """A fact with the fake host's answer."""

    default = list

    def command(self) -> str:
        return "what is there"

    def process(self, output: list[str]) -> list[str]:
        return output


def make(line: str) -> object:
    """A decision: `make LINE` unless the line exists."""
    return lambda seen: [] if line in seen else [f"make {line}"]


def two_steps() -> None:
    look = CachedFact(Lines)
    first = step(look, make("a"), name="First")
    step(look, make("b"), after=[first], name="Second")
    step(look, lambda seen: ["restart"], only_after=[first], name="Restart")


def played(answer: object, **how: bool) -> Ran:
    return run(two_steps, answers={"what is there": answer}, **how)


def test_present_state_is_left_unchanged() -> None:
    assert played(["a", "b"]).commands == ()


def test_a_finished_host_is_asked_once_in_each_phase() -> None:
    assert len(played(["a", "b"]).shell["host"]) == 2


def test_after_a_change_the_host_is_asked_again() -> None:
    ran = played(Then([], [], ["a", "b"]))
    assert ran.commands == ("make a", "restart")


def test_dry_lists_the_possible_consequences_of_a_change() -> None:
    assert played([], dry=True).would_change == ("First", "Second", "Restart")


def test_dry_knows_that_nothing_follows_no_change() -> None:
    assert played(["a"], dry=True).would_change == ("Second",)


def test_a_step_only_after_others_stays_silent_without_them() -> None:
    assert played(["a"]).changed == ("Second",)


def refusing() -> None:
    def judge(seen: list[str]) -> Iterator[Refuse]:
        if "bad" in seen:
            yield Refuse(Refusal("this is bad", attempt="do better", state="nothing was touched"))

    check(CachedFact(Lines), judge, name="Check")


def test_a_refusal_fails_its_host_alone() -> None:
    ran = run(refusing, hosts=("a", "b"), answers={"a": {"what is": "bad"}, "b": {"what is": "good"}})
    assert (ran.failed_hosts, ran.stopped) == (("a",), "")


def test_a_refusal_is_printed_line_by_line() -> None:
    log = run(refusing, answers={"what is": "bad"}).log
    assert "[@fake/host]   try    do better" in log


def test_a_passed_check_is_no_change() -> None:
    assert run(refusing, answers={"what is": "good"}).would_change == ()


def test_a_file_is_on_the_disk_before_it_is_replaced_by_rename() -> None:
    assert str(write("/etc/a/b.conf", "x\n", mode="0600")) == (
        "mkdir -p /etc/a && cat > /etc/a/b.conf.enginehouse-new"
        " && test $(stat -c %s /etc/a/b.conf.enginehouse-new ) = 2 && chmod 0600 /etc/a/b.conf.enginehouse-new"
        " && sync /etc/a/b.conf.enginehouse-new && mv -T /etc/a/b.conf.enginehouse-new /etc/a/b.conf"
    )


@pytest.mark.parametrize("arrived", ["", "first line\n"])
def test_an_incomplete_transfer_does_not_replace_the_existing_file(tmp_path: Path, arrived: str) -> None:
    file = tmp_path / "daemon.json"
    file.write_text("as it was\n")
    command = str(write(str(file), "first line\nsecond line ü\n"))
    assert subprocess.run(["sh", "-c", command], input=arrived, text=True).returncode == 1
    assert file.read_text() == "as it was\n"


def test_a_file_that_arrived_whole_replaces_the_old_file(tmp_path: Path) -> None:
    command = str(write(str(tmp_path / "new/daemon.json"), "first line\nsecond line ü\n"))
    assert subprocess.run(["sh", "-c", command], input="first line\nsecond line ü\n", text=True).returncode == 0
    assert (tmp_path / "new/daemon.json").read_text() == "first line\nsecond line ü\n"


def test_the_action_after_a_file_is_in_the_command_that_replaces_it(tmp_path: Path) -> None:
    command = str(write(str(tmp_path / "a"), "x\n", then=f"touch {tmp_path}/followed"))
    subprocess.run(["sh", "-c", command], input="", text=True)
    assert not (tmp_path / "followed").exists()
    subprocess.run(["sh", "-c", command], input="x\n", text=True)
    assert (tmp_path / "followed").exists()


def test_an_override_replaces_one_default() -> None:
    sizes = []
    data = {"docker_settings": {"log_files": 9}}
    run(lambda: sizes.append(overridden(host, "docker", Defaults()).log_files), data=data)
    assert sizes == [9]


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refusal, match="did you mean `log_files`"):
        run(lambda: overridden(host, "docker", Defaults()), data={"docker_settings": {"log_file": 9}})
