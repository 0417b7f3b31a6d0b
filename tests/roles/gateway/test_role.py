"""The gateway role on hosts in every state: bare, finished, half-finished, and without a gateway."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.slices.gateway import GatewaySlice
from deploy.spec import Gateway
from roles import closing
from roles import gateway as role
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import CachedFact, step
from roles._shipping.places import command
from roles.gateway import operations, wheels
from roles.gateway.facts import GatewayLeft
from roles.gateway.programs import environment_path, publication, version
from roles.gateway.wheels import SendWheels
from tests.roles.fake import Ran, run
from tests.roles.gateway.gateways import h100
from tests.roles.plans import a_plan
from tests.roles.slices import a_slice

DIFFERS, FOLLOW = f"{command('gateway')} differs", f"{command('gateway')} follow"
VENV, SECCOMP = "package\tpython3-venv\t3.12.3-0ubuntu2\tii ", "package\tlibseccomp2\t2.5.5-1ubuntu3\tii "
PACKAGES = [VENV, SECCOMP]
USER = ["value\tuser\t998", "value\tfolder\t2750 root enginehouse-gateway", "value\tkeys\tthere"]
COMPLETE = "value\tenvironment\tcomplete"
PUBLISHED = f"value\tversion\t{version()}  -"
DONE = [*PACKAGES, *USER, COMPLETE, PUBLISHED]
WITH_KEYS = Gateway()


@pytest.fixture(autouse=True)
def keys_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path of this machine's key file; it exists only if a test writes it."""
    monkeypatch.setattr(operations, "KEYS_HERE", tmp_path / "gateway-keys.json")
    return tmp_path / "gateway-keys.json"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Python versions for which wheels were sent; none is fetched."""
    pythons: list[str] = []

    def execute(self: SendWheels, *_: object) -> bool:
        pythons.append(self.python)
        return True

    monkeypatch.setattr(SendWheels, "execute", execute)
    return pythons


def placed(gateway: Gateway) -> str:
    """The texts of the role, as on a finished host."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in operations.texts(*h100(gateway)))


def play(*seen: str, texts: str | None = None, differs: str = "", gateway: Gateway = WITH_KEYS, **how: Any) -> Ran:
    """A run on the host of inventories/h100.py with the facts `seen`."""
    mine, _ = h100(gateway)
    answers = {
        "dpkg-query": list(seen),
        "%n %a %U": placed(gateway) if texts is None else texts,
        DIFFERS: [differs] if differs else [],
    }
    return run(lambda: role.apply(mine), answers=answers, **how)


def first_lines(ran: Ran) -> list[str]:
    """The commands without the content that they write."""
    return [text.split("\n")[0] for text in ran.commands]


def test_a_bare_host_gets_everything_in_order(sent: list[str]) -> None:
    ran = play(texts="", differs="start")
    path = environment_path(h100()[1])
    starts = [
        "/usr/local/lib/enginehouse/patient-apt install --allow-downgrades --allow-change-held-packages",
        "install -d -m 0755 /usr/local/lib/enginehouse/gateway ",
        "send the gateway's wheels for Python 3.12 to /usr/local/lib/enginehouse/gateway/wheels/",
        f"set -e; umask 022; rm -rf {path}; /usr/bin/python3 -m venv {path};",
        str(publication()).split("\n")[0],
        "useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin enginehouse-gateway",
        "install -d -m 2750 -o root -g enginehouse-gateway /etc/enginehouse/gateway",
        "mkdir -p /etc/enginehouse/gateway && cat > /etc/enginehouse/gateway/keys.json",
        "mkdir -p /etc/systemd/system && cat > ",
        "mkdir -p /etc/enginehouse/gateway && cat > /etc/enginehouse/gateway/settings.json",
        "systemctl daemon-reload",
        FOLLOW,
    ]
    assert [line.startswith(start) for line, start in zip(first_lines(ran), starts, strict=True)] == [True] * len(
        starts
    )
    assert sent == ["3.12"]


