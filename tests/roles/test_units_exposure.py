"""Exposure of each unit if its program were compromised: systemd's own score, 0 (none) to 10.

`GOLDEN=write pytest tests/roles/test_units_exposure.py` writes the table of roles/README.md anew. Limits apply to the
scores of the installed systemd; the table was made with systemd 252 (Debian 12, 2026-11-25).
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from roles.exporters.operations import dcgm_unit
from roles.gateway.programs import unit as gateway_unit
from roles.monitor.defaults import ALERTMANAGER, BLACKBOX, PROMETHEUS
from roles.monitor.operations import unit as monitor_unit
from tests.roles.gateway.gateways import h100
from tests.roles.monitor.plans import a_monitor

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "roles/README.md"
MARK = "<!-- exposure: tests/roles/test_units_exposure.py writes this -->\n"
BLOCK = re.compile(rf"(?<={re.escape(MARK)})(.*?)(?=<!-- end of exposure -->)", re.S)
FILES = ROOT / "files/units"
LIMIT = 4.0


@dataclass(frozen=True)
class Held:
    """The score before (commit 2942af1, 2026-11-25), the limit now, and the unit's user."""

    before: float
    runs_as: str
    limit: float = LIMIT


UNITS = {
    "enginehouse-alertmanager.service": Held(3.7, "`prometheus`"),
    "enginehouse-balancer.service": Held(
        7.8, "root with five capabilities; workers `haproxy`, in a root directory of their own"
    ),
    "enginehouse-blackbox.service": Held(3.7, "`prometheus`"),
    "enginehouse-build@.service": Held(9.0, "root with five capabilities: Docker's socket"),
    "enginehouse-dcgm.service": Held(9.6, "root without capabilities: Docker's socket"),
    "enginehouse-certificate.service": Held(9.6, "root with the capability for port 80"),
    "enginehouse-firewall.service": Held(9.5, "root with the network's capability"),
    "enginehouse-first-boot.service": Held(
        9.6, "root with everything: it is a deploy of its own host, and no longer starts once that has succeeded", 9.6
    ),
    "enginehouse-gateway@.service": Held(1.5, "`enginehouse-gateway`"),
    "enginehouse-gpu-state.service": Held(8.9, "root without capabilities"),
    "enginehouse-https.service": Held(7.8, "as the balancer"),
    "enginehouse-metrics.service": Held(3.2, "a user that lives as long as it"),
    "enginehouse-mig.service": Held(
        9.6, "root with eight capabilities: it cuts GPUs, and reads nothing from outside", 5.0
    ),
    "enginehouse-mutual.service": Held(7.8, "as the balancer"),
    "enginehouse-node-exporter.service": Held(4.7, "`prometheus`"),
    "enginehouse-notices.service": Held(2.1, "root without capabilities: it stops servers"),
    "enginehouse-prometheus.service": Held(3.7, "`prometheus`"),
    "enginehouse-pull@.service": Held(9.0, "root without capabilities: Docker's socket"),
    "enginehouse-repair.service": Held(
        9.6, "root with eight capabilities: it resets GPUs; of others it reads the states at the balancers alone", 5.0
    ),
    "enginehouse-share@.service": Held(9.0, "`enginehouse-share`; root checks and publishes"),
    "enginehouse-swap@.service": Held(4.0, "root: it moves links, and asks systemd and Docker"),
    "enginehouse-traffic.service": Held(1.7, "`enginehouse-traffic`"),
    "enginehouse-undo.service": Held(9.5, "root with three capabilities for files of /etc"),
    "enginehouse-watch@.service": Held(5.2, "root without capabilities: it restarts a server"),
    "enginehouse-weights@.service": Held(9.0, "`enginehouse-fetch`; root checks and publishes"),
    "llm@.service": Held(3.0, "root with six capabilities: Docker's socket"),
    "triton@.service": Held(3.0, "root with six capabilities: Docker's socket"),
}


def texts() -> dict[str, str]:
    """Every unit of a service by its file's name, templates filled in."""
    shipped = {path.name: path.read_text() for path in FILES.glob("*.service")}
    monitor = {name: monitor_unit(name, a_monitor()).content for name in (PROMETHEUS, ALERTMANAGER, BLACKBOX)}
    filled = {"enginehouse-dcgm.service": dcgm_unit("nvcr.io/nvidia/k8s/dcgm-exporter@sha256:0").content}
    return shipped | monitor | filled | {"enginehouse-gateway@.service": gateway_unit(h100()[1]).content}


def score(name: str, text: str, folder: Path) -> float:
    """The exposure of a unit by systemd; a template gets an instance."""
    file = folder / name.replace("@.", "@x.")
    file.write_text(text)
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"Overall exposure level for \S+: ([0-9.]+)", answer.stdout)
    assert match, answer.stderr
    return float(match[1])


def table(folder: Path) -> str:
    """The whole table in Markdown, one row for each unit."""
    head = "\n| unit | before | now | limit | runs as |\n| --- | ---: | ---: | ---: | --- |\n"
    rows = [
        f"| {name.removesuffix('.service')} | {UNITS[name].before} | {score(name, text, folder)} | {UNITS[name].limit} "
        f"| {UNITS[name].runs_as} |\n"
        for name, text in sorted(texts().items())
    ]
    return head + "".join(rows) + "\n"


def test_every_unit_has_a_limit() -> None:
    """The test includes future units, as a file or as a template."""
    templates = {path.name.removesuffix(".j2") for path in (ROOT / "templates").rglob("*.service*")}
    assert set(texts()) == set(UNITS) == {path.name for path in FILES.glob("*.service")} | templates


@pytest.mark.parametrize("name", UNITS)
def test_no_unit_can_do_more_than_its_limit(name: str, tmp_path: Path) -> None:
    """The test needs systemd-analyze, which exists on every machine of these tests, so it never skips."""
    assert score(name, texts()[name], tmp_path) <= UNITS[name].limit


def test_the_pages_table_matches_systemd(tmp_path: Path) -> None:
    """Scores differ by tenths between releases of systemd, so the page's are compared within that."""
    if os.environ.get("GOLDEN") == "write":
        PAGE.write_text(BLOCK.sub(lambda _: table(tmp_path), PAGE.read_text("utf-8")), "utf-8")
    version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
    (written,) = BLOCK.findall(PAGE.read_text("utf-8"))
    without_now = re.compile(r"^(\| \S+ \| \S+ \|) \S+ ", re.M)
    if version.startswith("systemd 252 "):
        assert written == table(tmp_path)
    assert without_now.sub(r"\1 ", written) == without_now.sub(r"\1 ", table(tmp_path))


@pytest.mark.parametrize("name", ["enginehouse-share@.service", "enginehouse-weights@.service"])
def test_a_program_that_reads_strangers_bytes_has_its_own_user_and_one_folder(name: str) -> None:
    """Only steps without network access run as root."""
    lines = texts()[name].splitlines()
    users = [line for line in lines if line.startswith("User=")]
    writable = [line for line in lines if line.startswith(("BindPaths=", "ReadWritePaths="))]
    of_root = [line.rpartition(" enginehouse/host ")[2].split()[-3:] for line in lines if "=+" in line]
    place = "weights" if "weights" in name else "sharing"
    assert users == [f"User=enginehouse-{'fetch' if place == 'weights' else 'share'}"]
    assert writable == [f"BindPaths=-/var/lib/enginehouse/{place}/%i"]
    assert not any({"receive", "give"} & set(words) for words in of_root) and len(of_root) in (2, 3)
