"""The program that builds an engine, run for real with the stand-ins of the rehearsal image."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import time
from pathlib import Path

import pytest

from roles._shipping.texts import HERE
from tests.roles.engines.building import FINGERPRINT, Host


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host whose engine has been built and has answered."""
    host = Host.made(tmp_path_factory.mktemp("built"))
    (host.here / "tasks.jsonl").write_text('{"prompt": "six seven", "answer": "six"}\n')
    done = host.build(replay=host.replay(tasks=str(host.here / "tasks.jsonl")))
    assert done.returncode == 0, done.stderr
    return host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host.made(tmp_path)


def test_everything_built_is_published_at_once(built: Host) -> None:
    names = {path.name for path in built.path.iterdir()}
    assert names == {
        *("rank0.engine", "config.json", "engine.json", "build.log", "answers.jsonl", "reference.jsonl"),
    }


def test_only_the_published_engine_is_left(built: Host) -> None:
    assert [path.name for path in built.path.parent.iterdir()] == [FINGERPRINT]


def test_the_record_names_every_file_with_its_checksum(built: Host) -> None:
    content = (built.path / "rank0.engine").read_bytes()
    recorded = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert (built.record()["files"]["rank0.engine"], set(built.record()["files"])) == (
        recorded,
        {"rank0.engine", "config.json"},
    )


def test_the_record_says_how_it_came_about(built: Host) -> None:
    built_with = built.record()["built"]
    assert (
        built_with["driver"],
        built_with["gpu"],
        built_with["image_digest"],
        built_with["tools"]["tensorrt_llm"],
        list(built_with["seconds"]),
    ) == (
        *("590.44.01", "NVIDIA H100 80GB HBM3", "sha256:feed", "1.2.1"),
        ["build", "convert", "reference", "replay"],
    )


