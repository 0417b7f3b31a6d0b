"""Asks machines over ssh for their hardware, and writes an inventory for them. Changes nothing on a machine."""

import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.inventory.first_inventory import Answered
from deploy.inventory.targets import SSH_PORT, Target
from deploy.io.output import output_of
from deploy.refusals import Refusal, refuse, refuse_all, shortened

QUESTIONS = """
. /etc/os-release; echo os=$ID-$VERSION_ID
echo kernel=$(uname -r)
for d in /sys/bus/pci/devices/*; do
  case $(cat $d/class) in
    0x0300*|0x0302*) echo gpu=$(cut -c3- $d/vendor):$(cut -c3- $d/device);;
    0x0680*) echo bridge=$(cut -c3- $d/vendor);;
  esac
done
awk '/MemTotal/ {print "memory_kib=" $2}' /proc/meminfo
df -Pm /var/lib | awk 'NR==2 {print "disk_mib=" $4}'
ip -4 -o route get 192.0.2.1 2>/dev/null | sed -n 's/.* src \\([0-9.]*\\).*/address=\\1/p'
od -An -t u1 /sys/firmware/efi/efivars/SecureBoot-* 2>/dev/null | awk '{print "secure_boot=" $NF}'
"""

TIMEOUT_SECONDS = 60
MOST_BYTES = 65_536
"""Bytes of a machine's answers that are read; a host with sixteen devices sends some 400."""
AT_ONCE = 8
"""Most simultaneous logins: an sshd, also a jump host's, begins to drop connections at ten (`MaxStartups
10:30:100`)."""


def ask_all(targets: Sequence[Target], outside: Sequence[Target] = ()) -> tuple[list[Answered], list[Answered]]:
    """The answers of the machines that will serve, and of `outside` machines: balancers and monitors.

    Raises: a Refusal for all silent machines, and for all serving machines without an NVIDIA GPU.
    """
    unanswered: list[Refusal] = []

    def answer(target: Target) -> Answered | None:
        try:
            return Answered.of(target, ask(target))
        except Refusal as refusal:
            unanswered.append(refusal)
            return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answered = dict(zip((*targets, *outside), pool.map(answer, (*targets, *outside)), strict=True))
    refuse_all(sorted(unanswered, key=lambda refusal: refusal.problem))
    machines = {target: machine for target, machine in answered.items() if machine}
    refuse_all(_no_gpu(target) for target in targets if not machines[target].kind.gpus)
    return [machines[target] for target in targets], [machines[target] for target in outside]


def ask(target: Target) -> str:
    """The machine's answers, one `name=value` a line. Raises: a Refusal if it does not answer."""
    port = ["-p", str(target.port)] if target.port != SSH_PORT else []  # else ssh's configuration decides
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *port, "--", target.login, "sh", "-s"]
    try:
        done = output_of(argv, stdin=QUESTIONS, seconds=TIMEOUT_SECONDS, most_bytes=MOST_BYTES)
    except subprocess.TimeoutExpired:
        raise _no_answer(target, f"nothing within {TIMEOUT_SECONDS} seconds") from None
    if done.is_too_long:
        raise _no_answer(target, f"more than {MOST_BYTES:,} bytes, beginning with {shortened(done.stdout)}")
    if done.status:
        raise _no_answer(target, (done.stderr.strip().splitlines() or ["nothing"])[-1])
    return done.stdout


def write_inventory(directory: Path, targets: Sequence[Target], text: str) -> Path:
    """The new file, named for the first machine. Raises: a Refusal if a file of that name exists."""
    target = targets[0]
    words = target.host if target.port == SSH_PORT else f"{target.host} {target.port}"
    more = f" and {len(targets) - 1} more" if len(targets) > 1 else ""
    name = re.sub(r"[^a-z0-9]+", "_", f"{words}{more}".lower()).strip("_")
    file = directory / f"{name}.py"
    if file.exists():
        raise refuse(
            "inventory-exists",
            f"{file} exists, and an existing file is never overwritten",
            where=str(file),
            seen="a file",
            wanted="no file of that name",
            attempt=f"read it, or remove it and type enginehouse init {target}{' …' if more else ''} again",
        )
    directory.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def _no_answer(target: Target, answer: str) -> Refusal:
    port = f"-p {target.port} " if target.port != SSH_PORT else ""
    return refuse(
        "no-answer",
        f"{target} cannot be asked over ssh",
        where=str(target),
        seen=answer,
        wanted="a login with a key and without a question",
        attempt=f"ssh {port}{target.login}, and answer what it asks there once",
    )


def _no_gpu(target: Target) -> Refusal:
    return refuse(
        "no-gpu",
        f"{target} has no NVIDIA GPU, and serves nothing",
        where=str(target),
        seen="no NVIDIA GPU among its PCI devices",
        wanted="a machine with a GPU, or one that balances or watches",
        attempt=f"enginehouse init … --balancer {target}, or --monitor {target}",
    )
