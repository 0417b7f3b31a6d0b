"""A run on a borrowed card only queries it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.real_gpu.untouched import main, touches_card

ROOT = Path(__file__).parents[2]

CHANGES = """
nvidia-smi -pm 1
/usr/bin/nvidia-smi --persistence-mode=1
sudo nvidia-smi -i 0 -pl 300
nvidia-smi -lgc 1980,1980
nvidia-smi -q -rgc
nvidia-smi --lock-memory-clocks=2619
nvidia-smi -ac 2619,1980
nvidia-smi -e 0
nvidia-smi -p 0
nvidia-smi -c EXCLUSIVE_PROCESS
nvidia-smi -mig 1
nvidia-smi -i 0 --multi-instance-gpu=1
nvidia-smi mig -i 0 -cgi 9,9 -C
nvidia-smi mig -dci
nvidia-smi --gpu-reset -i 0
nvidia-smi -r
nvidia-smi conf-compute -srs 1
nvidia-smi drain -p 0000:00:06.0 -m 1
nvidia-smi boost-slider --vboost 1
nvidia-smi --an-option-of-the-future
['nvidia-smi', '-i', '0', '-pm', '1']
{"command": "true\\nnvidia-smi -pm 1\\ntrue"}
docker exec probe nvidia-smi -pm 1
test -e /dev/nvidia0 || nvidia-modprobe -u -c=0
sh -c '/usr/bin/nvidia-persistenced --persistence-mode'
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode --verbose
systemctl restart nvidia-persistenced.service
systemctl daemon-reload && (systemctl try-restart nvidia-persistenced.service 2>/dev/null || true)
systemctl enable --now nvidia-fabricmanager.service
modprobe --all nvidia nvidia-uvm
rmmod nvidia_uvm
insmod /usr/local/nvidia/modules/nvidia.ko
bash /usr/local/lib/enginehouse/reload-modules || [ $? -eq 75 ]
/usr/bin/python3 -B /usr/local/lib/enginehouse/host mig apply
apt-get install -y nvidia-driver-cuda=580.178.04-1
DEBIAN_FRONTEND=noninteractive apt-get purge 'libnvidia-compute-580'
echo 1 > /sys/bus/pci/devices/0000:00:06.0/reset
mkdir -p /etc/systemd/system/nvidia-persistenced.service.d && cat > /etc/x
nvidia-cuda-mps-control -d
+ nvidia-persistenced
Enabled persistence mode for GPU 00000000:00:06.0.
Power limit for GPU 00000000:00:06.0 was set to 300.00 W from 700.00 W.
GPU clocks set to "(gpuClkMin 1980, gpuClkMax 1980)" for GPU 00000000:00:06.0
Enabled MIG Mode for GPU 00000000:00:06.0
Successfully created GPU instance ID  1 on GPU  0 using profile MIG 3g.40gb (ID  9)
GPU 00000000:00:06.0 was successfully reset.
kernel: NVRM: Persistence mode is deprecated and will be removed in a future release.
""".strip().splitlines()
ASKS = """
nvidia-smi
nvidia-persistenced
/usr/local/nvidia/bin/nvidia-persistenced
-rwxr-xr-x 1 root root 3012 Nov 22 21:46 reload-modules
nvidia-smi -L | grep ^GPU
nvidia-smi -q -d MEMORY -i 0
/usr/local/nvidia/bin/nvidia-smi --query-gpu=index,uuid --format=csv,noheader,nounits --id=0
nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -x '[0-9][0-9]*' | while read -r p; do true; done
nvidia-smi conf-compute -f | grep -i 'CC status: *ON'; ls /dev/sev-guest /dev/tdx_guest
nvidia-smi mig -lgi
nvidia-smi topo -m
['nvidia-smi', '-L']
nvidia-smi lists 0, and nvidia-smi says: Unable to determine the device handle
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
Persistence Mode                                   : Enabled
After=nvidia-persistenced.service nvidia-fabricmanager.service
systemctl show --property=Id,LoadState,ActiveState nvidia-persistenced.service nvidia-fabricmanager.service
for f in /usr/local/lib/enginehouse/reload-modules /etc/systemd/system/nvidia-persistenced.service.d/52-enginehouse.conf
case $n in nvidia-persiste*|nv-hostengine|nvsm*|nvidia-smi|nv-fabricmanage*) ;;
command -v nvidia-uninstall || ls /var/log/nvidia-installer.log
modprobe br_netfilter; modinfo -F version nvidia
apt-get install -y nvidia-container-toolkit=1.20.0-1 libnvidia-container-tools=1.20.0-1
systemctl restart nvidia-cdi-refresh.service
docker run --rm --device nvidia.com/gpu=all image nvidia-smi -L
  try     systemctl stop triton@main && nvidia-smi --gpu-reset -i 0, then run again
