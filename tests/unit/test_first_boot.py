"""The program of a first boot: its commands, its end, and its state. apt, curl and Python are stand-ins."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUB = '#!/bin/sh\necho "{name} $*" >>"$CALLS"\n{body}\n'
VENV = """
[ "$1" = -m ] || exit 9
mkdir -p "$3/bin"
for program in pip pyinfra; do
    {
        printf '#!/bin/sh\\n(echo "%s $ENGINEHOUSE_HERE $*"; env | grep ^HF_) >>"$CALLS"\\n' "$program"
        printf 'eval "$%s_DOES"\\nexit ${%s_EXIT:-0}\\n' "$program" "$program"
    } >"$3/bin/$program"
    chmod +x "$3/bin/$program"
done
"""


@dataclass
class Boot:
    """A host's directories below one folder, and its settings."""

    root: Path
    sha256: str = ""
    source: str = ""
    secrets: str = ""
    proxy: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs the program once; its calls are recorded."""
        text = (ROOT / "files/shell/first-boot.sh").read_text("utf-8")
        for folder in ("/etc/", "/var/lib/", "/opt/", "/run/"):
            text = text.replace(f"{folder}enginehouse-first-boot", f"{self.root}{folder}enginehouse-first-boot")
        values = {"NAME": "gpu-1", "PLAN": "plan-1", "INVENTORY": "inventories/mine.py", "SECRETS": self.secrets}
        values |= {"FROM": self.source, "SHA256": self.sha256, **self.proxy}
        self.settings.mkdir(parents=True, exist_ok=True)
        (self.root / "run").mkdir(exist_ok=True)
        (self.settings / "settings").write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))
        for name, body in {"apt-get": "", "systemctl": 'echo "$SYSTEM"', "curl": "exit 22", "python3": VENV}.items():
            program = self.root / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(STUB.format(name=name, body=body))
            program.chmod(0o755)
        calls = self.root / "calls"
        calls.write_text("")
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "CALLS": str(calls), **variables}
        done = subprocess.run(
            ["sh"], input=text, env=environment, cwd=self.root, capture_output=True, text=True, check=False
        )
        self.calls = calls.read_text().splitlines()
        return done

    @property
    def settings(self) -> Path:
        """The directory that cloud-init writes."""
        return self.root / "etc/enginehouse-first-boot"

    @property
    def state(self) -> tuple[str, str, int | None]:
        """State, step and exit code of the state file."""
        read = json.loads((self.root / "var/lib/enginehouse-first-boot/state.json").read_text())
        return read["state"], read["step"], read["exit"]

    @property
    def deploys(self) -> list[str]:
        """The calls of pyinfra."""
        return [call for call in self.calls if call.startswith("pyinfra")]


@pytest.fixture(params=["", "enginehouse/"], ids=["without-a-folder", "in-a-folder"])
def boot(tmp_path: Path, request: pytest.FixtureRequest) -> Boot:
    """A host with the archive on its image, as `git archive` packs it with and without --prefix."""
    (tmp_path / "archive").mkdir()
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as archive:
        for name in ("deploy.py", "inventories/mine.py", "locks/requirements.lock"):
            file = tmp_path / "archive" / Path(name).name
            file.write_text(name)
            archive.add(file, f"{request.param}{name}")
    digest = hashlib.sha256((tmp_path / "archive.tar.gz").read_bytes()).hexdigest()
    return Boot(tmp_path, digest, str(tmp_path / "archive.tar.gz"))


def test_a_verified_archive_is_deployed_to_this_host_alone(boot: Boot) -> None:
    """The first boot uses the locked packages, and expects the exported plan."""
    done = boot.run()
    assert (done.returncode, boot.state) == (0, ("serving", "deploy", 0)), done.stderr
    assert boot.deploys == ["pyinfra gpu-1 inventories/mine.py deploy.py -y --limit gpu-1 --data expect=plan-1"]
    assert any("--require-hashes -r locks/requirements.lock" in call for call in boot.calls)
    assert (boot.root / "var/lib/enginehouse-first-boot/served").exists()


def test_every_program_of_a_first_boot_goes_out_through_its_proxy(boot: Boot) -> None:
    """apt, curl, pip and the deploy read it from the environment; without a proxy these programs do not have the
    variable."""
    boot.proxy = {"PROXY": "http://proxy.example:3128", "DIRECT": "localhost,.corp.example"}
    shown = "env | grep -E '^[a-z]+_proxy=' >>\"$CALLS\"; true"
    assert boot.run(pyinfra_DOES=shown, pip_DOES=shown).returncode == 0
    variables = ["http_proxy=http://proxy.example:3128", "https_proxy=http://proxy.example:3128"]
    variables.append("no_proxy=localhost,.corp.example,169.254.169.254,metadata.google.internal")
    assert sorted(call for call in boot.calls if call.partition("=")[0].endswith("_proxy")) == sorted(variables * 2)
    boot.proxy = {}
    boot.run(pyinfra_DOES=shown, pip_DOES=shown)
    assert not [call for call in boot.calls if call.partition("=")[0].endswith("_proxy")]


def test_upgrades_are_held_before_the_first_package_and_let_go_at_the_end(boot: Boot) -> None:
    boot.run()
    assert boot.calls[0].startswith("systemctl mask --runtime --now apt-daily.timer")
    assert boot.calls[-2].startswith("systemctl unmask --runtime apt-daily.timer")


def test_a_first_boot_that_fails_lets_upgrades_go_and_leaves_no_fetched_secret(boot: Boot) -> None:
    boot.secrets = "HF_TOKEN"
    boot.settings.mkdir(parents=True)
    (boot.settings / "fetch-secrets").write_text("echo HF_TOKEN=secret; exit 3\n")
    assert (boot.run().returncode, boot.state) == (3, ("failed", "read the secrets", 3))
    assert [call.split()[:3] for call in boot.calls[-2:]] == [
        ["systemctl", "unmask", "--runtime"],
        ["systemctl", "start", "apt-daily.timer"],
    ]
    assert list((boot.root / "run").iterdir()) == []


def test_no_file_of_another_archive_is_run(boot: Boot) -> None:
    """The archive is removed, and its digest printed."""
    seen, boot.sha256 = boot.sha256, "5e" * 32
    done = boot.run()
    assert (done.returncode, boot.state) == (65, ("failed", "verify the archive", 65))
    assert f"has SHA-256 {seen}, not {boot.sha256}; it was removed" in done.stderr
    assert list((boot.root / "opt/enginehouse-first-boot" / boot.sha256).iterdir()) == []
    assert not [call for call in boot.calls if call.startswith(("python3", "pip", "pyinfra"))]


def test_a_url_that_does_not_answer_ends_in_a_state_that_names_the_step(boot: Boot) -> None:
    """The state has curl's exit code, and the command for another attempt."""
    boot.source = "https://files.example.internal/enginehouse.tar.gz"
    done = boot.run()
    assert (done.returncode, boot.state) == (22, ("failed", "fetch the archive", 22))
    assert f"could not be fetched from {boot.source}" in done.stderr
    assert "type: systemctl start enginehouse-first-boot" in done.stderr


