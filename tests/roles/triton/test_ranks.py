"""`ranks.py`: mpirun on one host and its daemon on another, without ssh; as real processes on this computer."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roles._shipping.texts import HERE
from tests.ports import free_port

RANKS = HERE / "files" / "launch" / "ranks.py"
LEADER, MEMBER, STRANGER = "127.0.78.1", "127.0.78.2", "127.0.78.9"
WORDS = ["orted", "-mca", "ess", '"env"', "-mca", "orte_hnp_uri", f'"7.0;tcp://{LEADER}:4000"', "-mca", "plm", '"rsh"']
MPIRUN = f"""#!/bin/bash
$OMPI_MCA_plm_rsh_agent {MEMBER} {" ".join(f"'{word}'" for word in WORDS)} || exit 7
if [ "$1" = all_reduce_perf_mpi ]; then
  echo "# Avg bus bandwidth    : 12.5"
  exit STATUS
fi
SERVER &
wait
"""
SECONDS = 20


def module() -> Any:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("ranks", RANKS)
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Container:
    """A host's container: its own /tmp, and programs before those of this computer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "tmp"):
            (root / name).mkdir(parents=True)
        self.started: list[subprocess.Popen[bytes]] = []

    def program(self, name: str, text: str) -> None:
        """Writes a program on its PATH."""
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts ranks.py."""
        path = f"{self.root}/bin:{os.environ['PATH']}"
        places = {"TMPDIR": str(self.root / "tmp"), "HOME": str(self.root)}
        environment = {**os.environ, **places, "PATH": path}
        command = [sys.executable, "-B", str(RANKS), *words]
        with (self.root / "output").open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, start_new_session=True)
        self.started.append(process)
        return process


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[tuple[Container, Container, str]]:
    """The first host's container, a member's container, and a free port of the first host."""
    port = str(free_port())
    pair = Container(tmp_path / "leader"), Container(tmp_path / "member")
    pair[1].program("orted", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    yield *pair, port
    for process in [process for container in pair for process in container.started]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS)


def until(is_so: Callable[[], bool]) -> bool:
    """True as soon as the condition holds; False if it does not in time."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.05)
    return False


def lead(containers: tuple[Container, Container, str], status: int = 0) -> subprocess.Popen[bytes]:
    """Starts the first host's program, whose stand-in of mpirun ends with this status after a sum of the ranks."""
    leader, _member, port = containers
    text = MPIRUN.replace("SERVER", f"{sys.executable} -B {RANKS} serve sleep 60").replace("STATUS", str(status))
    leader.program("mpirun", text)
    return leader.start("lead", LEADER, port, MEMBER, "--", "mpirun", "--", "ranks")


def led(containers: tuple[Container, Container, str]) -> subprocess.Popen[bytes]:
    """Starts the first host's program and waits for its rank 0."""
    process, leader = lead(containers), containers[0]
    assert until((leader.root / "tmp/enginehouse-ranks/server").exists)
    return process


def test_a_member_becomes_the_daemon_that_mpirun_asked_for(containers: tuple[Container, Container, str]) -> None:
    member, port = containers[1], containers[2]
    follows = member.start("follow", LEADER, port, MEMBER)
    led(containers)
    assert follows.wait(SECONDS) == 0
    assert (member.root / "output").read_text().split() == [word.strip('"') for word in WORDS[1:]]


def test_ranks_add_up_before_the_first_start_of_a_release(containers: tuple[Container, Container, str]) -> None:
    """The member's daemon comes twice; a second start of the release asks for no sum."""
    leader, member, port = containers
    leader.program("all_reduce_perf_mpi", "")
    member.program("orted", "#!/bin/sh\necho daemon\n")
    follows = member.start("follow", LEADER, port, MEMBER)
    process = led(containers)
    assert follows.wait(SECONDS) == 0
    assert (member.root / "output").read_text() == "daemon\ndaemon\n"
    assert "12.5 GB/s" in (leader.root / "output").read_text()
    process.terminate()
    process.wait(SECONDS)
    (leader.root / "tmp/enginehouse-ranks/server").unlink()
    led(containers)
    assert "GB/s" not in (leader.root / "output").read_text()


def test_ranks_that_add_up_wrongly_start_nothing(containers: tuple[Container, Container, str]) -> None:
    leader = containers[0]
    leader.program("all_reduce_perf_mpi", "")
    assert lead(containers, status=3).wait(SECONDS) == 3
    assert not (leader.root / "tmp/enginehouse-ranks/server").exists()
    assert "no start" in (leader.root / "output").read_text()


def test_another_address_gets_no_start_line(containers: tuple[Container, Container, str]) -> None:
    led(containers)
    with socket.create_connection((LEADER, int(containers[2])), SECONDS, (STRANGER, 0)) as connection:
        assert connection.recv(100) == b""


def test_a_stop_reaches_the_program_that_answers_before_mpirun(containers: tuple[Container, Container, str]) -> None:
    """mpirun would kill the program a second later, with its requests."""
    process = led(containers)
    server = int((containers[0].root / "tmp/enginehouse-ranks/server").read_text())
    process.terminate()
    assert process.wait(SECONDS) == 0
    assert not Path(f"/proc/{server}").exists()


def test_ranks_that_outlive_the_program_that_answers_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream's launcher stops the ranks only after a program that succeeded."""
    ranks = module()
    monkeypatch.setattr(ranks, "END_SECONDS", 0)
    monkeypatch.setattr(ranks.tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    (ranks.folder() / "server").write_text(str(ended.pid))
    endless = subprocess.Popen(["sleep", "60"])
    assert ranks.until_end(endless, ranks.threading.Event()) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("orted", "no list"),
        ([1], "no list"),
        (["sh", "-c", "id"], "no start line of orted"),
        ([*WORDS, ";", "id", "x"], "no start line of orted"),
        ([*WORDS, "-mca", "x"], "no start line of orted"),
        (["orted", "-mca", "ess", "env"], "not at the address"),
        (["orted", "-mca", "orte_hnp_uri", f'"7.0;tcp://{STRANGER}:4000"'], "not at the address"),
        (["orted", "-mca", "orte_hnp_uri", f'"7.0;tcp://{LEADER},{STRANGER}:4000"'], "not at the address"),
        (["orted", "-mca", "orte_hnp_uri", f'"7.0;tcp://{LEADER}:4000;tcp://{STRANGER}:1"'], "not at the address"),
    ],
)
def test_a_line_that_starts_anything_else_is_refused(line: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        module().daemon(line, LEADER)


def test_the_line_of_a_real_mpirun_is_taken() -> None:
    """Debian's Open MPI 4.1.4, recorded on 2026-11-27 between two network namespaces."""
    line = json.loads((Path(__file__).parent / "orted.json").read_text())
    words = module().daemon(line, "10.77.0.1")
    assert words[0] == "orted" and "python3 -B /x/agent agent" in words
