"""Installation of the dead man's switch, in an order that survives a killed run."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from roles._pyinfra import undo
from tests.roles.fake import run

FILES = Path(__file__).parents[3] / "files"
UNIT = (f"/etc/systemd/system/{undo.UNIT}", undo.UNIT, "644")
DOCKER_BACK = (undo.program("docker-back.sh"), "docker-back.sh", "755")


def commands(*there: tuple[str, str, str]) -> list[str]:
    """Commands on a host with these files: writes as the last part of their path, other commands whole."""
    seen = [
        f"{sha256(next(FILES.glob(f'*/{name}')).read_bytes()).hexdigest()} {mode} root {path}"
        for path, name, mode in there
    ]
    ran = run(lambda: undo.installed(), answers={"%n %a %U": seen}).commands
    return [line.split("\n")[0].split()[-1] if line.startswith("mkdir") else line for line in ran]


def test_a_bare_host_has_the_unit_enabled_before_it_has_everything() -> None:
    assert commands() == [UNIT[0], "systemctl daemon-reload", f"systemctl enable {undo.UNIT}",
                          DOCKER_BACK[0]]  # fmt: skip


def test_a_run_that_was_killed_before_it_enabled_the_unit_is_made_good() -> None:
    assert commands(UNIT) == [f"systemctl enable {undo.UNIT}", DOCKER_BACK[0]]


def test_a_host_that_has_everything_is_left_alone() -> None:
    assert commands(UNIT, DOCKER_BACK) == []
