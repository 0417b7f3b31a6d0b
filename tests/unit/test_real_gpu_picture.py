"""The memory picture: the same report gives the same bytes, bars are as long as their MiB, with figures."""

import json
import xml.etree.ElementTree as ElementTree

from rehearsal.real_gpu.picture import memory_step, svg

MODEL = {"kind": "reranker", "planned_mib": 20_000, "measured_mib": 19_000, "off_percent": -5.0}
LLM = {"kind": "llm", "planned_mib": 40_000, "measured_mib": 40_400, "off_percent": 1.0}
STEP = {
    "step": "memory",
    "began": "2026-11-23T10:00:00.000+00:00",
    "machine": {"cpu": "a cpu", "gpu": "NVIDIA H100 80GB HBM3", "driver": "580.159.04"},
    "found": {
        "tritonserver": {"planned_mib": 600, "measured_mib": 0, "is_allowance": True},
        "models": [
            MODEL | {"model": "bge"},
            LLM | {"model": "llama", "workspace": {"allowance_mib": 4_000, "taken_by_the_stand_in_mib": 1_000}},
        ],
        "sum": {"planned_mib": 64_600, "measured_mib": 60_400, "usable_mib": 75_000, "fits": True},
    },
}


def test_bars_are_as_long_as_their_share_of_the_card() -> None:
    rects = [r for r in ElementTree.fromstring(svg(STEP)).iter() if r.tag.endswith("rect")]
    plan, measured = rects[:5], rects[5:10]
    assert [float(rect.get("width", "")) for rect in plan] == [750.0, 6.0, 200.0, 400.0, 40.0]
    assert [float(rect.get("width", "")) for rect in measured] == [750.0, 0.0, 190.0, 404.0, 10.0]


def test_every_figure_stands_in_the_picture() -> None:
    drawn = svg(STEP)
    figures = ("20,000", "19,000", "-5.0 %", "40,400", "+1.0 %", "4,000", "64,600", "60,400")
    assert all(f">{figure}<" in drawn for figure in figures)
    assert "2026-11-23 · NVIDIA H100 80GB HBM3, 580.159.04" in drawn


def test_a_report_gives_the_picture_of_its_step() -> None:
    report = json.dumps({"steps": [{"step": "deploy"}, STEP]})
    assert svg(memory_step(report)) == svg(memory_step(json.dumps(STEP)))
