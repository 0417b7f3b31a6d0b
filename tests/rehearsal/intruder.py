"""A program with exactly the rights of a unit, which makes an attacker's attempts in the unit's place."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from rehearsal.machine import Machine

PLACE = "/run/intruder"
PROGRAM = f"""
import contextlib, ctypes, json, os, socket
attempts = json.load(open("{PLACE}/attempts.json"))
done = {{"reads": [], "writes": [], "connects": [], "becomes": []}}
for path in attempts["reads"]:
    with contextlib.suppress(OSError):
        open(path, "rb").read(1)
        done["reads"].append(path)
for path in attempts["writes"]:
    with contextlib.suppress(OSError):
        open(path + "/intruder", "w").close()
        os.unlink(path + "/intruder")
        done["writes"].append(path)
for path in attempts["connects"]:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        done["connects"].append(path)
with contextlib.suppress(OSError):
    os.setuid(0)
    done["becomes"].append("root")
if ctypes.CDLL(None).unshare(0x10000000) == 0:
    done["becomes"].append("root of a user namespace")
print("INTRUDER" + json.dumps(done), flush=True)
"""
SECRETS = (
    "find /etc/shadow /etc/ssh/ssh_host_*_key /etc/enginehouse /run/enginehouse /var/lib/enginehouse/weights"
    " /var/lib/enginehouse/sharing -type f -not -path '/run/enginehouse/share/*' 2>/dev/null; true"
)
"""Every private file of the host, and all of this project's settings and weights."""
SOCKETS = ("/run/docker.sock", "/run/containerd/containerd.sock")
FOLDERS = (
    *("/", "/etc", "/etc/systemd/system", "/etc/enginehouse", "/usr/local/lib/enginehouse", "/run", "/run/enginehouse"),
    *("/var/lib/enginehouse", "/var/lib/enginehouse/weights", "/var/lib/enginehouse/blobs", "/root", "/opt"),
)


@dataclass(frozen=True)
class Done:
    """The attempts that succeeded."""

    reads: list[str]
    writes: list[str]
    connects: list[str]
    becomes: list[str]


def in_unit(machine: Machine, unit: str, *folders: str) -> Done:
    """Runs the program in place of the unit's own, with the rest of the unit's file unchanged.

    The program tries to read all secrets of the host, and to write into `FOLDERS` and `folders`.
    """
    secrets = machine.run(SECRETS).stdout.split()
    attempts = {"reads": secrets, "writes": [*FOLDERS, *folders], "connects": SOCKETS}
    lines = ("[Service]", "Type=oneshot", "ExecStartPre=", "ExecStart=", "ExecStartPost=", "ExecStopPost=")
    drop_in = "\n".join((*lines, f"ExecStart=/usr/bin/python3 {PLACE}/program.py")) + "\n"
    place = f"/run/systemd/system/{unit}.d"
    texts = {f"{PLACE}/program.py": PROGRAM, f"{PLACE}/attempts.json": json.dumps(attempts)}
    texts[f"{place}/intruder.conf"] = drop_in
    write = "; ".join(f"printf %s {shlex.quote(text)} > {path}" for path, text in texts.items())
    try:
        machine.run(f"mkdir -p {PLACE} {place}; {write}; systemctl daemon-reload; systemctl start {unit}")
        answer = machine.run(f"journalctl --sync; journalctl -q -o cat -u {unit} | grep ^INTRUDER | tail -n 1").stdout
    finally:
        machine.run(f"rm -rf {PLACE} {place}; systemctl daemon-reload; systemctl reset-failed {unit} || true")
    assert answer.startswith("INTRUDER"), machine.run(f"journalctl -q -o cat -n 20 -u {unit}").stdout
    return Done(**json.loads(answer.removeprefix("INTRUDER")))
