"""The command `enginehouse` as typed: a separate process, its output and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deploy.__main__ import main

ROOT = Path(__file__).parents[2]
INVENTORY = "inventories/h100.py"


def enginehouse(*words: str) -> subprocess.CompletedProcess[str]:
    """`python -m deploy …` in the repository."""
    argv = [sys.executable, "-m", "deploy", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_plan_prints_digest_and_memory() -> None:
    """Exit status 0, and the MiB of the hand calculation."""
    done = enginehouse("plan", INVENTORY)
    assert (done.returncode, "31,197" in done.stdout, "digest  plan-" in done.stdout) == (0, True, True)


def test_an_inventory_may_import_modules_of_the_current_directory(tmp_path: Path) -> None:
    """pyinfra's own command allows these imports too."""
    (tmp_path / "shared_words.py").write_text("NAME = 'gpu1'\n")
    (tmp_path / "inventory.py").write_text("from shared_words import NAME\n\nhosts = [NAME]\n")
    installed = f"import sys; sys.path[0] = {str(ROOT)!r}; from deploy.__main__ import main; main()"
    words = [sys.executable, "-c", installed, "plan", "inventory.py", "--json"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "ModuleNotFoundError" not in ran.stdout + ran.stderr
    assert "gpu1" in ran.stdout + ran.stderr


@pytest.mark.parametrize("name", ["random", "secrets", "types", "json"])
def test_a_file_named_like_a_module_of_python_s_is_not_imported_from_the_current_directory(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise ValueError('the wrong file')\n")
    words = [sys.executable, "-m", "deploy", "key", "list"]
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(words, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, "has no keys" in ran.stdout) == (0, True), ran.stderr


def test_plan_json_is_json() -> None:
    """The output has keys for programs."""
    assert sorted(json.loads(enginehouse("plan", INVENTORY, "--json").stdout)) == [
        "digest",
        "engines",
        "hosts",
        "warnings",
        "waves",
    ]


def test_a_refused_plan_ends_with_1_and_touches_nothing() -> None:
    """Every message says that nothing was changed."""
    done = enginehouse("plan", INVENTORY, "--data", "release=24.08")
    assert (done.returncode, done.stdout, "planning; no host was changed" in done.stderr) == (1, "", True)


def test_refusals_are_json_too() -> None:
    """The JSON has fields, not text."""
    done = enginehouse("plan", INVENTORY, "--json", "--data", "release=24.08")
    assert [problem["kind"] for problem in json.loads(done.stdout)["refusals"]] == ["release-not-offered"]


def test_limit_shows_some_hosts_under_the_same_digest(tmp_path: Path) -> None:
    """A pattern chooses among the hosts."""
    text = (ROOT / INVENTORY).read_text().replace('["h100-01.example.internal"]', '["h100-01", "h100-02"]')
    (tmp_path / "fleet.py").write_text(text)
    plans = [enginehouse("plan", str(tmp_path / "fleet.py"), "--json", *more) for more in ([], ["--limit", "*-02"])]
    whole, some = (json.loads(done.stdout) for done in plans)
    assert (whole["digest"], list(some["hosts"])) == (some["digest"], ["h100-02"])


def test_an_unexpected_plan_is_refused() -> None:
    """pyinfra accepts the same option."""
    done = enginehouse("plan", INVENTORY, "--data", "expect=plan-0000000000000000")
    assert (done.returncode, "this is not the plan that was expected" in done.stderr) == (1, True)


def test_fit_says_how_many_users_are_left() -> None:
    """The output is a table, or JSON."""
    answer = json.loads(enginehouse("fit", "h100-80", "gpt-oss-20b", "--json").stdout)
    assert answer["users"]["8192"] == 155


@pytest.mark.parametrize(
    ("words", "kind"), [(["h900", "gpt-oss-20b"], "unknown-gpu"), (["h100-80", "gpt5"], "unknown-checkpoint")]
)
def test_fit_refuses_unknown_names(words: list[str], kind: str) -> None:
    """The refusal offers the nearest name."""
    done = enginehouse("fit", *words, "--json")
    assert (done.returncode, [refusal["kind"] for refusal in json.loads(done.stdout)["refusals"]]) == (1, [kind])


def test_the_verbs_are_listed() -> None:
    """Each listed verb exists."""
    text = enginehouse("--help").stdout
    assert [verb for verb in ("fit", "init", "pin", "plan") if f"  {verb} " in text] == ["fit", "init", "pin", "plan"]


@pytest.mark.parametrize("verb", sorted(main.commands))
def test_every_verb_has_an_example(verb: str) -> None:
    """The verb's help ends with a line to paste."""
    shown = CliRunner().invoke(main, [verb, "--help"]).output
    assert [line.strip()[:20] for line in shown.splitlines() if "Example:" in line] == ["Example: enginehouse"]
    assert f"Example: enginehouse {verb} " in shown


def test_no_summary_of_a_verb_is_cut() -> None:
    """At a width of 80 columns click would cut a long summary."""
    lines = CliRunner().invoke(main, ["--help"], terminal_width=80).output.partition("Commands:")[2].splitlines()
    summaries = [line.split(maxsplit=1) for line in lines if line.strip() and "Example" not in line]
    assert [verb for verb, _ in summaries] == sorted(main.commands)
    assert [summary for _, summary in summaries if summary.endswith(("...", "…"))] == []


def pyinfra(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pyinfra on three scripted hosts of the shipped inventory, with a deploy file that only makes the plan."""
    hosts = '["@fake/a", "@fake/b", "@fake/c"]'
    (directory / "fleet.py").write_text((ROOT / INVENTORY).read_text().replace('["h100-01.example.internal"]', hosts))
    (directory / "ask.py").write_text(
        "from pyinfra import host, inventory\n"
        "from deploy.io.inventory import planned\n"
        "plan = planned(inventory, host)\n"
        "print(host.name, plan.digest, plan.waves, plan.for_host(host.name).sm)\n"
    )
    argv = [sys.executable, "-m", "pyinfra", str(directory / "fleet.py"), str(directory / "ask.py"), "-y", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=300, check=False, cwd=directory, env=environment
    )


def test_a_deploy_sees_the_plan_of_its_limit(tmp_path: Path) -> None:
    """The plan has two of three hosts, each with its slice."""
    done = pyinfra(tmp_path, "--limit", "@fake/a", "--limit", "@fake/c")
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("@fake/"))
    assert [line.split(" plan-")[0] for line in lines] == ["@fake/a", "@fake/c"]
    assert all("(('@fake/a',), ('@fake/c',)) 90" in line for line in lines)


def test_a_deploy_with_another_plan_ends_before_any_host_is_changed(tmp_path: Path) -> None:
    """The message comes without a traceback, and the exit status is not 0."""
    done = pyinfra(tmp_path, "--data", "expect=plan-0000000000000000")
    output = done.stdout + done.stderr
    assert (done.returncode != 0, "not the plan that was expected" in output, "Traceback" in output) == (
        True,
        True,
        False,
    )


@pytest.mark.parametrize("is_pipe", [False, True])
def test_a_run_without_a_terminal_is_refused_before_it_connects(is_pipe: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier, such a run of a cron job or of CI prepared every host, and ended with pyinfra's traceback."""
    monkeypatch.delenv("PYINFRA_YES", raising=False)
    only = ["deploy.py", "--limit", "h100-01*", "--data", "only=gateway", "--ssh-password", "hunter2"]
    argv = [sys.executable, "-m", "pyinfra", INVENTORY, *only]
    source: dict[str, Any] = {"input": ""} if is_pipe else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, **source)
    assert (done.returncode, "Connecting to hosts" in done.stderr) == (1, False)
    command = f"pyinfra {INVENTORY} deploy.py --limit 'h100-01*' --data only=gateway --ssh-password '…'"
    assert f"{command} --dry; then {command} -y" in done.stderr and "hunter2" not in done.stderr
