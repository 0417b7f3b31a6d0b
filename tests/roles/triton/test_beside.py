"""An LLM beside Triton: its start line, its unit, and the role on bare, finished and half-finished hosts."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.catalog.runtimes import row_of
from deploy.slices.host import ReplaySlice, Slice
from roles import triton
from roles._pyinfra.runs import Run
from roles.triton import swapping
from roles.triton.defaults import Defaults
from roles.triton.llm_files import UNIT
from roles.triton.operations import texts
from roles.triton.release import release_of
from roles.triton.render import render
from tests.roles.fake import Ran, run
from tests.roles.triton.llm_servers import EVERY, SERVE_1_2, SERVE_1_3, host_with, runtime_of, server_with
from tests.unit.golden import same_as_golden

MINE = host_with()
MAIN = server_with()
WANTED = release_of(MAIN, Defaults())
RELEASE = WANTED.id
PROBED = "key=abc\nproven"
BESIDE = pytest.mark.parametrize(("runtime", "image"), EVERY)


@pytest.fixture(autouse=True)
def someone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes the run's id, user and token, so that tests do not depend on who runs them."""
    monkeypatch.setattr(swapping, "this_run", lambda state: Run("20261122-101502-3f9c", "2026-11-22T10:15:02Z", "me"))
    monkeypatch.setattr(swapping, "token_hex", lambda _: "mine")


def files(runtime: str, image: str) -> dict[str, str]:
    """The release's text files, by path."""
    rendered = render(server_with(runtime, image), Defaults())
    return {path: content.decode() for path, content in rendered.items()}


@BESIDE
def test_the_start_line_of_each_runtime_is_the_reviewed_one(runtime: str, image: str) -> None:
    rendered = files(runtime, image)
    name = f"beside/{runtime}-{image.rsplit(':', 1)[1]}"
    same_as_golden(f"{name}/run", rendered["llm/run"])
    if runtime == "trtllm-serve":
        same_as_golden(f"{name}/settings.yaml", rendered["llm/settings.yaml"])


def test_a_server_with_only_an_llm_beside_triton_has_a_model_directory() -> None:
    """Triton exits at its start without a directory of models."""
    server = replace(MAIN, models=tuple(model for model in MAIN.models if model.runtime))
    paths = [path for path in render(server, Defaults()) if path.startswith("models/")]
    assert (paths, server.in_triton) == (["models/README"], ())


def test_the_record_and_the_drop_in_of_the_shipped_inventory_are_the_reviewed_ones() -> None:
    assert WANTED.llm_settings
    same_as_golden("beside/server.json", files(*EVERY[0])["server.json"])
    same_as_golden("beside/enginehouse.conf", WANTED.llm_settings.content)


