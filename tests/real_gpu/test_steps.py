"""The steps of a run on a real GPU and their settings, without a machine or card."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rehearsal import hardware
from rehearsal.places import Places, RehearsalRefused
from rehearsal.real_gpu import measured, report, scene, steps
from rehearsal.real_gpu.deploy_steps import wrong_metrics

MIB = 2**20

CARD = {"memory.total": "81559", "memory.used": "61000", "memory.reserved": "480"}


@pytest.fixture(autouse=True)
def handler_of_sigterm() -> Iterator[None]:
    """Restores the handler of SIGTERM, which `steps.main` replaces in its process."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def metrics(total_mib: float = 81_559, used_mib: float = 61_000) -> list[str]:
    """Returns Triton's metrics of a GPU, in its own form."""
    gpu = '{gpu_uuid="GPU-7ec0ffee-0000-4000-8000-000000000001"}'
    return [
        f"nv_gpu_utilization{gpu} 0",
        f"nv_gpu_memory_total_bytes{gpu} {total_mib * MIB:f}",
        f"nv_gpu_memory_used_bytes{gpu} {used_mib * MIB:f}",
        f"nv_gpu_power_usage{gpu} 118.412",
    ]


@pytest.mark.parametrize("used_mib", [61_000, 61_480, 61_000 - 1631, 61_480 + 1631])
def test_metrics_equal_to_nvidia_smi_are_accepted(used_mib: float) -> None:
    """Used memory differs by at most 2 % of the card, with or without the driver's own share."""
    assert wrong_metrics(metrics(used_mib=used_mib), CARD) == []


@pytest.mark.parametrize("used_mib", [0, 61_000 - 1632, 61_480 + 1632])
def test_used_memory_that_is_further_off_is_wrong(used_mib: float) -> None:
    (wrong,) = wrong_metrics(metrics(used_mib=used_mib), CARD)
    assert wrong == f"nv_gpu_memory_used_bytes {float(used_mib * MIB)} for {61_000.0 * MIB}"


@pytest.mark.parametrize("total_mib", [81_557, 81_561, 81_559 - 480])
def test_total_memory_has_to_be_the_cards(total_mib: float) -> None:
    """The sizes agree to the MiB, in nvidia-smi's rounding."""
    (wrong,) = wrong_metrics(metrics(total_mib=total_mib), CARD)
    assert wrong == f"nv_gpu_memory_total_bytes {float(total_mib * MIB)} for {81_559.0 * MIB}"


def test_metrics_that_are_missing_are_wrong() -> None:
    """Both metrics are missing if Triton was started without metrics."""
    assert [line.split()[0] for line in wrong_metrics(metrics()[:1], CARD)] == [
        "nv_gpu_memory_total_bytes",
        "nv_gpu_memory_used_bytes",
    ]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty state directory of a dry pass."""
    monkeypatch.setattr(scene, "places", lambda: Places(tmp_path / "state"))
    monkeypatch.setenv("ENGINEHOUSE_REAL", "no")
    return tmp_path / "state"


def test_an_untold_inventory_has_one_card_and_the_unchanged_release(state: Path) -> None:
    assert scene.settings() == {
        "real": False,
        "gpu": "h100-80",
        "gpus": 1,
        "changed": False,
        "layout": "one",
        "image_mib": 512,
    }


def test_settings_of_the_inventory_stay_until_they_are_set_again(state: Path) -> None:
    """The settings are written to the file that the inventory reads."""
    scene.tell(image_mib=7000)
    scene.tell(changed=True)
    scene.tell(changed=False, gpus=2)
    settings = json.loads((state / "real-gpu.json").read_text())
    assert settings == scene.settings()
    assert (settings["image_mib"], settings["changed"], settings["gpus"], settings["real"]) == (7000, False, 2, False)


def test_a_dry_pass_asks_no_card(state: Path) -> None:
    assert (scene.real(), scene.card()) == (False, {})


def test_gpus_are_counted_by_their_nodes_or_stand_ins() -> None:
    """nvidiactl and similar nodes do not count."""
    nodes = ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    two_cards = hardware.Hardware(gpu="h100-80", driver="/usr/local/nvidia", nodes=nodes)
    assert [scene.gpus_of(machine) for machine in (two_cards, hardware.h100(), hardware.h100(gpus=4))] == [2, 1, 4]


def test_a_card_is_found_in_the_catalog_by_its_nvidia_smi_name() -> None:
    """nvidia-smi writes the device's id before the vendor's id."""
    assert [scene.catalog_name(pci_id) for pci_id in ("0x233010DE", "0x233510DE")] == ["h100-80", "h200-141"]
    with pytest.raises(RehearsalRefused, match="the catalog has no card 10de:1234"):
        scene.catalog_name("0x123410DE")


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str, fails: str = "") -> tuple[int, list[str]]:
    """Returns exit status of the command line and the steps that ran, in this process; `fails` is refused."""
    ran: list[str] = []

    def recorded(name: str) -> Any:
        def body(figures: report.StepResults) -> None:
            ran.append(name)
            if name == fails:
                raise RehearsalRefused("no such thing")

        return body

    bodies = {name: replace(declared, body=recorded(name)) for name, declared in steps.STEPS.items()}
    monkeypatch.setattr(steps, "STEPS", bodies)
    monkeypatch.setattr(steps, "REPORT", tmp_path)
    monkeypatch.setattr(report, "this_machine", dict)
    monkeypatch.setattr(steps, "in_time", lambda command, seconds: steps.main(command[3:]) == 0)
    return steps.main(words), ran


def test_a_sitting_is_its_steps_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, ran = run(monkeypatch, tmp_path, "second", "kills")
    assert (code, ran) == (0, [*steps.SITTINGS["second"], "kills"])
    assert {path.name for path in tmp_path.iterdir()} == {f"step-{name}.json" for name in ran}


def test_without_words_it_is_the_first_sitting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, tmp_path) == (0, list(steps.SITTINGS["first"]))


def test_a_step_that_failed_stops_those_that_need_it_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failed step's file reports the failure; a step that never began leaves no file."""
    code, ran = run(monkeypatch, tmp_path, "second", fails="deploy")
    assert (code, ran) == (1, ["artefacts", "machine", "workspaces", "deploy", "untouched"])
    printed = capsys.readouterr()
    assert "no such thing" in printed.err and "--- filled is not begun: deploy failed" in printed.out
    assert printed.out.endswith("failed: deploy, memory, filled, encoders\n")
    assert json.loads((tmp_path / "step-deploy.json").read_text())["ok"] is False
    assert not (tmp_path / "step-filled.json").exists()