def test_a_failed_deploy_fails_the_unit_with_its_exit_code_and_may_be_tried_again(boot: Boot) -> None:
    assert (boot.run(pyinfra_EXIT="1").returncode, boot.state) == (1, ("failed", "deploy", 1))
    assert not (boot.root / "var/lib/enginehouse-first-boot/served").exists()
    assert (boot.run().returncode, boot.state) == (0, ("serving", "deploy", 0))


def test_a_reboot_that_the_deploy_asks_for_is_no_failure_and_the_next_boot_goes_on(boot: Boot) -> None:
    """The environment exists by then, and is not made again."""
    done = boot.run(pyinfra_DOES="kill -TERM $PPID", SYSTEM="stopping")
    assert (done.returncode, boot.state) == (0, ("running", "reboot", None)), done.stderr
    assert not (boot.root / "var/lib/enginehouse-first-boot/served").exists()
    assert (boot.run().returncode, boot.state) == (0, ("serving", "deploy", 0))
    assert [call for call in boot.calls if call.startswith(("python3", "pip"))] == []


def test_a_first_boot_that_somebody_stops_has_failed(boot: Boot) -> None:
    done = boot.run(pyinfra_DOES="kill -TERM $PPID", SYSTEM="running")
    assert (done.returncode, boot.state) == (143, ("failed", "deploy", 143)), done.stderr


def test_a_package_without_its_hash_ends_it_before_the_deploy(boot: Boot) -> None:
    assert (boot.run(pip_EXIT="1").returncode, boot.state) == (1, ("failed", "make the environment", 1))
    assert boot.deploys == []


@pytest.mark.parametrize("file", ["secrets.env", "fetch-secrets"])
def test_secrets_come_from_a_file_or_a_command_of_the_host(boot: Boot, file: str) -> None:
    """The secrets are unchanged in the environment of the deploy, and in no argument and no output."""
    boot.secrets = "HF_TOKEN"
    assert (boot.run().returncode, boot.state) == (78, ("failed", "read the secrets", 78))
    line = "# the hub\nHF_TOKEN=a$(id)='b c'=d\n"
    (boot.settings / file).write_text(line if file == "secrets.env" else f"cat <<'END'\n{line}END\n")
    done = boot.run()
    assert (done.returncode, boot.calls.count("HF_TOKEN=a$(id)='b c'=d")) == (0, 1)
    assert "b c" not in done.stdout + done.stderr + "".join(boot.deploys)
    assert not (boot.root / "run/enginehouse-first-boot.env").exists()