[h100-01]   try     nvidia-smi -pm 1
{"reason": "  seen    GPU 0: Xid 79\\n  try     nvidia-smi --gpu-reset -i 0\\n  state   the swap was not begun"}
--> Starting operation: Driver | Verify the unmanaged driver
""".strip("\n").splitlines()


@pytest.mark.parametrize("line", CHANGES)
def test_a_line_that_changes_a_card_is_named(line: str) -> None:
    assert touches_card(f"before\n{line}\nafter\n") != []


@pytest.mark.parametrize("line", ASKS)
def test_a_line_that_asks_or_advises_is_not(line: str) -> None:
    assert touches_card(line) == []


def test_the_lines_come_stripped_in_their_order() -> None:
    assert touches_card("ok\n  nvidia-smi -r\nok\n\x1b[31mnvidia-smi -pm 1\x1b[0m\n") == [
        "nvidia-smi -r",
        "nvidia-smi -pm 1",
    ]


def test_the_command_names_the_log_and_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.log").write_text("nvidia-smi -L\n")
    (tmp_path / "two.log").write_text("nvidia-smi -pm 1\n")
    assert main([str(tmp_path / "one.log")]) == 0
    assert main([str(tmp_path / name) for name in ("one.log", "two.log")]) == 1
    assert capsys.readouterr().out == f"{tmp_path}/two.log: nvidia-smi -pm 1\n"


MEANT = {
    "deploy/doctor/catalogue.py": "sentences for a person: what to type for a GPU that wants a reset",
    "deploy/doctor/catalogue_logs.py": "sentences for a person: which daemon to start again after a fabric's fault",
    "deploy/doctor/phrases_services.py": "a line that nvidia-modprobe logs when it fails",
    "files/host/gpu_state.py": "a sentence for a person: a broken GPU is reset by hand",
    "files/host/mig.py": "cuts GPUs as the inventory declares",
    "files/host/repair/act.py": "resets GPUs where the inventory allows repairs, which wants a managed driver",
    "files/shell/reload-modules": "run where the driver is managed",
    "files/units/enginehouse-mig.service": "placed where the inventory declares a cut",
    "files/units/persistenced.conf": "placed where the driver is managed",
    "roles/nvidia_driver/operations.py": "the managed driver and its daemons",
}
"""Files that may name a change of a card, and the reason."""
WORDS = {
    *("-pm", "-pl", "-lgc", "-lmc", "-rgc", "-rmc", "-ac", "-rac", "-mig", "-cgi", "-cci", "-dgi", "-dci", "-srs"),
    *("--gpu-reset", "--persistence-mode", "--power-limit", "--lock-gpu-clocks", "--ecc-config", "--compute-mode"),
    *("nvidia-modprobe", "nvidia-cuda-mps-control"),
}
"""Words of a command that a program composes, searched in files that mention nvidia-smi."""
PARTS = ("deploy", "roles", "files", "benchmarks", "rehearsal/real_gpu", "tests/smoke", "tests/encoders")


def test_only_allowed_modules_name_commands_that_change_a_card() -> None:
    files = [ROOT / f"{verb}.py" for verb in ("deploy", "build", "rollback", "remove")]
    files += [file for part in PARTS for file in sorted((ROOT / part).rglob("*")) if _is_text(file)]
    assert {str(file.relative_to(ROOT)) for file in files if _names_changes(file)} == set(MEANT)


def _is_text(file: Path) -> bool:
    endings = ("untouched.py", ".pyc", ".md", ".json", ".jsonl", ".png")
    return file.is_file() and not file.name.endswith(endings)


def _names_changes(file: Path) -> bool:
    words = WORDS if "nvidia-smi" in file.read_text("utf-8") else set[str]()
    return any(sentence in words or touches_card(sentence) for sentence in _sentences(file))


def _sentences(file: Path) -> Iterator[str]:
    """The texts in a Python file, without documentation; the lines of any other file, without comments."""
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        yield from (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        return
    nodes = list(ast.walk(ast.parse(text)))
    documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value
