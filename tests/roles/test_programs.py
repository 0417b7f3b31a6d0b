"""The programs of a host are published whole: the command itself, run by a shell in a folder of the test."""

from __future__ import annotations

import ast
import base64
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from host.__main__ import PROGRAMS as PROGRAMS_OF_A_HOST
from roles._shipping import programs
from roles._shipping.places import PROGRAMS, command
from roles._shipping.tar import tarred
from roles._shipping.texts import HERE
from tests.roles.fake import run

ONE = {"__init__.py": b"", "__main__.py": b"print('one')\n", "build/main.py": b""}
TWO = {"__init__.py": b"", "__main__.py": b"print('two')\n"}
REAL = programs.sources()


class Host:
    """/usr/local/lib/enginehouse in a folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.link = root / "lib", root / "lib/host"
        self.options = ["-B"]
        self.root.mkdir()

    def publish(self, files: dict[str, bytes], before: str = "") -> int:
        """Exit status of the command; `before` is shell inserted before a word of it."""
        sent = base64.encodebytes(tarred({f"host/{name}": content for name, content in files.items()}))
        command = programs.publishing(programs.digest(files)).replace(PROGRAMS, str(self.root))
        return subprocess.run(["sh", "-c", before + command], input=sent, check=False).returncode

    def version(self) -> str:
        """The installed version by the role's fact."""
        command = programs.Version().command().replace(PROGRAMS, str(self.root))
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        return programs.Version().process(ran.stdout.splitlines())

    def starts(self, *words: str) -> str:
        """Output of a program that is started through the link."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = [sys.executable, *self.options, str(self.link), *words]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return (ran.stdout + ran.stderr).strip()

    def versions(self) -> list[str]:
        """Names of the kept versions, and of leftovers beside them."""
        return sorted(os.listdir(self.root / "versions"))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def running(host: Host) -> Iterator[Callable[[str], None]]:
    """A running program of a version, with the lock of `__main__`, until the test ends."""
    held: list[int] = []

    def hold(version: str) -> None:
        held.append(os.open(host.root / "versions" / version / "host", os.O_RDONLY))
        fcntl.flock(held[-1], fcntl.LOCK_SH)

    yield hold
    for handle in held:
        os.close(handle)


def name(files: dict[str, bytes]) -> str:
    """The name of a version."""
    return programs.digest(files)[:16]


def test_the_fact_compares_the_published_programs(host: Host) -> None:
    assert (host.version(), host.publish(ONE), host.version()) == ("", 0, programs.digest(ONE))


def test_a_folder_that_hands_its_group_down_changes_nothing(host: Host) -> None:
    """/usr/local/lib of a Debian with the group staff: new directories in it are set-group-ID too."""
    host.root.chmod(0o2755)
    assert (host.publish(ONE), host.version()) == (0, programs.digest(ONE))


def test_the_first_publication_prints_no_error(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    host.publish(ONE)
    assert capfd.readouterr().err == ""


def test_a_host_that_has_this_version_is_left_alone() -> None:
    ran = run(programs.installed, answers={"sha256sum": f"{programs.digest(REAL)}  -"})
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_host_without_it_gets_it_and_dry_says_so() -> None:
    step = ("Programs | Publish the programs of the host",)
    assert run(programs.installed).changed == step
    assert run(programs.installed, dry=True).would_change == step


@pytest.mark.parametrize("program", PROGRAMS_OF_A_HOST)
def test_every_host_program_starts_from_the_published_folder(host: Host, program: str) -> None:
    """Each program's imports work. Without arguments it prints its usage, and the published files do not change."""
    host.publish(REAL)
    output = host.starts(program)
    assert ("ModuleNotFoundError" in output, "ImportError" in output, output == "") == (False, False, False)
    assert not list((host.root / "versions").rglob("__pycache__"))


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("print('other')\n"),
        lambda path: path.chmod(0o666),
        lambda path: path.with_name("more.py").write_text(""),
        lambda path: path.unlink(),
    ],
)
def test_a_program_changed_by_hand_is_published_again(host: Host, change: Callable[[Path], object]) -> None:
    host.publish(ONE)
    change(host.link / "__main__.py")
    assert host.version() != programs.digest(ONE)
    assert (host.publish(ONE), host.version(), host.starts()) == (0, programs.digest(ONE), "one")