def test_the_record_is_written_in_one_way_only(built: Host) -> None:
    text = (built.path / "engine.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def test_prompts_and_tasks_are_answered_in_order(built: Host) -> None:
    rows = [json.loads(line) for line in (built.path / "answers.jsonl").read_text().splitlines()]
    assert [(row["kind"], row["prompt"], row["text"]) for row in rows] == [
        ("prompt", "one two three", " one two three one"),
        ("prompt", "four five", " four five four five"),
        ("task", "six seven", " six seven six seven"),
    ]


def test_a_faithful_engine_answers_as_its_checkpoint(built: Host) -> None:
    prompts = (built.path / "answers.jsonl").read_text().splitlines()[:2]
    assert (built.path / "reference.jsonl").read_text().splitlines() == prompts


def test_the_checkpoints_answers_are_asked_for_once(built: Host) -> None:
    kept = list((built.here / "root/answers/llama").iterdir())
    assert [path.read_text() for path in kept] == [(built.path / "reference.jsonl").read_text()]


def test_the_container_may_do_as_little_as_one_that_serves(built: Host) -> None:
    build_call = next(line for line in built.calls().splitlines() if "trtllm-build --checkpoint_dir" in line)
    for words in (
        *("--pull never", "--network none", "--user 61140:61140", "--read-only", "--cap-drop ALL", "--log-driver none"),
        *("--security-opt no-new-privileges", "--tmpfs /tmp:rw,exec,nosuid,nodev", "--device nvidia.com/gpu=0"),
        f"--mount type=bind,source={built.here}/weights,target={built.here}/weights,readonly",
    ):
        assert words in build_call


def test_the_log_has_every_command(built: Host) -> None:
    heads = [line.split(":")[0] for line in (built.path / "build.log").read_text().splitlines() if line[:3] == "== "]
    assert heads == ["== reference 1 of 4", "== convert 2 of 4", "== build 3 of 4", "== replay 4 of 4"]


def test_the_status_names_stage_number_elapsed_and_last_line(host: Host) -> None:
    output = host.build().stdout
    assert re.search(r"^build 2 of 2, \d+ s: .* Total time of building all engines", output, re.MULTILINE)


def test_a_published_engine_is_not_built_again(host: Host) -> None:
    host.build()
    before = host.calls()
    assert (host.build().returncode, host.calls()) == (0, before)


def test_a_half_published_engine_is_moved_aside_and_built_again(host: Host) -> None:
    host.build()
    (host.path / "rank0.engine").unlink()
    assert host.build().returncode == 0
    assert (host.path / "rank0.engine").exists() and (host.path.with_name(f"{FINGERPRINT}.refused")).is_dir()


def test_stored_answers_spare_the_checkpoint(host: Host) -> None:
    assert host.build(replay=host.replay(answers="stored")).returncode == 0
    assert not (host.path / "reference.jsonl").exists()


def test_an_engine_of_other_weights_diverges_from_its_checkpoint(host: Host) -> None:
    host.llama("other", rehearsal_build_seconds=0, rope_theta=1.0)
    replay = host.replay(checkpoint=str(host.here / "other"))
    assert host.build(replay=replay).returncode == 0
    assert (host.path / "answers.jsonl").read_text() != (host.path / "reference.jsonl").read_text()


def test_a_killed_build_leaves_no_engine_and_the_next_one_is_clean(host: Host) -> None:
    host.llama("weights", rehearsal_build_seconds=60)
    going = host.start()
    until = time.monotonic() + 600
    while not (host.staging / "engine/rank0.engine").exists():
        assert time.monotonic() < until and going.poll() is None
        time.sleep(0.05)
    going.kill()
    going.wait()
    assert (host.path.exists(), host.staging.exists()) == (False, True)
    host.llama("weights", rehearsal_build_seconds=0)
    assert host.build().returncode == 0
    assert "rm --force enginehouse-build-llama" in host.calls()
    assert [path.name for path in host.path.parent.iterdir()] == [FINGERPRINT]


def test_two_builds_never_run_at_once(host: Host) -> None:
    lock = host.here / "root/engines/.build.lock"
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.write("mixtral")
        handle.flush()
        going = host.start()
        time.sleep(0.5)
        assert (going.poll(), (host.here / "calls").exists()) == (None, False)
    assert going.wait(300) == 0


def test_a_failed_build_keeps_log_and_reason_and_nothing_else(host: Host) -> None:
    host.llama("weights", rehearsal_build_seconds=0, rehearsal_build_mib=200000)
    assert host.build().returncode == 1
    assert [path.name for path in host.path.parent.iterdir()] == [f"{FINGERPRINT}.failed"]
    assert {path.name for path in host.path.with_name(f"{FINGERPRINT}.failed").iterdir()} == {"build.log", "why.json"}


def test_out_of_memory_has_a_cause_and_a_remedy(host: Host) -> None:
    host.llama("weights", rehearsal_build_seconds=0, rehearsal_build_mib=200000)
    host.build()
    why = host.why()
    assert (why["stage"], why["exit"], why["cause"]) == ("build", 1, "the GPU ran out of memory")
    assert why["remedy"].startswith("lower limits.max_num_tokens") and "CUDA out of memory" in why["log"][-1]


def test_a_failure_names_the_unchanged_parts(host: Host) -> None:
    host.llama("weights", rehearsal_build_seconds=0, rehearsal_build_mib=200000)
    lines = host.build().stderr.splitlines()
    assert lines[0] == "llama-fp8: build: the GPU ran out of memory"
    assert "  state   no serving program was changed, and nothing was published" in lines


def test_a_failure_is_forgotten_once_the_engine_is_built(host: Host) -> None:
    host.llama("weights", rehearsal_build_seconds=0, rehearsal_build_mib=200000)
    host.build()
    host.llama("weights", rehearsal_build_seconds=0)
    assert host.build().returncode == 0
    assert [path.name for path in host.path.parent.iterdir()] == [FINGERPRINT]


def test_an_image_that_is_not_repaired_is_refused_with_its_own_words(host: Host) -> None:
    assert host.build(python_path="").returncode == 1
    assert "cannot import name 'PartReasoningText'" in host.why()["log"][-1]


def test_a_rank_that_is_missing_is_no_engine(host: Host) -> None:
    assert host.build(world_size=2).returncode == 1
    assert host.why()["cause"] == "the last step succeeded without writing rank1.engine"


def test_a_link_among_the_files_is_not_published(host: Host) -> None:
    escape = host.here / "escape.py"
    escape.write_text(
        "import argparse, os\np = argparse.ArgumentParser()\np.add_argument('--into')\n"
        "o = p.parse_args()\nos.symlink('/etc/shadow', o.into + '/shadow')\n"
    )
    argv = ["python3", str(escape), "--into", f"{host.staging}/engine"]
    steps = [*host.settings()["steps"], {"stage": "more", "argv": argv}]
    assert host.build(steps=steps).returncode == 1
    assert host.why()["cause"].endswith("/engine/shadow is not a plain file") and not host.path.exists()


def test_the_unit_runs_the_shipped_program() -> None:
    unit = (HERE / "files/units/enginehouse-build@.service").read_text()
    assert "ExecStart=/usr/bin/python3 -B /usr/local/lib/enginehouse/host build /etc/enginehouse/build/%i.json" in unit


def test_a_finished_checkpoint_cannot_be_its_own_reference(host: Host) -> None:
    fields = {"sm": "90", "checkpoint": {"kind": "trtllm"}}
    assert host.build(fields=fields, replay=host.replay()).returncode == 1
    assert (host.why()["stage"], host.why()["remedy"].endswith("Replay(answers=…)")) == ("reference", True)


def test_an_engine_that_answers_badly_is_built_all_the_same(host: Host) -> None:
    """The holder of the key judges the answers and refuses to sign."""
    host.llama("weights", rehearsal_build_seconds=0, rehearsal_engine_drift=2)
    assert host.build(replay=host.replay()).returncode == 0
    answer = json.loads((host.path / "answers.jsonl").read_text().splitlines()[0])
    assert answer["text"] == " one two notthree notone"


@pytest.mark.parametrize(("kind", "architecture"), [("eagle", "EagleForCausalLM"), ("medusa", "MedusaForCausalLM")])
def test_heads_are_built_in(kind: str, architecture: str, host: Host) -> None:
    script = ["python3", f"/app/examples/{kind}/convert_checkpoint.py", "--model_dir", str(host.here / "weights")]
    script += [f"--{kind}_model_dir", str(host.here / "weights"), "--output_dir", f"{host.staging}/checkpoint"]
    mode = host.step("--speculative_decoding_mode", kind, "--max_draft_len", "7")
    assert host.build(steps=[{"stage": "convert", "argv": script}, mode]).returncode == 0
    config = json.loads((host.path / "config.json").read_text())
    assert config["pretrained_config"]["architecture"] == architecture
