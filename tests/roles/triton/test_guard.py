"""Users of a host cannot connect to its servers: the rules in a real kernel, in a separate network namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

GUARD = Path(__file__).resolve().parents[3] / "files" / "shell" / "guard.sh"
PROGRAMS = ("ip", "iptables", "unshare", "nsenter", "setpriv")
MISSING = [program for program in PROGRAMS if not shutil.which(program)]
PYTHON = "/usr/bin/python3"
"""A Python that every user may start."""
NETWORK = """
ip link set lo up
ip link add enginehouse0 type bridge
ip link add eth9 type bridge
ip addr add 172.18.0.1/16 dev enginehouse0
ip addr add 10.0.0.1/24 dev eth9
ip link set enginehouse0 up
ip link set eth9 up
unshare -n sleep 60 &
container=$!
until [ "$(readlink /proc/$container/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link add v0 type veth peer name v1 netns $container
ip link set v0 master enginehouse0 up
in="nsenter -t $container -n"
$in ip link set lo up
$in ip addr add 172.18.0.2/16 dev v1
$in ip link set v1 up
$in ip route add default via 172.18.0.1
iptables -t nat -N DOCKER
iptables -t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A DOCKER -d 10.0.0.1 ! -i enginehouse0 -p tcp --dport 8010 -j DNAT --to-destination 172.18.0.2:8000
"""
"""A container behind its bridge, and the rule of Docker that publishes its port 8000 as 10.0.0.1:8010."""
CONNECT = """
import os, select, socket, subprocess, sys
ends = {"published": ("10.0.0.1", 8010), "container": ("172.18.0.2", 8000), "loopback": ("127.0.0.1", 8010)}
listen = "import socket, time; s = socket.create_server(('', int(PORT)), backlog=64); print(flush=True); time.sleep(60)"
inside = ["nsenter", "-t", sys.argv[1], "-n"]
for before, port in ((inside, "8000"), ([], "8010")):
    command = [*before, sys.executable, "-c", listen.replace("PORT", port)]
    subprocess.Popen(command, stdout=subprocess.PIPE).stdout.readline()
for user in map(int, sys.argv[2:]):
    child = os.fork()
    if not child:
        os.setgid(user), os.setuid(user)
        for name, end in ends.items():
            try:
                socket.create_connection(end, 5)
                print(user, name, "connected", flush=True)
            except OSError as error:
                print(user, name, error.strerror, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def _printing_iptables(folder: Path) -> Path:
    """A folder with an iptables that prints the rule that `-C` checks, as version 1.8.7 of Ubuntu 22.04 does."""
    folder.mkdir()
    printed = "ENGINEHOUSE-LOCAL  tcp opt -- in * out *  0.0.0.0/0  -> 0.0.0.0/0"
    program = folder / "iptables"
    real = shutil.which("iptables")
    program.write_text(f'#!/bin/sh\ncase " $* " in *" -C "*) echo "{printed}" ;; esac\nexec {real} "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here")
@pytest.mark.skipif(os.getuid() != 0, reason="wants root, for a network namespace")
def test_no_user_connects_to_a_server_by_any_of_its_addresses(tmp_path: Path) -> None:
    """Docker rewrites the published port of outgoing packets: the filter sees the container's port, and still lo."""
    current = tmp_path / "main" / "current"
    current.mkdir(parents=True)
    ports = {"http_port": 8010, "grpc_port": 8011, "metrics_port": 8012}
    (current / "server.json").write_text(json.dumps(ports))
    firewall = "iptables -I OUTPUT -o lo -j ACCEPT"  # somebody else's, begun after the first start of a server
    script = f'set -e\n{NETWORK}\nbash {GUARD}\n{firewall}\nbash {GUARD}\nexec {PYTHON} -c "$CONNECT" $container 0 4711'
    environment = os.environ | {"ENGINEHOUSE_SERVERS": str(tmp_path), "CONNECT": CONNECT}
    environment["PATH"] = f"{_printing_iptables(tmp_path / 'bin')}:{environment['PATH']}"
    # A process namespace of its own ends everything with its first process.
    words = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", script]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.splitlines() == [
        "0 published connected",
        "0 container connected",
        "0 loopback connected",
        "4711 published Connection refused",
        "4711 container Connection refused",
        "4711 loopback Connection refused",
    ], ran.stderr


OF_GROUP = """
import os, socket, subprocess, sys
listen = "import socket, time; s = socket.create_server((ADDRESS, PORT)); print(flush=True); time.sleep(60)"
OF_RANKS, OF_A_USER, STORE = ("127.0.0.1", 45679), ("127.0.0.1", 45680), ("", 29502)
PORTS = tuple(("10.0.0.1", port) for port in (29500, 29501, 29502, 29503, 45678))
for (address, port), user in [*((end, 0) for end in PORTS if end[1] != 29502),
                              (STORE, 61140), (OF_RANKS, 61140), (OF_A_USER, 4711)]:
    command = [sys.executable, "-c", listen.replace("ADDRESS", repr(address)).replace("PORT", str(port))]
    subprocess.Popen(command, stdout=subprocess.PIPE, user=user).stdout.readline()
subprocess.run(["bash", os.environ["GUARD"]], check=True)
for user in (0, 4711, 61140):
    child = os.fork()
    if not child:
        os.setgid(user), os.setuid(user)
        for address, port in (*PORTS, ("127.0.0.1", 29502), OF_RANKS, OF_A_USER):
            try:
                socket.create_connection((address, port), 5)
                print(user, address, port, "connected", flush=True)
            except OSError as error:
                print(user, address, port, error.strerror, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here")
@pytest.mark.skipif(os.getuid() != 0, reason="wants root, for a network namespace")
def test_no_user_of_a_member_asks_its_group_past_the_gateway(tmp_path: Path) -> None:
    """The leader knows members by their addresses, which all users of a member have. Ranks find their store and each
    other, at ports that the system chooses (45678 is one), on loopback too (45679). A user's own server
    there stays open.
    """
    current = tmp_path / "main" / "current"
    current.mkdir(parents=True)
    members = [{"host": "gpu-01", "address": "10.0.0.1"}, {"host": "gpu-02", "address": "fd00::2"}]
    facts = {"http_port": 8010, "llm_port": 8020, "group": {"members": members, "port": 29500}}
    (current / "server.json").write_text(json.dumps(facts))
    network = "ip link set lo up; ip link add eth9 type bridge; ip addr add 10.0.0.1/24 dev eth9; ip link set eth9 up"
    script = f'set -e\n{network}\nbash {GUARD}\nexec {PYTHON} -c "$CONNECT"'
    environment = os.environ | {"ENGINEHOUSE_SERVERS": str(tmp_path), "CONNECT": OF_GROUP, "GUARD": str(GUARD)}
    words = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", script]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    connected = [line for line in ran.stdout.splitlines() if line.endswith("connected")]
    assert connected == [
        *(f"0 10.0.0.1 {port} connected" for port in (29500, 29501, 29502, 29503, 45678)),
        *(f"0 127.0.0.1 {port} connected" for port in (29502, 45679, 45680)),
        "4711 10.0.0.1 29503 connected",
        "4711 127.0.0.1 45680 connected",
        *(f"61140 10.0.0.1 {port} connected" for port in (29502, 29503, 45678)),
        *(f"61140 127.0.0.1 {port} connected" for port in (29502, 45679, 45680)),
    ], ran.stderr


@pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here")
@pytest.mark.skipif(os.getuid() != 0, reason="wants root, for a network namespace")
@pytest.mark.parametrize("flush", ["iptables -F; iptables -X", "iptables -D INPUT 1", "ip6tables -F"])
def test_the_watchdog_loads_rules_that_another_program_flushed(tmp_path: Path, flush: str) -> None:
    """`systemctl reload nftables` flushes every table. Rules that are there stay as they are, and nothing is logged."""
    current = tmp_path / "main" / "current"
    current.mkdir(parents=True)
    (current / "server.json").write_text('{"http_port": 8010}')
    again, rules = f"bash {GUARD} again", "{ iptables -S; ip6tables -S; }"
    script = f"set -e\nbash {GUARD}\n{rules} >before\n{again}\n{flush}\n{again}\n{rules} | diff before - && echo same"
    environment = os.environ | {"ENGINEHOUSE_SERVERS": str(tmp_path)}
    words = ["unshare", "--net", "bash", "-c", script]
    ran = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout == "same\n", ran.stdout + ran.stderr
    assert ran.stderr.count("were removed by another program; they are loaded again") == 1
