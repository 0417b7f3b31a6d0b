"""Every broken command of `tests.unit.pasted` is wrong for its reason, with a message compared whole."""

from __future__ import annotations

import re

import pytest

from deploy.linter import check
from deploy.linter.release import Target
from deploy.refusals.errors import Refusal
from tests.unit.golden import DIRECTORY, same_as_golden
from tests.unit.pasted import ALL, Case

CASES = pytest.mark.parametrize(("promise", "case"), ALL.items(), ids=[name.replace(" ", "_") for name in ALL])


@CASES
def test_a_pasted_text_is_wrong_for_these_reasons(promise: str, case: Case) -> None:
    """The reasons come in this order, and there are no others; a correct command has none."""
    report = check(case.text, case.release)
    kinds = [finding.kind for command in report.checked for finding in command.findings if finding.is_wrong]
    assert kinds == list(case.kinds)


@CASES
def test_the_whole_message(promise: str, case: Case) -> None:
    """The printed message; the files are read in review."""
    file = re.sub("[^a-z0-9]+", "-", promise.lower()).strip("-")
    same_as_golden(f"linter/{file}.txt", str(check(case.text, case.release)))


@CASES
def test_the_text_printed_as_right_has_no_findings(promise: str, case: Case) -> None:
    """The corrected text has no wrong finding, except for faults that text cannot correct."""
    again = [
        finding.kind
        for command in check(case.text, case.release).checked
        if command.right and command.where != "JSON"
        for nested in check(command.right_text, case.release or named(command.target)).checked
        for finding in nested.findings
        if finding.is_wrong
    ]
    assert set(again) <= {"no-engine", "unfilled-hole", "script-absent"}


def named(target: Target) -> str:
    """The release for judging a corrected text again; empty if the first was unknown."""
    return "" if target.is_unread else target.name or target.trtllm


@pytest.mark.parametrize("word", ["invalid", "failed to", "Traceback", "hf_abcdef", "0123456789"])
def test_no_message_says(word: str) -> None:
    """Messages contain no blaming or empty words, and no secrets."""
    assert [name for name, case in ALL.items() if word in str(check(case.text, case.release))] == []


def test_no_message_is_kept_for_a_case_that_is_gone() -> None:
    """Every promise has exactly one file."""
    assert len(list((DIRECTORY / "linter").iterdir())) == len(ALL)


def test_an_unknown_release_is_offered_the_nearest() -> None:
    """A container release, or a TensorRT-LLM version."""
    with pytest.raises(Refusal, match=r"did you mean `26\.07`"):
        check("trtllm-build", "26.70")


def test_a_command_in_a_container_is_judged_for_its_image() -> None:
    """A named release has precedence over the image's."""
    image = "nvcr.io/nvidia/tritonserver:25.04-trtllm-python-py3"
    text = f"docker run --device nvidia.com/gpu=all {image} trtllm-build --checkpoint_dir c --gemm_plugin nvfp4"
    assert (check(text).is_fine, check(text, "26.07").is_fine) == (False, True)


def test_a_flag_on_one_side_of_a_near_release_is_worth_knowing_and_not_wrong() -> None:
    """The image itself decides."""
    report = check("trtllm-build --checkpoint_dir c --norm_quant_fusion enable", "25.10")
    assert (report.is_fine, [finding.kind for finding in report.checked[0].findings]) == (True, ["unsure-flag"])


@pytest.mark.parametrize(
    "text",
    [
        "curl https://nvcr.io/v2/",
        "curl http://localhost:5000/v2/_catalog",
        "for m in a b; do curl localhost:8000/v2/models/$m/ready; done",
        "kubectl get pods | tritonserver --model-repository=/m",
    ],
)
def test_commands_for_other_programs_are_not_judged(text: str) -> None:
    """Registries answer /v2 too, and a variable may have any value."""
    assert check(text).is_fine


def test_a_configuration_for_a_release_without_tensorrt_llm_is_reported() -> None:
    """The message about the release is the only finding."""
    report = check('name: "m"\nbackend: "tensorrtllm"\n', "26.08")
    assert [finding.kind for finding in report.checked[0].findings] == ["program-removed"]


def test_a_path_without_a_file_is_reported() -> None:
    """The path was meant to be read, not judged as a command."""
    assert "config.pbtxt is neither an existing file" in str(check("models/llm/config.pbtxt"))


def test_the_json_of_the_linter_equals_its_text() -> None:
    """`to_json` returns the fields that `--json` prints."""
    answer = check("trtllm-build --checkpoint_dir c --max_batchsize 32").to_json()
    checked = answer["checked"]
    assert isinstance(checked, list)
    assert (answer["is_fine"], checked[0]["right"]) == (False, "trtllm-build --checkpoint_dir c --max_batch_size 32")