def test_a_program_that_runs_keeps_its_version(host: Host, running: Callable[[str], None]) -> None:
    host.publish(ONE)
    running(name(ONE))
    for files in (TWO, ONE | {"more.py": b""}, TWO | {"more.py": b""}):
        assert host.publish(files) == 0
    assert name(ONE) in host.versions()


def test_only_the_version_before_is_kept_of_those_that_nothing_runs(host: Host) -> None:
    third = TWO | {"more.py": b""}
    for files in (ONE, TWO, third):
        host.publish(files)
    assert host.versions() == sorted([name(TWO), name(third)])


def test_going_back_to_the_version_before_is_a_publication_like_any_other(host: Host) -> None:
    for files in (ONE, TWO, ONE):
        host.publish(files)
    assert (host.starts(), host.version(), host.versions()) == (
        "one",
        programs.digest(ONE),
        sorted(map(name, (ONE, TWO))),
    )


@pytest.mark.parametrize("program", ["flock", "rm", "mkdir", "tar", "chown", "chmod", "find", "mv", "sync", "ln"])
def test_killed_anywhere_the_old_version_starts_and_the_next_run_leaves_nothing_else(
    tmp_path: Path, program: str
) -> None:
    """Killed before and after each program of the command, at its first, second and third call."""
    for call in range(1, 4):
        for after in (False, True):
            (tmp_path / f"{call}{after}").mkdir()
            place = Host(tmp_path / f"{call}{after}")
            place.publish(ONE)
            killed = place.publish(TWO, before=killing(program, call, after))
            assert place.starts() in ({"one", "two"} if killed else {"two"})
            if place.version() != programs.digest(TWO):
                assert place.publish(TWO) == 0
            assert (place.starts(), place.versions()) == ("two", sorted([name(ONE), name(TWO)]))
            assert sorted(os.listdir(place.root)) == ["host", "versions"]


def killing(program: str, call: int, after: bool) -> str:
    """Shell in which the given call of a program ends the shell as a power cut would."""
    real = f"command {program}"
    end = f"kill -{signal.SIGKILL.value} $$"
    act = f'{real} "$@"; {end}' if after else end
    return f'calls=0; {program}() {{ calls=$((calls + 1)); if [ $calls = {call} ]; then {act}; fi; {real} "$@"; }}; '


def test_byte_code_that_a_person_left_is_no_other_version(host: Host) -> None:
    """A person typed the command without `-B`; units and roles always pass it."""
    host.publish(REAL)
    host.options = []
    host.starts("undo", "--help")
    assert list((host.root / "versions").rglob("__pycache__"))
    assert host.version() == programs.digest(REAL)


def test_no_unit_or_command_leaves_byte_code() -> None:
    texts = [path.read_text() for path in (HERE / "files/units").iterdir()]
    started = [line for text in texts for line in text.splitlines() if "/enginehouse/host " in line]
    assert started and all("/usr/bin/python3 -B /usr/local/lib/enginehouse/host " in line for line in started)
    assert command("swap") == "/usr/bin/python3 -B /usr/local/lib/enginehouse/host swap"


def test_half_a_tar_publishes_nothing(host: Host) -> None:
    """The control machine was killed while sending."""
    host.publish(ONE)
    sent = base64.encodebytes(tarred({f"host/{path}": content for path, content in REAL.items()}))
    command = programs.publishing("b" * 64).replace(PROGRAMS, str(host.root))
    for half in (sent[: len(sent) // 2], b""):
        assert subprocess.run(["sh", "-c", command], input=half, capture_output=True, check=False).returncode
        assert (host.starts(), host.version()) == ("one", programs.digest(ONE))


def test_a_broken_connection_during_the_tar_delays_no_other_host(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's sshd may wait for hours for the rest; the lock for the next run is free long before."""
    host.publish(ONE)
    with monkeypatch.context() as hurried:
        hurried.setattr(programs, "SENT_WITHIN_SECONDS", 1)
        command = programs.publishing(programs.digest(TWO)).replace(PROGRAMS, str(host.root))
    with subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as broken:
        try:
            assert broken.wait(300) != 0
        finally:
            broken.kill()
    assert (host.starts(), host.publish(TWO), host.starts()) == ("one", 0, "two")


def test_the_programs_parse_on_the_oldest_python_of_a_host() -> None:
    """Ubuntu 22.04 has 3.10."""
    for path, content in REAL.items():
        ast.parse(content, path, feature_version=(3, 10))
