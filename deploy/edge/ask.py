"""Asks a machine over ssh what it is, and writes an inventory for it. Changes nothing on the machine."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from deploy.catalog import DEFAULT_RELEASE, GPUS, SYSTEMS
from deploy.errors import Refusal
from deploy.refuse import refuse

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
od -An -t u1 /sys/firmware/efi/efivars/SecureBoot-* 2>/dev/null | awk '{print "secure_boot=" $NF}'
"""

TIMEOUT_SECONDS = 60


SSH_PORT = 22
TARGET = re.compile(r"(?!-)(?:([^@\s]+)@)?(?:\[([\da-fA-F:.%]+)\]|([^@:\s\[\]]+)|([\da-fA-F:]+))(?::(\d+))?")
"""User, then the host in brackets, as a name, or as a bare IPv6 address; then the port."""


@dataclass(frozen=True)
class Target:
    """The address of a machine for ssh: `user@host:port`, of which only the host is needed."""

    host: str
    user: str = ""
    port: int = SSH_PORT

    @classmethod
    def of(cls, text: str) -> Target:
        """The target somebody typed. Raises: a Refusal for what names no host or no port.

        An IPv6 address stands in brackets where a port follows it.
        """
        parts = TARGET.fullmatch(text)
        if not parts or not 0 < int(parts[5] or SSH_PORT) < 65_536:
            raise refuse(
                "no-target",
                f"{text!r} names no machine to ask",
                where=text,
                seen=repr(text),
                wanted="user@host or user@host:port; an IPv6 address in brackets",
                attempt="enginehouse init ubuntu@203.0.113.7:22",
            )
        return cls(host=parts[2] or parts[3] or parts[4], user=parts[1] or "", port=int(parts[5] or SSH_PORT))

    @property
    def login(self) -> str:
        """`user@host`, as ssh takes it."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def __str__(self) -> str:
        """`user@host:port`, as `of` takes it."""
        host = f"[{self.host}]" if ":" in self.host and self.port != SSH_PORT else self.host
        address = host if self.port == SSH_PORT else f"{host}:{self.port}"
        return f"{self.user}@{address}" if self.user else address


def ask(target: Target) -> str:
    """The machine's answers, one `name=value` a line. Raises: a Refusal where it does not answer."""
    port = ["-p", str(target.port)] if target.port != SSH_PORT else []  # else ssh's own configuration may name another
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *port, "--", target.login, "sh", "-s"]
    try:
        done = subprocess.run(
            argv, input=QUESTIONS, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise _no_answer(target, f"nothing within {TIMEOUT_SECONDS} seconds") from None
    if done.returncode:
        raise _no_answer(target, (done.stderr.strip().splitlines() or ["nothing"])[-1])
    return done.stdout


def inventory_text(target: Target, answers: str) -> str:
    """An inventory for one machine: the shipped one with this host and what it answered about itself."""
    pairs = [line.partition("=")[::2] for line in answers.splitlines()]
    values = dict(pairs)
    cards = Counter(value for name, value in pairs if name == "gpu" and value.startswith("10de:"))
    pci_id, count = cards.most_common(1)[0] if cards else ("", 0)
    known = next((gpu.name for gpu in GPUS.values() if gpu.pci_id == pci_id), "")
    remark = "" if known else f"  # found {pci_id or 'no NVIDIA GPU'}, which is not in the catalog"
    login = (f'        "ssh_user": "{target.user}",\n' if target.user else "") + (
        f'        "ssh_port": {target.port},\n' if target.port != SSH_PORT else ""
    )
    return TEMPLATE.format(
        release=DEFAULT_RELEASE,
        host=target.host,
        login=login,
        os=values.get("os", ""),
        os_remark="" if values.get("os") in SYSTEMS else "  # not provisioned by this project",
        gpu=known,
        gpu_remark=remark,
        gpus=max(count, 1),
        memory_mib=int(values.get("memory_kib", 0)) // 1024,
        disk_mib=int(values.get("disk_mib", 0)),
        kernel_flavour=kernel_flavour(values.get("os", ""), values.get("kernel", "")),
        secure_boot=values.get("secure_boot") == "1",
        nvswitch="10de" in [value for name, value in pairs if name == "bridge"],
    )


def kernel_flavour(system: str, kernel: str) -> str:
    """The flavour of a running kernel (`uname -r`), as the names of Ubuntu's driver packages end.

    Of a generic kernel newer than the system's own it is the one of hardware enablement.
    """
    parts = re.fullmatch(r"(\d+\.\d+)[^-]*(?:-\d[^-]*)?-([a-z][a-z0-9-]*)", kernel)
    if not parts:
        return "generic"
    series, flavour = parts.groups()
    row = SYSTEMS.get(system)
    if row and system.startswith("ubuntu") and flavour == "generic" and series != row.kernel:
        return f"generic-hwe-{system.partition('-')[2]}"
    return flavour


def write_inventory(directory: Path, target: Target, text: str) -> Path:
    """The new file. Raises: a Refusal where a file of that name exists."""
    words = target.host if target.port == SSH_PORT else f"{target.host} {target.port}"
    name = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    file = directory / f"{name}.py"
    if file.exists():
        raise refuse(
            "inventory-exists",
            f"{file} exists, and nothing of yours is overwritten",
            where=str(file),
            seen="a file",
            wanted="no file of that name",
            attempt=f"read it, or remove it and type enginehouse init {target} again",
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


TEMPLATE = '''"""{host}, as it described itself. Change the models, then read the plan."""

from deploy.spec import LLM, Embedder, Machine, Reranker, Server, Weights

gpt_oss = LLM(
    name="gpt-oss-20b",
    checkpoint="gpt-oss-20b",
    weights=Weights.hub("openai/gpt-oss-20b", "6cee5e81ee83917806bbde320786a8fb61efebee"),
)
reranker = Reranker(
    name="bge-reranker-large",
    checkpoint="bge-reranker-large",
    weights=Weights.hub("BAAI/bge-reranker-large", "55611d7bca2a7133960a6d3b71e083071bbfc312"),
)
embedder = Embedder(
    name="nomic-embed-text-v2-moe",
    checkpoint="nomic-embed-text-v2-moe",
    weights=Weights.hub("nomic-ai/nomic-embed-text-v2-moe", "1066b6599d099fbb93dfcb64f9c37a7c9e503e85"),
)

hosts = (
    ["{host}"],
    {{
{login}        "_sudo": True,
        "machine": Machine(
            os="{os}",{os_remark}
            gpu="{gpu}",{gpu_remark}
            gpus={gpus},
            memory_mib={memory_mib},
            disk_mib={disk_mib},
            kernel_flavour="{kernel_flavour}",
            secure_boot={secure_boot},
            nvswitch={nvswitch},
        ),
        "release": "{release}",
        "image_digest": "",
        "servers": (Server(name="main", models=(reranker, embedder, gpt_oss)),),
    }},
)
'''
