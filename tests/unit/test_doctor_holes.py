"""The doctor on known holes: versions that a host reported, by the table, without guesses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.catalog.holes import HOLES
from tests.unit.doctored import WANTED, examined

OUT = replace(WANTED, servers=(replace(WANTED.servers[0], address="10.0.0.7"),))
OLD_IMAGE = {"images": "main triton_core 2.57.0 trtllm 0.18.2"}


def test_the_doctor_names_a_running_image_that_strangers_reach() -> None:
    kinds = {finding.id: finding for finding in examined(OLD_IMAGE, OUT) if finding.subject == "main"}
    assert kinds["hole-strangers"].evidence.startswith("Triton 2.57.0 at 10.0.0.7: CVE-2025-23327, ")
    assert kinds["hole-strangers"].attempt.startswith("the newest release of the catalog in the inventory (26.06 is ")
    assert "hole-strangers" not in [finding.id for finding in examined(OLD_IMAGE)], "on loopback nobody reaches it"


def test_the_doctor_omits_accepted_holes() -> None:
    accepted = replace(OUT.servers[0], accepted_holes=tuple(hole.id for hole in HOLES))
    assert examined(OLD_IMAGE, replace(OUT, servers=(accepted,))) == ()


@pytest.mark.parametrize(
    ("changes", "os", "evidence"),
    [
        ({"installed": "haproxy 2.6.12-1+deb12u3"}, "debian-12", "HAProxy 2.6.12-1+deb12u3: CVE-2026-110354"),
        ({"installed": "containerd.io 1.7.28-1~debian.12~bookworm"}, "debian-12", "containerd 1.7.28-1~debian.12"),
        ({"installed": "runc-binary 1.3.2"}, "debian-12", "runc 1.3.2: CVE-2025-31133, CVE-2025-52565, CVE-2025-52881"),
        ({"installed": "runc 1.3.0-0ubuntu2~24.04.1"}, "ubuntu-24.04", "runc 1.3.0-0ubuntu2~24.04.1: CVE-2025-31133"),
        (
            {"loaded": "580.95.05", "library": "580.95.05", "cdi": "libcuda.so.580.95.05"},
            "",
            "NVIDIA driver 580.95.05: ",
        ),
    ],
    ids=["haproxy", "containerd", "runc of containerd.io", "runc of Ubuntu", "driver"],
)
def test_the_doctor_names_an_old_version_on_a_host(changes: dict[str, str], os: str, evidence: str) -> None:
    (finding,) = examined(changes, replace(WANTED, os=os))
    assert (finding.id, finding.severity) == ("hole-known", "warning")
    assert finding.evidence.startswith(evidence)


@pytest.mark.parametrize("line", ["haproxy 2.4.24-0ubuntu0.22.04.1", "docker.io 20.10.24+dfsg1-1", "words", ""])
def test_the_doctor_guesses_at_no_version(line: str) -> None:
    """No fix for that system is recorded, or the host reported no version."""
    assert examined({"installed": line}, replace(WANTED, os="debian-13")) == ()


def test_an_old_toolkit_is_one_finding_that_names_its_holes() -> None:
    (finding,) = examined({"toolkit": "1.17.8-1"})
    assert (finding.id, finding.evidence) == (
        "toolkit-old",
        "nvidia-container-toolkit 1.17.8-1, 1.19.1 is the first without CVE-2026-24260",
    )
