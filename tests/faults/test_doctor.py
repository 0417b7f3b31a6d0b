"""The doctor on a machine that serves: it finds no trouble and writes no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.io.doctor import examined
from tests.faults.scene import INVENTORY, NAME, PLACES, REPACKAGED, Scene, answers, fresh, until
from tests.unit.test_doctor_archive import opened

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]


@pytest.fixture(scope="module")
def well(first_deploy: str) -> Scene:
    """Returns a machine after its first deploy and one boot, without any fault."""
    scene = Scene(fresh(first_deploy))
    assert until(lambda: answers(scene.machine), 90)
    assert scene.deploy().code == 0
    return scene


def test_a_machine_that_serves_has_no_finding_and_nothing_is_written_there(well: Scene) -> None:
    well.mark()
    assert (well.diagnosed(drift=True, past=True), well.written()) == (set(), [])


def test_a_report_has_the_machines_output_without_secrets(well: Scene, tmp_path: Path) -> None:
    secrets = [(PLACES.root / "secrets" / name).read_text().strip() for name in ("ngc_key", "hub_token")]
    well.machine.run(f"touch /run/reboot-required; echo '{' '.join(secrets)}' >/run/reboot-required.pkgs")
    try:
        report = examined(INVENTORY, [f"report={tmp_path / 'report.tar.gz'}"], [NAME], with_drift=False)
    finally:
        well.machine.run("rm -f /run/reboot-required*")
    files = opened((tmp_path / "report.tar.gz").read_bytes())
    assert report.archive.startswith(str(tmp_path))
    assert {f"hosts/{NAME}/{name}" for name in ("findings.json", "answers/smi.txt", "answers/units.txt")} <= set(files)
    findings = [finding for finding in report.findings[NAME] if finding.id not in REPACKAGED]
    assert [finding.evidence for finding in findings] == [" ".join(secrets)], "the operator's own eyes"
    assert [secret for secret in secrets if secret in "".join(files.values())] == []
