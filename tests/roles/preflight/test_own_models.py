"""The operator's own models: the question runs on real directories, and each mistake has its own refusal."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.refusals.errors import Refusal
from deploy.slices.host import Slice
from deploy.slices.own_model import OwnModelSlice
from roles._pyinfra.facts import HostFacts, script
from roles.preflight import own_models
from roles.preflight.on_host import AS_SERVER
from tests.unit.samples import plan

SLICE = plan().slices[0]
CONFIG = """
# A classifier.
backend: "python"
max_batch_size: 8
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "label" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0 ] } ]
parameters { key: "EXECUTION_ENV_PATH" value: { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The directory of a model `spam` in a repository with another model."""
    place = tmp_path / "repository" / "spam"
    (place / "1").mkdir(parents=True)
    (place / "config.pbtxt").write_text(CONFIG)
    (place / "1/model.py").write_text("class TritonPythonModel: pass\n")
    (tmp_path / "repository/bge").mkdir()
    return place


def declared(folder: Path, mib: int = 3000, image: str = "") -> Slice:
    """The slice of a host with this model in its one server."""
    own = OwnModelSlice(name="spam", repository=str(folder.parent), mib=mib)
    known = SLICE.image if not image else replace(SLICE.image, reference=image)
    return replace(SLICE, image=known, servers=(replace(SLICE.servers[0], own_models=(own,)),))


def judged(mine: Slice, bare: bool = True) -> list[Refusal]:
    """The refusals after the question was asked of this machine; as the tests' own user, unless `bare` is false."""
    command = script(*own_models.fact_commands(mine))
    command = command.replace(AS_SERVER, "env") if bare else command
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    return list(own_models.own_models(HostFacts.parse(ran.stdout.splitlines()), mine))


def test_a_whole_model_is_accepted(folder: Path) -> None:
    (folder / "1/__pycache__").mkdir()
    assert judged(declared(folder)) == []


def config(text: str, by: str = "") -> Callable[[Path], object]:
    """A change of config.pbtxt, which replaces one text by another."""
    return lambda folder: (folder / "config.pbtxt").write_text(CONFIG.replace(text, by))


def linked(folder: Path) -> None:
    (folder / "1/model.py").rename(folder.parent / "model.py")
    (folder / "1/model.py").symlink_to("../../model.py")


def ensemble(folder: Path) -> None:
    steps = 'ensemble_scheduling { step [ { model_name: "bge" }, { model_name: "other" } ] }'
    (folder / "config.pbtxt").write_text(CONFIG.replace('backend: "python"', f'platform: "ensemble" {steps}'))


MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no directory": (shutil.rmtree, "is no directory"),
    "no configuration": (lambda folder: (folder / "config.pbtxt").unlink(), "has no configuration"),
    "links": (linked, "has links that lead out of it"),
    "no protobuf text": (config("dims: [ 1 ]", "dims: [ 1 "), "is not protobuf text"),
    "a field": (config("max_batch_size", "max_batchsize"), "a field that Triton does not have"),
    "a name": (config("# A classifier.", 'name: "other"'), "the configuration of another model"),
    "engines": (config('"python"', '"tensorrtllm"'), "requires the backend of engines"),
    "a backend": (config('"python"', '"onnxruntime"'), "requires a backend that the image does not have"),
    "a platform": (
        config('backend: "python"', 'platform: "onnxruntime_onnx"'),
        "a backend that the image does not have",
    ),
    "nothing": (config('backend: "python"'), "requires a backend that the image does not have"),
    "no output": (config("output [", "model_warmup ["), "has an unfinished configuration"),
    "no version": (lambda folder: shutil.rmtree(folder / "1"), "lacks version 1"),
    "an empty newer version": (lambda folder: (folder / "2").mkdir(), "lacks 2/model.py"),
    "a version": (config("max_batch_size: 8", "version_policy: { specific: { versions: [ 3 ] } }"), "lacks version 3"),
    "a file": (config("max_batch_size: 8", 'default_model_filename: "m.py"'), "lacks 1/m.py"),
    "a GPU": (config("gpus: [ 0 ]", "gpus: [ 0, 1 ]"), "names a GPU that the server does not have"),
    "a step": (ensemble, "has a step that the server does not serve"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_each_mistake_is_refused(case: str, folder: Path) -> None:
    spoil, words = MISTAKES[case]
    spoil(folder)
    (problem,) = judged(declared(folder))
    assert problem.kind == "own-model" and words in problem.problem
    assert problem.attempt and {"found", "wanted"} <= problem.facts.keys()


def test_a_model_without_memory_stays_on_the_cpu(folder: Path) -> None:
    (problem,) = judged(declared(folder, mib=0))
    assert "on a GPU without planned memory" in problem.problem
    config("KIND_GPU gpus: [ 0 ]", "KIND_CPU")(folder)
    assert judged(declared(folder, mib=0)) == []


def test_an_image_of_one_s_own_may_have_other_backends(folder: Path) -> None:
    config('"python"', '"onnxruntime"')(folder)
    config_of = (folder / "config.pbtxt").read_text().replace("max_batch_size: 8", 'default_model_filename: "m.onnx"')
    (folder / "config.pbtxt").write_text(config_of)
    (folder / "1/m.onnx").write_bytes(b"x")
    assert judged(declared(folder, image="registry.example.com/triton:1")) == []


def test_steps_of_models_that_are_served_are_accepted(folder: Path) -> None:
    ensemble(folder)
    text = (folder / "config.pbtxt").read_text().replace('"other"', '"nomic"')
    (folder / "config.pbtxt").write_text(text)
    assert judged(declared(folder)) == []


def test_files_that_the_server_s_user_cannot_read_are_named(folder: Path) -> None:
    """A test run by root asks as another user of this machine, which stands in for the server's user."""
    if os.getuid() == 0:
        for above in folder.parents:
            above.chmod(above.stat().st_mode | 0o011) if str(above).startswith("/tmp/") else None
        folder.chmod(0o755)
        (folder / "1/model.py").chmod(0o600)
        (problem,) = judged(declared(folder), bare=False)
    else:
        (folder / "1/model.py").chmod(0o000)
        (problem,) = judged(declared(folder))
    assert "cannot be read" in problem.problem and "model.py" in str(problem.facts["found"])


def test_a_silent_file_system_is_reported(folder: Path) -> None:
    (problem,) = own_models.own_models(HostFacts(values={"own-model-0": "ended 124"}), declared(folder))
    assert "did not answer" in problem.problem


@pytest.mark.parametrize("path", ["/srv/a b", "/srv/$(id)", "/srv/a;id", "/srv/x'y"])
def test_a_path_stays_one_word_in_the_question(path: str) -> None:
    (command,) = own_models.fact_commands(declared(Path(path) / "spam"))
    assert shlex.quote(f"{path}/spam") in command