@BESIDE
def test_the_start_line_is_bash(runtime: str, image: str) -> None:
    line = files(runtime, image)["llm/run"]
    checked = subprocess.run(["bash", "-n"], input=line, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@BESIDE
def test_every_flag_is_one_that_the_release_has(runtime: str, image: str) -> None:
    """The rendered line is checked too, because Docker runs it."""
    row = row_of(runtime, image.rsplit(":", 1)[1])
    assert row
    command = files(runtime, image)["llm/run"].rpartition("exec docker run")[2]
    flags = re.findall(r"(?<=\s)--[a-z][\w-]*", command)
    assert len(flags) > 8
    assert [flag for flag in flags if not row.knows(flag)] == []


@BESIDE
def test_the_container_may_do_no_more_than_triton_s(runtime: str, image: str) -> None:
    """The same user, file system, capabilities and network; clients reach it only through the gateway."""
    rendered = files(runtime, image)
    options = ("user", "cap-drop", "security-opt", "tmpfs", "pids-limit", "network", "dns", "ulimit", "log-driver")
    for option in options:
        values = [re.findall(rf"--{option} (\S+)", rendered[name]) for name in ("run", "llm/run")]
        assert values[0] == values[1] != []
    assert all(" --read-only " in rendered[name] for name in ("run", "llm/run"))
    assert re.findall(r"--publish (\S+)", rendered["llm/run"]) == ["127.0.0.1:8010:8010"]
    assert "--gpus" not in rendered["llm/run"] and "--device nvidia.com/gpu=0" in rendered["llm/run"]


def test_telemetry_and_hubs_are_off() -> None:
    vllm, old, new = (files(*runtime)["llm/run"] for runtime in EVERY)
    assert "VLLM_NO_USAGE_STATS=1" in vllm
    assert "--no-telemetry" in new and "--no-telemetry" not in old  # 1.2.1 has no telemetry, and refuses the flag
    assert all("HF_HUB_OFFLINE=1" in line and "DO_NOT_TRACK=1" in line for line in (vllm, old, new))


def test_the_cache_is_a_size_and_no_share_of_free_memory() -> None:
    """Memory that Triton's encoders take or free meanwhile does not change it."""
    arguments = runtime_of(MAIN).arguments
    llm = MAIN.models[-1]
    assert arguments[arguments.index("--kv-cache-memory-bytes") + 1] == str(llm.memory.kv_cache_mib * 2**20)
    for runtime in (SERVE_1_2, SERVE_1_3):
        settings = yaml.safe_load(files(*runtime)["llm/settings.yaml"])
        assert settings["kv_cache_config"]["max_tokens"] == server_with(*runtime).models[-1].kv_cache_tokens


def test_both_containers_fit_the_card() -> None:
    taken = MAIN.overhead_mib + sum(model.memory.total_mib for model in MAIN.models)
    assert taken < MINE.gpu_mib


def test_triton_does_not_load_the_model_beside_it() -> None:
    rendered = render(MAIN, Defaults())
    assert not [path for path in rendered if path.startswith("models/llama")]
    assert [model["name"] for model in json.loads(rendered["server.json"])["models"]] == [
        "bge-reranker-large",
        "nomic-embed-text-v2-moe",
    ]
    assert "meta-llama" not in rendered["run"].decode() and "weights/llama" not in rendered["run"].decode()


def test_a_changed_unit_or_flag_is_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = release_of(server_with(*SERVE_1_2), Defaults())
    assert changed.id != RELEASE
    monkeypatch.setattr(type(UNIT), "read_bytes", lambda path: b"another unit")
    assert release_of(MAIN, Defaults()).id != RELEASE


def placed() -> str:
    """The answer of a host with the right programs and units."""
    return "\n".join(f"{text.wanted_fact} {text.path}" for text in texts([WANTED]))


def serving(current: str = RELEASE, llm: str = "active", llm_enabled: str = "enabled", more: str = "") -> str:
    """A host's answer about its servers."""
    return (
        f"release={RELEASE}\nserver=main\ncurrent={current}\nprevious=\nactive=active\nenabled=enabled\n"
        f"with_docker=yes\nswap=inactive\nllm={llm}\nllm_enabled={llm_enabled}\n{more}"
    )


def play(seen: str = "", probed: str = "key=abc", served: str = "", mine: Any = MINE) -> Ran:
    """The role on one host with these answers."""
    answers: dict[str, Any] = {"%n %a %U": seen, "command -v nvidia-ctk": probed, 'echo "server=$s"': served}
    answers["/verdict.json"] = json.dumps({"release": RELEASE, "asked": "another's", "sentence": "it serves"})
    return run(lambda: triton.apply(mine, "plan-1", 2), answers=answers)


def test_a_bare_host_gets_both_units_enabled_and_one_swap() -> None:
    commands = [command for command in play().commands if command.startswith(("systemctl enable", "{ systemctl"))]
    assert [command.partition("&& ")[2] or command for command in commands] == [
        "systemctl enable triton@main.service",
        "systemctl enable llm@main.service",
        "systemctl start --no-block enginehouse-swap@main.service",
    ]


def test_a_bare_host_gets_the_unit_and_its_times() -> None:
    paths = {text.path for text in texts([WANTED])}
    assert {
        "/etc/systemd/system/llm@.service",
        "/etc/systemd/system/llm@main.service.d/enginehouse.conf",
    } <= paths


def test_a_finished_host_gets_nothing() -> None:
    ran = play(placed(), PROBED, serving())
    assert (ran.changed, ran.would_change) == ((), ())


@pytest.mark.parametrize(
    "half", [serving(llm="failed"), serving(llm="inactive"), serving(llm="activating"), serving(more="cut=yes")]
)
def test_a_host_with_a_failed_llm_is_swapped_in_one_transaction(half: str) -> None:
    assert play(placed(), PROBED, half).changed == (f"Triton | Swap in release {RELEASE} on main",)


def test_an_llm_that_no_boot_would_start_is_enabled() -> None:
    commands = play(placed(), PROBED, serving(llm_enabled="")).commands
    assert [command for command in commands if "enable" in command] == ["systemctl enable llm@main.service"]


def test_a_server_that_serves_without_an_llm_now_loses_its_unit() -> None:
    """The unit is removed after the swap, which has already stopped it."""
    mine = host_with_triton_alone()
    release = release_of(mine.servers[0], Defaults())
    answer = serving(current=release.id).replace(f"release={RELEASE}", f"release={release.id}")
    ran = play("\n".join(f"{text.wanted_fact} {text.path}" for text in texts([release])), PROBED, answer, mine)
    assert ran.commands == (
        "systemctl disable --now llm@main.service && rm -rf /etc/systemd/system/llm@main.service.d"
        " && systemctl daemon-reload && { systemctl reset-failed llm@main.service 2>/dev/null || true; }",
    )


def host_with_triton_alone() -> Any:
    """The same host, with a server without the LLM."""
    return replace(MINE, servers=(replace(MAIN, models=MAIN.in_triton),))


def test_a_container_that_lost_its_unit_goes() -> None:
    ran = play(placed(), PROBED, "llm-orphan=old\n" + serving())
    assert ran.commands == ("docker rm --force llm-old",)


COMPARED = {
    "model": "llama-3.1-8b-instruct", "equal_percent": 97.5, "equal_wanted": 90.0, "unit": "words", "count": 40,
    "tasks": 0, "gpus": 1, "before": {"tokens_per_second": 9.0, "first_token_p50_ms": 5.0, "first_token_p95_ms": 6.0},
    "now": {"streams": 2, "requests": 4, "tokens_per_second": 10.0, "first_token_p50_ms": 4.0,
            "first_token_p95_ms": 5.0},
}  # fmt: skip


def judged_host(folder: Path) -> Slice:
    """The host, its LLM with a replay."""
    (folder / "prompts.jsonl").write_text('{"prompt": "hello"}\n')
    limits = ReplaySlice(
        prompts=f"{folder}/prompts.jsonl", answers="", max_tokens=8, equal_percent=90, tasks="", minimum_percent=0
    )
    models = (*MAIN.in_triton, replace(MAIN.models[-1], replay=limits))
    return replace(MINE, servers=(replace(MAIN, models=models),))


def test_the_swap_of_a_judged_llm_has_its_prompts_and_the_operator_reads_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.rollout.promotion._figures", lambda *_: ["figures"])
    answers: dict[str, Any] = {"%n %a %U": "", "command -v nvidia-ctk": "key=abc", 'echo "server=$s"': ""}
    answers["/verdict.json"] = json.dumps({"release": RELEASE, "asked": "mine", "compared": COMPARED})
    ran = run(lambda: triton.apply(judged_host(tmp_path), "plan-1", 2), answers=answers)
    (written,) = [heard for rows in ran.shell.values() for heard in rows if "wanted.json" in heard.command]
    assert json.loads(written.stdin)["replay"]["prompts"] == ["hello"] and "chmod 0600" in written.command
    lines = [line for line in ran.log if "words equal" in line or "figures" in line]
    assert [line.partition("main: ")[2] for line in lines] == [
        "llama-3.1-8b-instruct: 97.5 % of 40 words equal (90.0 % wanted)",
        "figures",
    ]


def test_a_replay_makes_no_other_release(tmp_path: Path) -> None:
    """Changed prompts stop no server."""
    assert release_of(judged_host(tmp_path).servers[0], Defaults()).id == RELEASE


def test_a_host_without_an_llm_beside_triton_installs_no_unit_for_it() -> None:
    """Hosts of older inventories do not change."""
    assert not [text.path for text in texts([release_of(host_with_triton_alone().servers[0], Defaults())])
                if "llm@" in text.path]  # fmt: skip
