"""Asks a machine over ssh what it is, and writes an inventory for it. Changes nothing on the machine."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from deploy.catalog import DEFAULT_RELEASE, GPUS, SYSTEMS
from deploy.errors import Refusal
from deploy.refuse import refuse

QUESTIONS = """
. /etc/os-release; echo os=$ID-$VERSION_ID
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


def ask(target: str) -> str:
    """What the machine answers, one `name=value` a line."""
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", target, "sh", "-s"]
    try:
        done = subprocess.run(
            argv, input=QUESTIONS, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise _no_answer(target, f"nothing within {TIMEOUT_SECONDS} seconds") from None
    if done.returncode:
        raise _no_answer(target, (done.stderr.strip().splitlines() or ["nothing"])[-1])
    return done.stdout


def inventory_text(target: str, answers: str) -> str:
    """An inventory for one machine: the shipped one with this host and what it said of itself."""
    told = [line.partition("=")[::2] for line in answers.splitlines()]
    said = dict(told)
    cards = Counter(value for name, value in told if name == "gpu" and value.startswith("10de:"))
    user, _, host = target.rpartition("@")
    pci_id, count = cards.most_common(1)[0] if cards else ("", 0)
    known = next((gpu.name for gpu in GPUS.values() if gpu.pci_id == pci_id), "")
    remark = "" if known else f"  # found {pci_id or 'no NVIDIA GPU'}, which is not in the catalog"
    return TEMPLATE.format(
        release=DEFAULT_RELEASE,
        host=host,
        user=f'        "ssh_user": "{user}",\n' if user else "",
        os=said.get("os", ""),
        os_remark="" if said.get("os") in SYSTEMS else "  # not provisioned by this project",
        gpu=known,
        gpu_remark=remark,
        gpus=max(count, 1),
        memory_mib=int(said.get("memory_kib", 0)) // 1024,
        disk_mib=int(said.get("disk_mib", 0)),
        secure_boot=said.get("secure_boot") == "1",
        nvswitch="bridge" in said and "10de" in [value for name, value in told if name == "bridge"],
    )


def write_inventory(directory: Path, target: str, text: str) -> Path:
    """The new file; refused where one of that name exists."""
    name = re.sub(r"[^a-z0-9]+", "_", target.rpartition("@")[2].lower()).strip("_")
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


def _no_answer(target: str, said: str) -> Refusal:
    return refuse(
        "no-answer",
        f"{target} cannot be asked over ssh",
        where=target,
        seen=said,
        wanted="a login with a key and without a question",
        attempt=f"ssh {target}, and answer what it asks there once",
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
{user}        "_sudo": True,
        "machine": Machine(
            os="{os}",{os_remark}
            gpu="{gpu}",{gpu_remark}
            gpus={gpus},
            memory_mib={memory_mib},
            disk_mib={disk_mib},
            secure_boot={secure_boot},
            nvswitch={nvswitch},
        ),
        "release": "{release}",
        "image_digest": "",
        "servers": (Server(name="main", models=(reranker, embedder, gpt_oss)),),
    }},
)
'''
