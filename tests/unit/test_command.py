"""The command `enginehouse`, as typed: a process of its own, its output and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INVENTORY = "inventories/h100.py"


def enginehouse(*words: str) -> subprocess.CompletedProcess[str]:
    """`python -m deploy …` in the repository."""
    argv = [sys.executable, "-m", "deploy", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_plan_prints_digest_and_memory() -> None:
    """Exit 0, and the MiB of the hand calculation."""
    done = enginehouse("plan", INVENTORY)
    assert (done.returncode, "30,615" in done.stdout, "digest  plan-" in done.stdout) == (0, True, True)


def test_plan_json_is_json() -> None:
    """Keys for programs."""
    assert sorted(json.loads(enginehouse("plan", INVENTORY, "--json").stdout)) == [
        "digest",
        "engines",
        "hosts",
        "warnings",
        "waves",
    ]


def test_a_refused_plan_ends_with_1_and_touches_nothing() -> None:
    """Said in every message."""
    done = enginehouse("plan", INVENTORY, "--data", "release=24.08")
    assert (done.returncode, done.stdout, "planning; no host was changed" in done.stderr) == (1, "", True)


def test_refusals_are_json_too() -> None:
    """Fields, not text."""
    done = enginehouse("plan", INVENTORY, "--json", "--data", "release=24.08")
    assert [problem["kind"] for problem in json.loads(done.stdout)["refusals"]] == ["release-not-offered"]


def test_limit_shows_some_hosts_under_the_same_digest() -> None:
    """A pattern that matches nobody shows nobody."""
    whole, none = (
        json.loads(enginehouse("plan", INVENTORY, "--json", *more).stdout) for more in ([], ["--limit", "x*"])
    )
    assert (whole["digest"], list(none["hosts"])) == (none["digest"], [])


def test_an_unexpected_plan_is_refused() -> None:
    """The same words pyinfra takes."""
    done = enginehouse("plan", INVENTORY, "--data", "expect=plan-0000000000000000")
    assert (done.returncode, "this is not the plan that was expected" in done.stderr) == (1, True)


def test_fit_says_how_many_users_are_left() -> None:
    """In a table, or as JSON."""
    found = json.loads(enginehouse("fit", "h100-80", "gpt-oss-20b", "--json").stdout)
    assert found["users"]["8192"] == 156


@pytest.mark.parametrize(
    ("words", "kind"), [(["h100", "gpt-oss-20b"], "unknown-gpu"), (["h100-80", "gpt5"], "unknown-checkpoint")]
)
def test_fit_refuses_what_it_does_not_know(words: list[str], kind: str) -> None:
    """With the nearest name."""
    done = enginehouse("fit", *words, "--json")
    assert (done.returncode, [one["kind"] for one in json.loads(done.stdout)["refusals"]]) == (1, [kind])


def test_the_verbs_are_listed() -> None:
    """And nothing that is not there yet."""
    text = enginehouse("--help").stdout
    assert [verb for verb in ("fit", "init", "pin", "plan") if f"  {verb} " in text] == ["fit", "init", "pin", "plan"]


def pyinfra(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pyinfra on three scripted hosts of the shipped inventory, with a deploy file that only asks for the plan."""
    hosts = '["@fake/a", "@fake/b", "@fake/c"]'
    (directory / "fleet.py").write_text((ROOT / INVENTORY).read_text().replace('["h100-01.example.internal"]', hosts))
    (directory / "ask.py").write_text(
        "from pyinfra import host, inventory\n"
        "from deploy.edge.inventory import planned\n"
        "plan = planned(inventory, host)\n"
        "print(host.name, plan.digest, plan.waves, plan.for_host(host.name).sm)\n"
    )
    argv = [sys.executable, "-m", "pyinfra", str(directory / "fleet.py"), str(directory / "ask.py"), "-y", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=directory, env=environment)


def test_a_deploy_sees_the_plan_of_its_limit(tmp_path: Path) -> None:
    """Two of three hosts, each with its slice."""
    done = pyinfra(tmp_path, "--limit", "@fake/a", "--limit", "@fake/c")
    told = sorted(line for line in done.stdout.splitlines() if line.startswith("@fake/"))
    assert [line.split(" plan-")[0] for line in told] == ["@fake/a", "@fake/c"]
    assert all("(('@fake/a',), ('@fake/c',)) 90" in line for line in told)


def test_a_deploy_with_another_plan_ends_before_any_host_is_changed(tmp_path: Path) -> None:
    """One clean message, no stack trace, exit not 0."""
    done = pyinfra(tmp_path, "--data", "expect=plan-0000000000000000")
    said = done.stdout + done.stderr
    assert (done.returncode != 0, "not the plan that was expected" in said, "Traceback" in said) == (True, True, False)
