"""The GPUs' state as a gate and as metrics, with stand-ins of nvidia-smi and the journal."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from deploy.slices.host import Slice
from host import gpu_state, nvidia_smi, places
from roles.health.defaults import Defaults
from roles.health.operations import texts
from tests.roles.slices import a_slice

REAL = "0, 00000000:00:06.0, 0, 0, 0, No, No, [N/A], None"
"""Output of an H100 80GB with driver 580.159.04 (2026-11-21)."""
LINE = "NVRM: Xid (PCI:0000:00:06): 79, pid=1234, name=tritonserver, GPU has fallen off the bus."


class Host:
    """A PATH with an nvidia-smi, a journalctl and a systemctl that print a test's lines."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.monkeypatch = root, monkeypatch
        (root / "bin").mkdir()
        (root / "servers/main").mkdir(parents=True)
        monkeypatch.setenv("PATH", f"{root / 'bin'}:/usr/bin:/bin")
        monkeypatch.setattr(places, "ROOT", root)
        monkeypatch.setattr(places, "SETTINGS", root)
        self.knows(a_slice())
        self.says(REAL)
        self.journal()
        self.program("systemctl", "exit 0")

    def knows(self, mine: Slice) -> None:
        """Writes the role's settings for this slice."""
        contents = {text.path: text.content for text in texts(mine, Defaults())}
        (self.root / "gpu_state.json").write_text(contents["/etc/enginehouse/gpu_state.json"])

    def program(self, name: str, script: str) -> None:
        """Writes a program that takes the place of the real one."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def says(self, *rows: str, code: int = 0) -> None:
        """Sets the answer of nvidia-smi."""
        self.program("nvidia-smi", "\n".join([*(f"echo '{row}'" for row in rows), f"exit {code}"]))

    def journal(self, *messages: str, at: int = 1_800_000_000) -> None:
        """Adds a line of the kernel's log."""
        lines = [json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": str(at * 10**6)}) for message in messages]
        self.program("journalctl", "\n".join(["cat <<'EOF'", *lines, "EOF"]))

    def call(self, *words: str) -> int:
        """The program's exit code."""
        return gpu_state.main([*words])

    @property
    def verdict(self) -> dict[str, str]:
        """The verdict for the requester of a swap."""
        return dict(json.loads((self.root / "servers/main/verdict.json").read_text()))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host whose one GPU is healthy."""
    return Host(tmp_path, monkeypatch)


def test_a_gpu_that_is_well_lets_a_swap_begin(host: Host) -> None:
    assert (host.call("gate", "main"), (host.root / "servers/main/verdict.json").exists()) == (0, False)


def test_an_xid_that_asks_for_a_boot_stops_the_swap_and_says_all(host: Host) -> None:
    host.journal(LINE)
    assert host.call("gate", "main") == 1
    assert host.verdict["sentence"] == "GPU 0 is not fit to start a release on"
    assert host.verdict["reason"].splitlines() == [
        "  seen    GPU 0: Xid 79, the GPU has fallen off the bus (2027-01-15 08:00:00 UTC)",
        "  wanted  no uncorrected error, no row to remap, and no Xid since boot that needs a reset",
        "  try     reboot the host (a virtual machine: stop and start it at the provider), and run again",
        "  state   the swap did not begin; the serving release stays in service",
    ]


@pytest.mark.parametrize("number", [13, 31, 43, 63, 92, 94, 121, 137, 154, 157, 160, 161, 999])
def test_an_xid_of_an_application_or_an_unknown_one_stops_nothing(host: Host, number: int) -> None:
    host.journal(LINE.replace("79", str(number)))
    assert host.call("gate", "main") == 0


@pytest.mark.parametrize("number", [46, 48, 54, 62, 64, 79, 95, 109, 110, 119, 120, 140, 143, 151, 156, 158])
def test_an_xid_of_the_card_stops_the_swap(host: Host, number: int) -> None:
    host.journal(LINE.replace("79", str(number)))
    assert host.call("gate", "main") == 1


def test_a_failed_remap_asks_for_a_reset_first(host: Host) -> None:
    """Another card is needed only if nvidia-smi still reports a failed remap afterwards."""
    host.journal(LINE.replace("79", "64"))
    assert host.call("gate", "main") == 1
    assert "nvidia-smi --gpu-reset -i 0" in host.verdict["reason"]
    host.says(REAL.replace("No, No,", "No, Yes,"))
    assert host.call("gate", "main") == 1
    assert "another card" in host.verdict["reason"]


@pytest.mark.parametrize("number", [74, 136, 144, 150, 155])
def test_an_nvlink_error_stops_a_swap_only_where_there_is_a_second_gpu(host: Host, number: int) -> None:
    host.journal(LINE.replace("79", str(number)))
    assert host.call("gate", "main") == 0
    host.knows(a_slice(machine={"gpus": 8}))
    assert host.call("gate", "main") == 1


def test_another_gpus_xid_stops_nothing_here(host: Host) -> None:
    host.journal(LINE.replace("0000:00:06", "0000:00:07"))
    assert host.call("gate", "main") == 0


def test_an_xid_from_before_a_reset_stops_nothing(host: Host) -> None:
    host.journal(LINE, at=1_000_000_000)
    assert (host.call("mended"), host.call("gate", "main")) == (0, 0)


@pytest.mark.parametrize(
    ("row", "seen", "attempt"),
    [
        (REAL.replace("No, No,", "Yes, No,"), "wait to be remapped", "--gpu-reset -i 0"),
        (REAL.replace("No, No,", "No, Yes,"), "could not be remapped", "another card"),
        (REAL.replace("06.0, 0,", "06.0, 2,"), "2 uncorrected memory errors", "--gpu-reset -i 0"),
        (REAL.replace("None", "Drain and Reset"), "recovery action is Drain and Reset", "--gpu-reset -i 0"),
        (REAL.replace("None", "Reboot"), "recovery action is Reboot", "reboot the host"),
        (REAL.replace("0, 0000", "1, 0000", 1), "lists 1 GPUs, without this GPU", "reboot the host"),
    ],
)
def test_a_fault_that_nvidia_smi_reports_stops_the_swap(host: Host, row: str, seen: str, attempt: str) -> None:
    host.says(row)
    assert host.call("gate", "main") == 1
    assert seen in host.verdict["reason"]
    assert attempt in host.verdict["reason"]


def test_errors_of_the_cards_whole_life_stop_nothing(host: Host) -> None:
    host.says(REAL.replace("06.0, 0, 0,", "06.0, 0, 7,"))
    assert host.call("gate", "main") == 0


def test_a_lost_gpu_stops_the_swap_with_the_tools_own_words(host: Host) -> None:
    host.says("Unable to determine the device handle for GPU0: 00000000:00:06.0: GPU is lost.", code=15)
    assert host.call("gate", "main") == 1
    assert "nvidia-smi says: Unable to determine the device handle" in host.verdict["reason"]


UNKNOWN = """for field in {unknown}; do case "$*" in *$field*)
    printf 'Field "%s" is not a valid field to query.\\n\\n' "$field"; exit 2;; esac; done"""
"""nvidia-smi's message about the first field it does not know."""


