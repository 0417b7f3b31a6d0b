"""The stand-in card prints a real H100's output word for word, except for values of that card and moment.

tests/golden/card has the output of an H100 80GB HBM3 with driver 580.159.04 on 2026-11-22: nvidia-smi's table, the
first 120 lines of -q, one --query-gpu, and /proc/driver/nvidia; serial number, UUID and PDI were replaced.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from host.gpu_state import FIELDS
from rehearsal.debs import PACKAGES
from tests.unit.golden import DIRECTORY

ROOT = Path(__file__).parents[2]
CARD, SOURCES = DIRECTORY / "card", PACKAGES / "sources"
UUID = "GPU-7ec0ffee-0000-4000-8000-000000000001"
ROW = f"pci\t0000:00:06.0\t10de\t2330\t0x030200\t81559\t{UUID}\tNVIDIA H100 80GB HBM3\n"
OWN = (
    r"^((?:Timestamp +: )?)\w{3} \w{3} +\d+ [\d:]{8} \d{4}",
    r"^( *(?:Serial Number|GPU PDI|VBIOS Version|(?:Board|GPU) Part Number|[TR]x Throughput) +: ).*",
    r"^((?:IRQ:  |Video BIOS:).*\t ).*|^(GCC version:  gcc version ).*(?= $)",
    r"(Release Build  )\(.*\)|( +)\d+(?=W /)|(, )\d+\.\d+(?= W$)",
)
"""Parts that belong to one card, machine or moment, by their place."""


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with nvidia-smi and libcuda.so.1, for one loaded H100 with persistence mode on."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("card")
    (folder / "version").write_text("580.159.04\n")
    (folder / "gpus").write_text(f"00000000:00:06.0 {UUID} 0x2330\n")
    (folder / "persistence").write_text("1\n")
    holes = {"USER_SPACE": "580.159.04", "CARRIED": folder, "PERSISTENCE_MODE": folder / "persistence"}
    holes |= {"DEV": folder / "dev"}
    words = ["gcc", "-std=c99", "-Wall", "-Werror", "-D_DEFAULT_SOURCE", f"-I{SOURCES}"]
    words += [f'-D{name}="{value}"' for name, value in holes.items()]
    smi = [SOURCES / f"{name}.c" for name in ("nvidia_smi", "smi_fields", "mig_commands", "mig", "hardware")]
    cuda = [SOURCES / f"{name}.c" for name in ("libcuda", "mig", "hardware")]
    subprocess.run([*words, "-o", folder / "nvidia-smi", *smi], check=True)
    subprocess.run([*words, "-shared", "-fPIC", "-o", folder / "libcuda.so.1", *cuda], check=True)
    return folder


def smi(card: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The stand-in's output and exit status."""
    return subprocess.run([card / "nvidia-smi", *words], capture_output=True, text=True, check=False)


def common(text: str) -> str:
    """The text without values of a single card."""
    for pattern in OWN:
        text = re.sub(pattern, lambda match: f"{match[match.lastindex or 0]}…", text, flags=re.MULTILINE)
    return text


def real(name: str) -> str:
    """A recorded output of the real nvidia-smi."""
    return (CARD / name).read_text()


def test_the_stand_ins_table_matches_and_is_marked(card: Path) -> None:
    assert common(smi(card).stdout) == common(real("table.txt") + "rehearsal stand-in: no GPU is behind this table\n")


def test_every_line_of_q_that_was_read_stands_where_the_real_one_has_it(card: Path) -> None:
    read = common(real("query.txt")).splitlines()
    assert common(smi(card, "-q").stdout).splitlines()[: len(read)] == read


def test_a_query_has_nvidia_smis_headings_units_and_values(card: Path) -> None:
    fields = re.sub(r" \[\w+\]", "", real("fields.csv").splitlines()[0]).replace(" ", "")
    assert common(smi(card, f"--query-gpu={fields}", "--format=csv").stdout) == common(real("fields.csv"))


def test_a_field_with_two_names_is_headed_by_one(card: Path) -> None:
    fields = "gpu_name,gpu_bus_id,clocks.sm,clocks_throttle_reasons.active"
    heading = smi(card, f"--query-gpu={fields}", "--format=csv").stdout.splitlines()[0]
    assert heading == "name, pci.bus_id, clocks.current.sm [MHz], clocks_event_reasons.active"


def test_an_unavailable_value_stands_in_brackets_without_unit(card: Path) -> None:
    lines = smi(card, "--query-gpu=fan.speed,display_mode,inforom.pwr", "--format=csv").stdout.splitlines()
    assert lines == [
        "fan.speed [%], display_mode, inforom.pwr",
        "[N/A], [Requested functionality has been deprecated], [N/A]",
    ]


def test_the_process_table_is_headed_by_its_query(card: Path) -> None:
    done = smi(card, "--query-compute-apps=gpu_uuid,pid,used_memory,process_name", "--format=csv")
    assert (done.returncode, done.stdout) == (0, "gpu_uuid, pid, used_gpu_memory [MiB], process_name\n")


