"""The rules and their cases with the promtool of each Debian: 2.42 of Debian 12, 2.53 of Debian 13."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from deploy.monitoring.rules import rule_file
from rehearsal import debian_archive
from rehearsal.places import cache, cache_locked
from tests.monitoring.cases import CASES
from tests.monitoring.test_rules import GROUPS, group_of, scenes

pytestmark = pytest.mark.rehearsal
PACKAGES = {"12": "prometheus", "13": "promtool"}
VERSIONS = {"12": "2.42.", "13": "2.53."}


def promtool_of(debian: str) -> Path:
    """Returns the promtool of that Debian's package, downloaded once and kept in the cache."""
    place = cache() / f"promtool-{debian}"
    with cache_locked(place.name):
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as name:
                folder = Path(name)
                (deb,) = debian_archive.download(debian, [PACKAGES[debian]], folder, folder / "apt")
                subprocess.run(["dpkg-deb", "-x", str(deb), str(folder / "root")], check=True)
                shutil.move(folder / "root/usr/bin/promtool", place)
    return place


def output_of(program: Path, *words: str, folder: Path) -> str:
    """Returns the program's output; fails unless every rule and every case passes."""
    ran = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:6000]
    return ran.stdout + ran.stderr


@pytest.mark.parametrize("debian", PACKAGES)
def test_each_debians_promtool_takes_the_rules_and_their_cases(debian: str, tmp_path: Path) -> None:
    program = promtool_of(debian)
    assert f"version {VERSIONS[debian]}" in output_of(program, "--version", folder=tmp_path)
    (tmp_path / "all.yml").write_text(rule_file(["580", "590"]))
    output_of(program, "check", "rules", "all.yml", folder=tmp_path)
    for number, (group, every) in enumerate(sorted({(group_of(name), case.every) for name, case in CASES.items()})):
        rules, names = f"rules-{number}.yml", [name for name in CASES if group_of(name) == group]
        names = [name for name in names if CASES[name].every == every]
        (tmp_path / rules).write_text(
            json.dumps({"groups": [candidate for candidate in GROUPS if candidate["name"] == group]})
        )
        test_file = {"rule_files": [rules], "evaluation_interval": f"{every}m", "tests": scenes(every, names)}
        (tmp_path / f"cases-{number}.yml").write_text(json.dumps(test_file))
    output_of(program, "test", "rules", *(path.name for path in sorted(tmp_path.glob("cases-*.yml"))), folder=tmp_path)