def test_a_tool_that_sleeps_in_the_driver_is_not_awaited(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that sleeps in the driver cannot be killed; a swap that waited for it would hang for hours."""
    host.program("nvidia-smi", "exec sleep 600")
    monkeypatch.setattr(nvidia_smi, "ANSWER_SECONDS", 0.2)
    waited: list[object] = []
    monkeypatch.setattr(nvidia_smi.subprocess.Popen, "kill", lambda process: waited.append(process))
    assert host.call("gate", "main") == 1
    assert "nothing within 0.2 s" in json.dumps(host.verdict)
    (sleeping,) = waited
    assert sleeping.poll() is None
    os.kill(sleeping.pid, signal.SIGKILL)
    sleeping.communicate()


def test_a_driver_that_recommends_nothing_yet_is_asked_the_rest(host: Host) -> None:
    host.program("nvidia-smi", f'{UNKNOWN.format(unknown="gpu_recovery_action")}\necho "{REAL.removesuffix(", None")}"')
    assert host.call("gate", "main") == 0


def test_fields_an_old_driver_does_not_know_are_no_reason_against_its_gpu(host: Host) -> None:
    """The known fields still count: here the pending rows, the only answer besides the PCI addresses."""
    names = [name for name in gpu_state.FIELDS[gpu_state.PLACES :] if name != "remapped_rows.pending"]
    script = UNKNOWN.format(unknown=" ".join(names))
    host.program("nvidia-smi", f'{script}\necho "0, 00000000:00:06.0, No"')
    assert host.call("gate", "main") == 0
    host.program("nvidia-smi", f'{script}\necho "0, 00000000:00:06.0, Yes"')
    assert host.call("gate", "main") == 1


def test_a_driver_that_does_not_even_know_its_gpus_is_silent(host: Host) -> None:
    host.program("nvidia-smi", UNKNOWN.format(unknown="pci.bus_id"))
    assert host.call("gate", "main") == 1


def test_a_server_without_a_gpu_is_not_judged(host: Host) -> None:
    host.says("nothing", code=15)
    assert host.call("gate", "other") == 0


def test_metrics_name_gpu_and_xid(host: Host) -> None:
    host.says(REAL.replace("06.0, 0, 0,", "06.0, 1, 7,"))
    host.journal(LINE, LINE)
    assert host.call("metrics") == 0
    metrics = (host.root / "metrics/gpu.prom").read_text().splitlines()
    assert "enginehouse_gpu_answers 1" in metrics
    assert 'enginehouse_gpu_ecc_uncorrected_volatile{gpu="0"} 1' in metrics
    assert 'enginehouse_gpu_ecc_uncorrected_total{gpu="0"} 7' in metrics
    assert 'enginehouse_gpu_xids{pci="0000:00:06",xid="79",remedy="boot"} 2' in metrics


def test_a_lost_gpu_is_a_metric_too(host: Host) -> None:
    host.says("GPU is lost", code=15)
    assert host.call("metrics") == 0
    assert "enginehouse_gpu_answers 0" in (host.root / "metrics/gpu.prom").read_text()
