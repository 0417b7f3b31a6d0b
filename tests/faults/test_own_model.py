"""A model of the operator's own: the same Triton serves it from a directory of the host, and no other source is
used."""

from __future__ import annotations

import json
import urllib.request

import pytest

from rehearsal.pyinfra_run import pyinfra
from tests.faults.scene import WELL, Scene

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

OWN = "tests/faults/inventories/own_model.py"
CONFIG = """backend: "python"
max_batch_size: 0
input [ { name: "text" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "twice" data_type: TYPE_INT32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""
MODEL = """import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        {}

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "text").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("twice", 2 * numbers)]) for numbers in inputs]
"""
PLACE = "/srv/triton/echo"
ASKED = {"inputs": [{"name": "text", "shape": [1], "datatype": "INT32", "data": [21]}]}
SUMS = f"find {PLACE} -type f -exec sha256sum {{}} + | sort -k 2"


def written(scene: Scene, initialize: str = "pass", config: str = CONFIG) -> None:
    """Puts the model into its repository on the machine."""
    for name, text in (("config.pbtxt", config), ("1/model.py", MODEL.format(initialize))):
        scene.machine.run(f"mkdir -p {PLACE}/1 && cat > {PLACE}/{name} <<'END'\n{text}END")


def answer(scene: Scene) -> list[int]:
    """Returns the model's answer to a client of Triton."""
    place = f"http://{scene.machine.address}:8000/v2/models/echo/infer"
    with urllib.request.urlopen(place, json.dumps(ASKED).encode(), timeout=20) as response:
        numbers: list[int] = json.load(response)["outputs"][0]["data"]
    return numbers


def test_triton_serves_it_in_place_and_the_next_run_is_silent(scene: Scene) -> None:
    written(scene)
    before = scene.machine.run(SUMS).stdout
    run = scene.deploy(inventory=OWN)
    assert run.code == 0, run.output[-4000:]
    assert answer(scene) == [42]
    assert scene.deploy(inventory=OWN).is_silent
    assert scene.ends_well() == WELL
    assert scene.machine.run(SUMS).stdout == before, "an inventory without it leaves its files"


def test_one_that_does_not_load_brings_the_earlier_release_back(scene: Scene) -> None:
    written(scene, initialize='raise RuntimeError("no such weights")')
    release = scene.current()
    run = scene.deploy(inventory=OWN)
    assert (run.code, scene.current()) == (1, release)
    assert "echo does not load" in run.output and "no such weights" in run.output
    assert scene.ends_well() == WELL


def test_a_wrong_configuration_is_refused_before_the_first_change(scene: Scene) -> None:
    written(scene, config=f'name: "other"\n{CONFIG}')
    scene.mark()
    run, changed = scene.deploy(inventory=OWN), scene.written()
    assert (run.code, changed) == (1, [])
    assert f"{PLACE} has the configuration of another model" in run.output
    assert scene.ends_well() == WELL


def test_a_removal_stops_it_and_leaves_its_repository(scene: Scene) -> None:
    written(scene)
    assert scene.deploy(inventory=OWN).code == 0
    assert answer(scene) == [42]
    before = scene.machine.run(SUMS).stdout
    listed = pyinfra(OWN, "remove.py", "-y", print_steps=False)
    assert (listed.code, "/srv/triton" in listed.output, answer(scene)) == (0, False, [42])
    removed = pyinfra(OWN, "remove.py", "-y", "--data", "remove=yes", print_steps=False)
    assert removed.code == 0, removed.output[-4000:]
    assert scene.machine.run(SUMS).stdout == before
    assert scene.says("ls -d /etc/systemd/system/triton@* /etc/enginehouse 2>/dev/null") == ""