@pytest.mark.parametrize("words", ["--query-gpu=index,floppies", "--query-compute-apps=pid,floppies"])
def test_an_unknown_field_is_named_with_exit_status_2(card: Path, words: str) -> None:
    done = smi(card, words, "--format=csv")
    assert (done.returncode, done.stdout) == (2, 'Field "floppies" is not a valid field to query.\n\n')


@pytest.mark.parametrize(
    ("named", "status"), [("0", 0), (UUID, 0), ("00000000:00:06.0", 0), ("1", 6), ("GPU-other", 6)]
)
def test_a_card_is_chosen_by_index_uuid_or_bus(card: Path, named: str, status: int) -> None:
    done = smi(card, "-i", named, "--query-gpu=index", "--format=csv,noheader")
    assert (done.returncode, done.stdout) == (status, "No devices were found\n" if status else "0\n")


def test_the_stand_in_answers_every_query_of_this_repository(card: Path) -> None:
    fields = {*FIELDS}
    for file in ROOT.rglob("*.py"):
        if file.relative_to(ROOT).parts[0] in ("files", "roles", "benchmarks", "rehearsal"):
            matches = re.findall(r"--query-gpu=([a-z_.,]+)|_smi\(\"([a-z_.,]+)\"", file.read_text("utf-8"))
            fields |= {field for pair in matches for field in ",".join(pair).split(",") if field}
    assert {"memory.free", "clocks.sm", "mig.mode.pending"} <= fields  # found at all
    answered = smi(card, f"--query-gpu={','.join(sorted(fields))}", "--format=csv,noheader")
    assert answered.returncode == 0, answered.stdout


@pytest.mark.parametrize(
    ("nodes", "status", "cuda"), [("", 255, "100"), ("nvidiactl", 6, "100"), ("nvidiactl nvidia0", 0, "0")]
)
def test_a_container_sees_only_its_device_nodes(card: Path, nodes: str, status: int, cuda: str) -> None:
    """A socket cannot be opened: ENXIO, as from a node without a driver."""
    (card / "dev").mkdir()
    (card / "nodes").touch()
    try:
        for name in nodes.split():
            with socket.socket(socket.AF_UNIX) as node:
                node.bind(str(card / "dev" / name))
        initialise = f"import ctypes; print(ctypes.CDLL('{card}/libcuda.so.1').cuInit(0))"
        done = subprocess.run([sys.executable, "-c", initialise], capture_output=True, text=True, check=True)
        assert (smi(card).returncode, done.stdout.strip()) == (status, cuda)
    finally:
        shutil.rmtree(card / "dev")
        (card / "nodes").unlink()


def test_cuda_has_all_memory_except_the_drivers(card: Path) -> None:
    """81,559 MiB by nvidia-smi, 480 of them reserved; the probe of every deploy prints the rest."""
    probe = [sys.executable, str(ROOT / "files/host/cuda_probe.py"), "1"]
    done = subprocess.run(
        probe, env=os.environ | {"LD_LIBRARY_PATH": str(card)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "GPU 0: NVIDIA H100 80GB HBM3, 81,079 MiB, CUDA driver 13.0\n"


def test_a_container_has_the_gpus_that_it_was_given_nodes_of(card: Path) -> None:
    """The host has two; the copy of the host's list names both."""
    listed = (card / "gpus").read_text()
    (card / "gpus").write_text(listed + "00000000:00:07.0 GPU-7ec0ffee-0000-4000-8000-000000000002 0x2335\n")
    (card / "nodes").touch()
    (card / "dev").mkdir()
    for name in ("nvidia1", "nvidiactl"):
        (card / "dev" / name).touch()
    probe = [sys.executable, str(ROOT / "files/host/cuda_probe.py"), "1"]
    try:
        done = subprocess.run(probe, env=os.environ | {"LD_LIBRARY_PATH": str(card)}, capture_output=True, text=True)
    finally:
        (card / "gpus").write_text(listed)
        (card / "nodes").unlink()
        shutil.rmtree(card / "dev")
    assert done.stdout == "GPU 0: NVIDIA H200, 143,131 MiB, CUDA driver 13.0\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """/proc/driver/nvidia as a rehearsal machine with that card and driver shows it."""
    script = f". {ROOT / 'rehearsal/hardware/show-driver.sh'}; show_proc 580.159.04"
    environment = os.environ | {"LABEL": "rehearsal stand-in", "REHEARSAL_PROC": str(tmp_path)}
    subprocess.run(["bash", "-euc", script], input=ROW, text=True, check=True, env=environment)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("version", "version.txt"),
        ("params", "params.txt"),
        ("gpus/0000:00:06.0/information", "information.txt"),
    ],
)
def test_a_proc_file_has_the_format_of_the_real_driver(proc: Path, path: str, name: str) -> None:
    assert common((proc / path).read_text()) == common(real(name))


def test_proc_has_the_files_that_were_listed(proc: Path) -> None:
    listed = subprocess.run(["ls", "-R", proc], capture_output=True, text=True, env={"LC_ALL": "C"}).stdout
    assert listed.replace(str(proc), "/proc/driver/nvidia").startswith(real("files.txt"))
