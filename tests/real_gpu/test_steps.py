"""The steps of a run on a real GPU, and what they are told: no machine, no card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal import hardware
from rehearsal.places import Places, RehearsalRefused
from rehearsal.real_gpu import report, scene, steps
from rehearsal.real_gpu.happenings import wrong_metrics

MIB = 2**20
CARD = {"memory.total": "81559", "memory.used": "61000", "memory.reserved": "480"}


def metrics(total_mib: float = 81_559, used_mib: float = 61_000) -> list[str]:
    """What Triton publishes of one GPU, as it writes it."""
    gpu = '{gpu_uuid="GPU-7ec0ffee-0000-4000-8000-000000000001"}'
    return [
        f"nv_gpu_utilization{gpu} 0",
        f"nv_gpu_memory_total_bytes{gpu} {total_mib * MIB:f}",
        f"nv_gpu_memory_used_bytes{gpu} {used_mib * MIB:f}",
        f"nv_gpu_power_usage{gpu} 118.412",
    ]


@pytest.mark.parametrize("used_mib", [61_000, 61_480, 61_000 - 1631, 61_480 + 1631])
def test_metrics_that_say_what_nvidia_smi_says_are_right(used_mib: float) -> None:
    """Used memory by 2 % of the card, with or without what the driver keeps for itself."""
    assert wrong_metrics(metrics(used_mib=used_mib), CARD) == []


@pytest.mark.parametrize("used_mib", [0, 61_000 - 1632, 61_480 + 1632])
def test_used_memory_that_is_further_off_is_wrong(used_mib: float) -> None:
    (wrong,) = wrong_metrics(metrics(used_mib=used_mib), CARD)
    assert wrong == f"nv_gpu_memory_used_bytes {float(used_mib * MIB)} for {61_000.0 * MIB}"


@pytest.mark.parametrize("total_mib", [81_557, 81_561, 81_559 - 480])
def test_total_memory_has_to_be_the_cards(total_mib: float) -> None:
    """To the MiB, as nvidia-smi rounds it."""
    (wrong,) = wrong_metrics(metrics(total_mib=total_mib), CARD)
    assert wrong == f"nv_gpu_memory_total_bytes {float(total_mib * MIB)} for {81_559.0 * MIB}"


def test_metrics_that_are_missing_are_wrong() -> None:
    """Both, if Triton was started without them."""
    assert [line.split()[0] for line in wrong_metrics(metrics()[:1], CARD)] == [
        "nv_gpu_memory_total_bytes",
        "nv_gpu_memory_used_bytes",
    ]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state directory of a dry pass."""
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


def test_what_the_inventory_was_told_stays_until_it_is_told_otherwise(state: Path) -> None:
    """In the file that the inventory reads."""
    scene.tell(image_mib=7000)
    scene.tell(changed=True)
    scene.tell(changed=False, gpus=2)
    told = json.loads((state / "real-gpu.json").read_text())
    assert told == scene.settings()
    assert (told["image_mib"], told["changed"], told["gpus"], told["real"]) == (7000, False, 2, False)


def test_a_dry_pass_asks_no_card(state: Path) -> None:
    assert (scene.real(), scene.card()) == (False, {})


def test_gpus_are_counted_by_their_nodes_or_stand_ins() -> None:
    """nvidiactl and the like are none."""
    nodes = ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    given = hardware.Hardware(gpu="h100-80", driver="/usr/local/nvidia", nodes=nodes)
    assert [scene.gpus_of(each) for each in (given, hardware.h100(), hardware.h100(gpus=4))] == [2, 1, 4]


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str, fails: str = "") -> tuple[int, list[str]]:
    """Exit status of the command line, and the steps that ran; `fails` is refused."""
    ran: list[str] = []

    def recorded(name: str) -> Any:
        def body(found: report.Found) -> None:
            ran.append(name)
            if name == fails:
                raise RehearsalRefused("no such thing")

        return body

    monkeypatch.setattr(steps, "STEPS", {name: recorded(name) for name in steps.STEPS})
    monkeypatch.setattr(steps, "REPORT", tmp_path)
    monkeypatch.setattr(report, "this_machine", dict)
    monkeypatch.setattr("sys.argv", ["steps", *words])
    return steps.main(), ran


def test_a_sitting_is_its_steps_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, ran = run(monkeypatch, tmp_path, "second", "kills")
    assert (code, ran) == (0, [*steps.SECOND_SITTING, "kills"])
    assert {path.name for path in tmp_path.iterdir()} == {f"step-{name}.json" for name in ran}


def test_without_words_it_is_the_first_sitting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, tmp_path) == (0, list(steps.FIRST_SITTING))


def test_after_a_step_that_failed_no_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file says so."""
    code, ran = run(monkeypatch, tmp_path, fails="deploy")
    assert (code, ran) == (1, ["artefacts", "machine", "deploy"])
    assert "no such thing" in capsys.readouterr().err
    assert json.loads((tmp_path / "step-deploy.json").read_text())["ok"] is False


def test_a_step_that_does_not_exist_is_refused_before_any_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, tmp_path, "artefacts", "deplyo")
    assert (ended.value.code, list(tmp_path.iterdir())) == (2, [])
    assert "deplyo" in capsys.readouterr().err


def test_the_report_knows_the_place_of_every_step() -> None:
    assert set(steps.STEPS) == set(report.STEPS)


def test_every_sitting_looks_last_whether_a_card_was_changed() -> None:
    assert [list(sitting)[-1] for sitting in steps.SITTINGS.values()] == ["untouched", "untouched"]