def test_a_finished_host_gets_no_commands() -> None:
    ran = play(*DONE)
    assert (ran.commands, ran.would_change, ran.failed_hosts) == ((), (), ())


def test_changed_settings_are_written_and_reread_without_a_restart() -> None:
    """`follow` restarts processes with another mark, and no others."""
    texts = "\n".join(line for line in placed(WITH_KEYS).splitlines() if "settings.json" not in line)
    ran = play(*DONE, texts=texts, differs="offers other models: enginehouse-gateway@0.service")
    assert [line.split(".enginehouse-new")[0] for line in first_lines(ran)] == [
        "mkdir -p /etc/enginehouse/gateway && cat > /etc/enginehouse/gateway/settings.json",
        FOLLOW,
    ]
    assert "&& chmod 0640 " in ran.commands[0]


@pytest.mark.parametrize(
    ("limit", "days", "is_refused"),
    [
        ("tokens_per_month", 30, True),
        ("tokens_per_month", 31, False),
        ("tokens_per_day", 0, True),
        ("tokens_per_day", 1, False),
        ("tokens_per_minute", 0, False),
    ],
)
def test_budgets_that_the_gateway_would_forget_are_refused_before_its_keys_change(
    keys_here: Path, limit: str, days: int, is_refused: bool
) -> None:
    line = {"sha256": "0" * 64, "prefix": "eh-aaaaaa", "tenant": "acme", "models": ["*"], limit: 100}
    keys_here.write_text(json.dumps({"keys": [line]}))
    ran = play(*DONE, texts="", gateway=Gateway(usage_days=days))
    written = any("/etc/enginehouse/gateway/keys.json" in command for command in ran.commands)
    assert (bool(ran.failed_hosts), written) == (is_refused, not is_refused)
    assert is_refused == (f"wanted {31 if 'month' in limit else 1} or more" in " ".join("".join(ran.log).split()))


def test_a_run_that_was_cut_off_before_the_processes_began_is_finished() -> None:
    ran = play(*DONE, differs="starts: enginehouse-gateway@0.service")
    assert (first_lines(ran), ran.would_change) == ([FOLLOW], ("Gateway | Run every process and check its answer",))


def test_an_environment_that_was_cut_off_is_made_anew(sent: list[str]) -> None:
    ran = play(*PACKAGES, *USER, PUBLISHED)
    assert (len(ran.commands), sent) == (3, ["3.12"])


def test_a_host_without_the_library_of_filters_gets_it() -> None:
    """The gateway confines its reader of foreign templates, and ends with 78 if it cannot."""
    ran = play(VENV, *USER, COMPLETE, PUBLISHED)
    assert [command.split()[-1] for command in ran.commands] == ["libseccomp2"]


def test_programs_that_differ_are_published_and_nothing_else() -> None:
    ran = play(*PACKAGES, *USER, COMPLETE, "value\tversion\t0123  -")
    assert first_lines(ran) == [str(publication()).split("\n")[0]]


def test_the_hosts_keys_file_has_this_machines_keys(keys_here: Path) -> None:
    line = {"sha256": "0" * 64, "prefix": "eh-aaaaaa", "tenant": "search", "models": ["*"]}
    keys_here.write_text(json.dumps({"keys": [line]}) + "\n")
    texts = "\n".join(line for line in placed(WITH_KEYS).splitlines() if "keys.json" not in line)
    (command_,) = play(*DONE, texts=texts).commands
    assert "/etc/enginehouse/gateway/keys.json" in command_ and '"tenant": "search"' in command_


def test_a_file_that_the_gateway_could_not_read_is_not_sent(keys_here: Path) -> None:
    keys_here.write_text('{"keys": [{"tenant": "search"}]}\n')
    ran = play(*DONE, texts="")
    assert not any("keys.json" in command for command in ran.commands)
    assert ran.failed_hosts
    assert "is not a file of keys" in "".join(ran.log)


def test_keys_of_a_host_stay_where_this_machine_keeps_none() -> None:
    assert not any("keys.json" in text for text in play(*DONE, texts="").commands)


