"""A machine, an operator with secrets, and the search for them on both sides.

Permitted places of the secrets: in the operator's shell (the registry's key: a variable of the control process, which
its children inherit), in a vault (the hub's token), in a file of the operator (the key that signs engines), and with
the stand-ins for registry and hub, which have to know them. These are the directories OPERATORS. In every other place
the search reports a secret: in any argument of any process, in any environment but the operator's own variable on the
operator's computer, in any file of the host, in any other file of the control machine.

The search excludes the key of Triton's restricted endpoints. Each start generates a new one, which must be in
tritonserver's arguments, since Triton accepts it only there; `templates/triton/launch.j2` says so.
"""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rehearsal import machines, services, ssh
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from tests.rehearsal.operator import Operator
from tests.secrets.forms import Forms, canary, forms

NUMBER, NAME = 5, "canary13"
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
INVENTORY = "tests/secrets/inventories/canaries.py"
VARIABLE = "NGC_API_KEY"
OPERATORS = ("secrets", "services", "machines", "snapshots")
LOOK = Path(__file__).with_name("look.py").read_text()
# Sources that are compressed, or are no file, read with the command that an operator would use.
COMMANDS = {
    "journal": "journalctl --all --no-pager --output=export",
    "inspect": "docker inspect $(docker ps -aq) $(docker images -aq) $(docker network ls -q)",
    "history": "for one in $(docker images -aq); do docker history --no-trunc $one; done",
    "units": "systemctl show '*'; systemctl show-environment; systemctl cat '*'",
    "dumps": "coredumpctl info",
}
MOST_SECONDS = 240


@dataclass(kw_only=True)
class Keyed(Operator):
    """An operator with the registry's key in the shell, and separate directories for all written files."""

    key: str
    tmp: Path

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment with the key, the vault's password file and a directory for temporary files."""
        vault = {"ANSIBLE_VAULT_PASSWORD_FILE": str(PLACES.root / "secrets/vault-password")}
        return super().environment | vault | {VARIABLE: self.key, "HOME": str(self.home), "TMPDIR": str(self.tmp)}

    def deploy(self, *words: str, verb: str = "deploy.py") -> subprocess.CompletedProcess[str]:
        """Deploys with all output, in a person's form, not as JSON."""
        options = ["-y", "-vvv", "--debug", "--debug-all", "--diff", "--data", f"events={PLACES.root / 'events.jsonl'}"]
        return self.python("-m", "pyinfra", INVENTORY, verb, *options, *words)


@dataclass
class Scene:
    """The machine, the operator, and the secrets to search for."""

    machine: Machine
    operator: Keyed
    looked_for: Forms
    secrets: dict[str, str]
    began: float = field(default_factory=time.time)

    def on_host(self, *roots: str, commands: dict[str, str] | None = None) -> dict[str, Any]:
        """Returns the secrets found on the machine: everywhere, or below the roots."""
        request = {"forms": self.looked_for, "roots": roots, "commands": COMMANDS if commands is None else commands}
        return dict(json.loads(self.machine.run(f"python3 -c {shlex.quote(LOOK)}", input=json.dumps(request)).stdout))

    def on_control(self) -> dict[str, Any]:
        """Returns the secrets found in the rehearsal's state, and in all later files of the repository."""
        rest = [REPOSITORY / ".rehearsal", REPOSITORY / ".git"]
        without = [*(PLACES.root / name for name in OPERATORS), *rest]
        search = {"forms": self.looked_for, "without": list(map(str, without)), "since": self.began}
        roots = [path for path in PLACES.root.iterdir() if path not in without] + [REPOSITORY]
        request = json.dumps(search | {"roots": list(map(str, roots))})
        program = [sys.executable, "-c", LOOK]
        ended = subprocess.run(program, input=request, capture_output=True, text=True, timeout=MOST_SECONDS, check=True)
        return dict(json.loads(ended.stdout))


def raised() -> Scene:
    """Returns the bare machine; its services and its operator have the canaries."""
    (PLACES.root / "secrets").mkdir(parents=True, mode=0o700, exist_ok=True)
    hidden = {"registry key": canary("nvapi-"), "hub token": canary("hf_")}
    for name, file in (("registry key", "ngc_key"), ("hub token", "hub_token")):
        _write(PLACES.root / "secrets" / file, hidden[name])
    ssh.make_key(PLACES.root / "secrets/engine_key")
    hidden["signing key"] = _seed(PLACES.root / "secrets/engine_key")
    _lock_away(hidden["hub token"])
    scene = Scene(machines.up([NAME], "13", places=PLACES)[0], _operator(hidden["registry key"]), forms(hidden), hidden)
    services.services_up()
    return scene


def throw_away() -> None:
    """Removes every machine, service, secret and engine of this rehearsal."""
    machines.down(PLACES)
    services.services_down()
    for name in ("secrets", "engines", "snapshots", "home", "tmp"):
        shutil.rmtree(PLACES.root / name, ignore_errors=True)
    for name in ("vault.yml", "operator.log", "smoke.xml", "events.jsonl"):
        (PLACES.root / name).unlink(missing_ok=True)


def _operator(key: str) -> Keyed:
    home, tmp = PLACES.root / "home", PLACES.root / "tmp"
    for directory in (home, tmp):
        directory.mkdir()
    return Keyed(NUMBER, PLACES.root / "operator.log", home, key=key, tmp=tmp)


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _lock_away(token: str) -> None:
    """Puts the hub's token into a vault; the program gets its plain text on standard input."""
    password = PLACES.root / "secrets/vault-password"
    _write(password, "open sesame\n")
    program = str(Path(sys.executable).with_name("ansible-vault"))
    words = [program, "encrypt", "--vault-password-file", str(password), "--output", str(PLACES.root / "vault.yml")]
    subprocess.run(words, input=f"hub_token: {token}\n", text=True, check=True, capture_output=True, timeout=60)


def _seed(path: Path) -> str:
    """Returns 40 characters of the file's base64 from the secret part of an ed25519 key (bytes 161 to 193)."""
    body = "".join(line for line in path.read_text().splitlines() if not line.startswith("-"))
    assert base64.b64decode(body)[:14] == b"openssh-key-v1"
    return body[216:256]