def test_a_measurement_that_failed_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, tmp_path, "second", fails="memory") == (1, list(steps.SITTINGS["second"]))


def test_a_continued_session_runs_only_the_remaining_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sitting takes several commands if each may take ten minutes."""
    run(monkeypatch, tmp_path, "artefacts", "machine", "memory", fails="memory")
    code, ran = run(monkeypatch, tmp_path, "--rest", "second")
    assert (code, ran) == (0, ["workspaces", "deploy", "memory", "filled", "encoders", "untouched"])


def test_a_step_that_would_last_longer_than_is_left_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = steps.STEPS["encoders"].seconds
    code, ran = run(monkeypatch, tmp_path, "--within", str(seconds - 1), "encoders", "untouched")
    assert (code, ran) == (1, ["untouched"])
    assert "--- encoders is not begun: it takes" in capsys.readouterr().out


def test_a_step_that_does_not_end_is_ended() -> None:
    assert not steps.in_time(["tail", "-f", "/dev/null"], 0.1)
    assert steps.in_time(["true"], 60) and not steps.in_time(["false"], 60)


def test_a_killed_step_process_is_recorded_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM from `in_time` is an exception in the step, which can restore its changes."""

    def killed(figures: report.StepResults) -> None:
        figures["begun"] = True
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(steps, "STEPS", {"memory": steps.Step(killed)})
    monkeypatch.setattr(steps, "REPORT", tmp_path)
    assert steps.main(["--alone", "memory"]) == 1
    left = json.loads((tmp_path / "step-memory.json").read_text())
    assert (left["ok"], left["found"], left["problem"]) == (False, {"begun": True}, "TimeoutError: its time is up")


def test_the_memory_of_an_empty_card_is_the_reading_of_the_machine_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in card has no reading."""
    monkeypatch.setattr(measured, "REPORT", tmp_path)
    assert measured.empty_mib() is None
    for memory, empty in (({}, None), ({"memory.used": "3"}, 3)):
        with report.step("machine", tmp_path, {}) as figures:
            figures["memory_before"] = memory
        assert measured.empty_mib() == empty


def test_a_step_that_does_not_exist_is_refused_before_any_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, tmp_path, "artefacts", "deplyo")
    assert (ended.value.code, list(tmp_path.iterdir())) == (2, [])
    assert "deplyo" in capsys.readouterr().err


def test_the_report_knows_the_place_of_every_step() -> None:
    assert set(steps.STEPS) == set(report.STEPS)


def test_every_sitting_ends_with_a_check_for_changed_cards() -> None:
    assert {sitting[-1] for sitting in steps.SITTINGS.values()} == {"untouched"}


def test_every_step_follows_the_steps_that_it_needs_in_every_sitting() -> None:
    for sitting in steps.SITTINGS.values():
        for place, name in enumerate(sitting):
            assert set(steps.STEPS[name].needs) <= set(sitting[:place])
