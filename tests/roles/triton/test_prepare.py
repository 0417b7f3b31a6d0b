"""The host program that runs before a server's container: without complete and signed engines nothing starts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

PREPARE = Path(__file__).resolve().parents[3] / "files" / "shell" / "prepare.sh"
VERIFIER = """
import sys
print(*sys.argv[2:], file=open("{log}", "a"))
if sys.argv[2] == "verify" and not sys.argv[3].endswith(("one", "two", "good")):
    print("rank0.engine: its sha256 is another one" if "bad" in sys.argv[3] else "nobody signs here")
    sys.exit(1 if "bad" in sys.argv[3] else 2)
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host's programs: a short verifier, and no docker."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "host").write_text(VERIFIER.format(log=tmp_path / "asked"))
    shutil.copy(PREPARE.with_name("guard.sh"), programs)
    (programs / "docker").write_text(f"#!/bin/sh\necho docker >> {tmp_path}/asked\nexit 7\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def prepared(host: Path, *engines: str) -> tuple[str, list[str]]:
    """Errors of the preparation, and its calls up to the first call of Docker."""
    for engine in engines:
        (host / engine).mkdir()
        if "unsigned" not in engine:
            (host / engine / "engine.json.sig").write_text("signature")
    current = host / "servers" / "main" / "current"
    current.mkdir(parents=True)
    named = [{"path": str(host / engine), "fingerprint": "0" * 16} for engine in engines]
    ports = {"address": "10.0.0.1", "http_port": 8000, "grpc_port": 8001, "metrics_port": 8002}
    (current / "server.json").write_text(json.dumps({"engines": named} | ports))
    environment = os.environ | {
        "PATH": f"{host / 'programs'}:{os.environ['PATH']}", "ENGINEHOUSE_PROGRAMS": str(host / "programs"),
        "ENGINEHOUSE_SERVERS": str(host / "servers"), "RUNTIME_DIRECTORY": str(host / "nowhere"),
    }  # fmt: skip
    ran = subprocess.run(["bash", PREPARE, "main"], env=environment, capture_output=True, text=True, check=False)
    calls = (host / "asked").read_text().replace(f"{host}/", "").splitlines()
    return ran.stderr, calls


def test_every_engine_of_the_release_is_verified_before_anything_else(host: Path) -> None:
    assert prepared(host, "one", "two")[1][:3] == ["verify one", "verify two", "docker"]


def test_a_changed_engine_blocks_the_start(host: Path) -> None:
    errors, calls = prepared(host, "good", "bad")
    assert ("rank0.engine: its sha256 is another one" in errors, "docker" in calls) == (True, False)


def test_a_wrong_engine_is_moved_aside_with_the_reason(host: Path) -> None:
    assert prepared(host, "bad")[1] == ["verify bad", "refuse bad rank0.engine: its sha256 is another one"]


def test_a_release_without_engines_checks_nothing(host: Path) -> None:
    assert prepared(host)[1][0] == "docker"


def test_a_host_that_can_judge_nothing_moves_nothing(host: Path) -> None:
    errors, calls = prepared(host, "unjudged")
    assert (errors.strip(), calls) == ("nobody signs here", ["verify unjudged"])


def test_an_engine_that_waits_for_its_signature_is_not_loaded_and_stays(host: Path) -> None:
    """A server that keeps trying must not remove a new build before it is signed."""
    assert prepared(host, "bad-unsigned")[1] == ["verify bad-unsigned"]


def restarted(host: Path, proxy: str, publishing: str = "", running: str = "") -> tuple[bool, str]:
    """True if Docker was restarted, and the errors; `proxy` is its process and `running` its containers."""
    fakes = {
        "pgrep": f"echo '{proxy}' | grep -Eq -- \"$3\"",
        "docker": f'case "$*" in *publish=8001) echo {publishing};; "ps --quiet") echo {running};; esac',
        "systemctl": f"echo systemctl $* >>{host}/asked",
    }
    for name, text in fakes.items():
        (host / "programs" / name).write_text(f"#!/bin/sh\n{text}\n")
        (host / "programs" / name).chmod(0o755)
    (host / "asked").touch()
    errors, calls = prepared(host)
    return "systemctl restart --job-mode=ignore-dependencies docker.service" in calls, errors


PROXY = (
    "/usr/bin/docker-proxy -proto tcp -host-ip 10.0.0.1 -host-port 8001 -container-ip 172.18.0.2 -container-port 8001"
)


def test_docker_that_holds_an_orphaned_port_is_restarted(host: Path) -> None:
    assert restarted(host, PROXY)[0] is True


def test_a_port_that_a_container_publishes_is_its_own(host: Path) -> None:
    assert restarted(host, PROXY, publishing="abc", running="abc")[0] is False


def test_the_port_of_another_address_is_another_servers(host: Path) -> None:
    assert restarted(host, PROXY.replace("10.0.0.1", "10.0.0.2"))[0] is False


def test_docker_is_not_restarted_under_containers_that_run(host: Path) -> None:
    done, errors = restarted(host, PROXY, running="other")
    assert (done, "it stops the containers that run, so it is left to you" in errors) == (False, True)


RULES = """*filter
:ENGINEHOUSE-LOCAL - [0:0]
-A ENGINEHOUSE-LOCAL -m owner --uid-owner 0 -j RETURN
-A ENGINEHOUSE-LOCAL -m owner --uid-owner 1001 -j RETURN
-A ENGINEHOUSE-LOCAL -m owner --uid-owner 1002 -j RETURN
-A ENGINEHOUSE-LOCAL -m owner --uid-owner 61184-65519 -j RETURN
-A ENGINEHOUSE-LOCAL -m owner --uid-owner 999 -j RETURN
-A ENGINEHOUSE-LOCAL -o lo -p tcp -m multiport --dports 8001,8000,8002 -j REJECT --reject-with tcp-reset
-A ENGINEHOUSE-LOCAL -o lo -p tcp -m conntrack --ctstate DNAT --ctorigdstport 8001 -j REJECT --reject-with tcp-reset
-A ENGINEHOUSE-LOCAL -o lo -p tcp -m conntrack --ctstate DNAT --ctorigdstport 8000 -j REJECT --reject-with tcp-reset
-A ENGINEHOUSE-LOCAL -o lo -p tcp -m conntrack --ctstate DNAT --ctorigdstport 8002 -j REJECT --reject-with tcp-reset
-A ENGINEHOUSE-LOCAL -o enginehouse0 -p tcp -j REJECT --reject-with tcp-reset
-I OUTPUT -p tcp --syn -j ENGINEHOUSE-LOCAL -m comment --comment "enginehouse: no way in"
COMMIT
"""
USERS = """case "$2" in enginehouse-gateway) echo 999 ;; anna) echo 1001 ;; bert) echo 1002 ;; *) exit 1 ;; esac"""


@pytest.fixture
def guarded(host: Path) -> Path:
    """A host on which only a gateway and two members of sudo may connect; `iptables` records its arguments."""
    scripts = {
        "docker": "exit 0",
        "chown": f'echo "chown $*" >>{host}/asked',
        "pgrep": "exit 1",
        "id": USERS,
        "getent": "echo sudo:x:27:anna,bert",
        "iptables": f'echo "iptables $*" >>{host}/asked; [ "$2" != -C ]',
        "iptables-restore": f"cat >{host}/rules",
        "ip6tables": "exit 1",
    }
    for name, script in scripts.items():
        (host / "programs" / name).write_text(f"#!/bin/sh\n{script}\n")
        (host / "programs" / name).chmod(0o755)
    (host / "nowhere").mkdir()
    return host


def test_only_root_and_our_services_may_connect_before_a_servers_start(guarded: Path) -> None:
    errors, _ = prepared(guarded)
    assert (errors, (guarded / "rules").read_text()) == ("", RULES)


def test_an_existing_rule_is_moved_first_and_not_duplicated(guarded: Path) -> None:
    (guarded / "programs" / "iptables").write_text("#!/bin/sh\nexit 0\n")
    prepared(guarded)
    rule = 'OUTPUT -p tcp --syn -j ENGINEHOUSE-LOCAL -m comment --comment "enginehouse: no way in"\n'
    assert (guarded / "rules").read_text() == RULES.replace(f"-I {rule}", f"-D {rule}-I {rule}")


def test_a_host_without_servers_has_no_rules_of_them(guarded: Path) -> None:
    """The unit of a gateway runs the program too."""
    environment = {"PATH": f"{guarded / 'programs'}:{os.environ['PATH']}", "ENGINEHOUSE_SERVERS": str(guarded / "none")}
    subprocess.run(["bash", PREPARE.with_name("guard.sh")], env=environment, check=True)
    assert not (guarded / "rules").exists()


def test_no_server_starts_if_local_users_cannot_be_kept_out(guarded: Path) -> None:
    (guarded / "programs" / "iptables-restore").write_text("#!/bin/sh\nexit 2\n")
    errors, commands = prepared(guarded)
    assert "users of this host cannot be kept from Triton's ports, so no server starts" in errors
    assert not [line for line in commands if "DROP" in line]


def test_unreadable_ports_block_every_start(guarded: Path) -> None:
    """A chain without its ports would admit every user."""
    second = guarded / "servers" / "other" / "current"
    second.mkdir(parents=True)
    (second / "server.json").write_text("{")
    assert "users of this host cannot be kept from Triton's ports, so no server starts" in prepared(guarded)[0]
    assert not (guarded / "rules").exists()


def test_the_key_belongs_to_the_user_of_the_release(guarded: Path) -> None:
    """A release of an earlier version does not name its user, which was 1000; a rollback to it must work."""
    assert "chown 1000:1000 nowhere/key" in prepared(guarded)[1]
