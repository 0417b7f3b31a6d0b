"""Properties of `check` on containers: any mix of faults is corrected at once, without secrets or exceptions."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.linter import check
from deploy.linter.manifests import containers, is_manifest, unreadable
from tests.unit.pasted_containers import AROUND, IMAGE, LIMIT, RUN, pod, service

OPTIONS = (
    *(
        "--gpus all",
        "--gpus 0",
        "--gpus device=0,1",
        "--gpus=true",
        "--gpus device=GPU-1,2",
        "--device nvidia.com/gpu=0",
    ),
    *("-p 8000:8000", "-p 8000:8001", "-p 99999:1", "--ulimit memlok=1", "--ulimit stack=a", "--ulimit nofile=9:1"),
    *("-e HF_TOKEN=hf_abcdefghijk", "-e NVIDIA_VISIBLE_DEVICES=void", "-e GPT_GPU_FRACTION=1", "--devices x"),
)
SERVERS = (
    *("tritonserver --model-repo=/m", "tritonserver --model-repository=/m --load-model=* --load-model=a", "ls /app"),
    *("mpirun -n 2 tritonserver --model-repository=/m", "trtllm-build --checkpoint_dir c --max_batchsize 4"),
    *("mpirun -n 1 tritonserver --model-repo=/a : -n 1 tritonserver --model-repo=/b :", "trtllm-serve m --tp_size 4"),
)
LINES = (
    *("gpus: 1", "gpus: all", "shm_siz: 2g", "ports: ['8000:8000', '8000:8001', '1:x']", "runtime: runc"),
    *("environment: {HF_TOKEN: hf_abcdefghijk, NVIDIA_VISIBLE_DEVICES: none}", "ulimits: {stak: 1, nofile: 9:1}"),
    *("deploy: {resources: {limits: {devices: [{capabilities: [gpu]}]}}}", "resources: {gpu: 1}"),
    "deploy: {resources: {reservations: {devices: [{count: 0, device_ids: [0]}]}}}",
)
ROWS = (
    *("resources: {limits: {nvidia.com/gpus: 2}}", "resources: {requests: {nvidia.com/gpu: '0.5'}}", "env: {A: b}"),
    *("env: [{name: HF_TOKEN, value: hf_abcdefghijk}, {name: A, value: 1}]", "ports: [{containerPort: '80000'}]"),
    *("livenessProbe: {httpGet: {path: /health, port: 9}}", "comand: [a]", "resources: {gpu: 1}"),
)


def still_wrong(text: str) -> list[str]:
    """The remaining problems of the corrected texts."""
    return [
        finding.problem
        for part in check(text).checked
        if part.right
        for again in check(part.right_text).checked
        for finding in again.findings
        if finding.is_wrong
    ]


@given(st.lists(st.sampled_from(OPTIONS), max_size=5), st.sampled_from(SERVERS))
def test_a_container_is_mended_at_once(options: list[str], server: str) -> None:
    assert still_wrong(f"{RUN} {' '.join(options)} {IMAGE} {server}") == []


@given(st.lists(st.sampled_from(LINES), unique_by=lambda line: line.partition(":")[0], max_size=5))
def test_a_service_is_mended_at_once(lines: list[str]) -> None:
    assert still_wrong(service(*lines)) == []


@given(st.lists(st.sampled_from(ROWS), unique_by=lambda line: line.partition(":")[0], max_size=5))
def test_a_pod_is_mended_at_once(lines: list[str]) -> None:
    assert still_wrong(pod(*lines)) == []


@given(st.sampled_from(["env", "environment", "right"]), st.from_regex(r"[A-Za-z0-9]{12,40}", fullmatch=True))
def test_no_secret_of_a_file_is_ever_shown(form: str, secret: str) -> None:
    """Findings and the corrected file are free of it."""
    texts = {
        "env": pod(LIMIT, "env:", "- name: NGC_API_KEY", f"  value: s{secret}", "- {name: A, value: 1}"),
        "environment": service("gpus: all", "environment:", f"- API_KEY=s{secret}", f"- B_TOKEN=s{secret}"),
        "right": service("gpus: 1", "environment:", f"  MY_PASSWORD: s{secret}", "  GPT_GPU_FRACTION: 1"),
    }
    report = check(texts[form])
    assert not report.is_fine and f"s{secret}" not in str(report) + str(report.to_json())


@given(st.sampled_from(sorted(AROUND)), st.integers(0, 600), st.text(max_size=4))
def test_no_mangled_file_crashes_the_linter(name: str, place: int, inserted: str) -> None:
    text = AROUND[name].text
    assert str(check(text[:place] + inserted + text[place:]))


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  a: &a\n    image: x\n    b: *a\n",
        "services:\n" + "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
        "services: &x\n  l0: &l0 {image: a}\n"
        + "".join(f"  l{n}: &l{n} {{image: a, x: [{', '.join([f'*l{n - 1}'] * 9)}]}}\n" for n in range(1, 12)),
        "services: " + "[" * 5000,
        "containers:\n" + " - {" * 3000,
        "\n" * 20_000 + "image: x",
        "#\n" * 20_000,
    ],
    ids=["itself", "unknown", "growing", "deep", "deeper", "blank", "comments"],
)
def test_no_file_takes_long(text: str) -> None:
    """Cases: aliases that multiply, and endless brackets."""
    begin = time.process_time()
    assert str(check(text))
    assert time.process_time() - begin < 30


def test_a_script_is_no_manifest() -> None:
    assert not is_manifest("cat <<EOF\nservices:\n  a:\n    image: x\nEOF\n")
    assert unreadable("trtllm-build --checkpoint_dir c\n  image: {") is None


def test_a_fragment_of_a_manifest_is_recognised() -> None:
    """A fragment is a service or a container alone, indented or not."""
    texts = {
        "    image: a/b:1\n    command: x --y\n": ["compose"],
        "triton:\n  image: a/b:1\n": ["compose"],
        "- name: t\n  image: a/b:1\n  resources: {}\n": ["pod"],
        "build:\n  image: a\n  script: [make]\n": [],
        "image: {repository: a, tag: b}\n": [],
    }
    assert {text: [part.kind for part in containers(text)] for text in texts} == texts


def test_every_kind_of_object_with_a_pod_is_read() -> None:
    """LeaderWorkerSet has two pods, and KServe writes a container as a model or in a predictor."""
    text = """kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    leaderTemplate: {spec: {containers: [{name: leader, image: a}]}}
    workerTemplate: {spec: {initContainers: [{name: first, image: b}], containers: [{name: worker, image: c}]}}
---
kind: InferenceService
spec:
  predictor: {model: {modelFormat: {name: huggingface}, args: ["--model_id=a/b"]}}
---
kind: List
items:
- kind: CronJob
  spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: job, image: d}]}}}}}
"""
    assert [part.name for part in containers(text)] == ["leader", "first", "worker", "model", "job"]