def test_a_gateway_without_keys_has_no_file_of_them() -> None:
    seen = [line for line in DONE if "keys" not in line]
    assert play(*seen, gateway=Gateway(keys=None)).commands == ()


def salted() -> GatewaySlice:
    """A gateway whose LLM keeps cached prefixes apart."""
    _mine, gateway = h100(WITH_KEYS)
    return replace(gateway, models=tuple(replace(model, salts=model.kind == "llm") for model in gateway.models))


def test_a_host_makes_the_prefix_caches_secret_and_keeps_it_private(tmp_path: Path) -> None:
    """The command runs for real: a second run keeps the secret, a removed secret is made again, and only root and
    the gateway can read it."""
    (command_,) = operations.salt(HostFacts.parse([]), h100(WITH_KEYS)[0], salted())
    script = command_.replace("/etc/enginehouse/gateway", str(tmp_path))
    script = script.replace("root:enginehouse-gateway", f"{os.getuid()}:{os.getgid()}")

    def made() -> str:
        ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        assert (ran.stdout + ran.stderr, (tmp_path / "salt").stat().st_mode & 0o777) == ("", 0o640)
        return (tmp_path / "salt").read_text()

    first, second = made(), made()
    (tmp_path / "salt").unlink()
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first == second != made()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["salt"]


def test_a_secret_that_others_may_read_is_closed_and_one_that_is_right_is_left() -> None:
    right = HostFacts.parse(["value\tsalt\t640 root enginehouse-gateway"])
    wrong = HostFacts.parse(["value\tsalt\t644 root root"])
    assert [len(list(operations.salt(seen, h100(WITH_KEYS)[0], salted()))) for seen in (right, wrong)] == [0, 1]
    assert list(operations.salt(HostFacts.parse([]), *h100(WITH_KEYS))) == []


def test_a_host_without_a_gateway_has_no_step_of_it() -> None:
    assert run(lambda: role.apply(a_slice())).operations == ()


def test_a_gateway_that_the_inventory_no_longer_has_is_taken_off() -> None:
    ran = run(lambda: role.apply(a_slice()), answers={"enginehouse-gateway@.service ] || echo": "there"})
    (command_,) = ran.commands
    assert "systemctl stop 'enginehouse-gateway@*.service'" in command_ and "/etc/enginehouse/gateway" in command_


def test_only_the_gateway_acts_where_only_the_gateway_is_asked_for() -> None:
    mine, _ = h100()
    plan = a_plan(mine, gateway_only=True)
    ran = run(lambda: closing.apply(mine, None, plan), dry=True)
    assert ran.operations and all(name.startswith("Gateway | ") for name in ran.operations)


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_package_of_a_python_is_locked_once(python: str) -> None:
    """A Python's lines of the lock are chosen for the host's Python and not for this machine's."""
    lines = [line for line in wheels.requirements(python).splitlines() if "==" in line]
    names = [line.split("==")[0] for line in lines]
    assert len(names) == len(set(names)) and {"uvicorn", "jinja2", "tokenizers", "tritonclient", "numpy"} <= set(names)
    assert ";" not in wheels.requirements(python) and "colorama" not in names
    assert ("tomli" in names or "exceptiongroup" in names) == (python == "3.10")


def test_each_python_has_an_environment_of_its_own() -> None:
    assert len({wheels.digest(python) for python in ("3.10", "3.11", "3.12", "3.13")}) == 4


@pytest.mark.parametrize("is_returned", [True, False])
def test_a_rollback_that_changed_a_server_gives_the_gateway_its_earlier_settings(is_returned: bool) -> None:
    mine, _ = h100(WITH_KEYS)

    def story() -> None:
        returned = step(CachedFact(GatewayLeft), lambda _: ["swap"] if is_returned else [], name="Take back")
        role.revert(mine, [returned])
        role.revert(a_slice(), [returned])

    ran = run(story, answers={"enginehouse-gateway@.service ] ||": "there"})
    assert ran.commands == (("swap", f"{command('gateway')} restore") if is_returned else ())
