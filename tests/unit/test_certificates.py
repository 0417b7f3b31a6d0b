"""A certificate is judged by its file, and its key by the certificate, before any host is changed."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

from deploy.io.certificates import certificate, key_problems
from deploy.slices.traffic import BalancerSlice
from deploy.spec import Secret
from deploy.spec.surroundings import CertificateFile
from deploy.validation.certificates import certificate_notice
from tests.unit.certificates import write_certificate
from tests.unit.samples import AROUND, TODAY
from tests.unit.wrong_balancers import EDGE, SIGNED

BALANCER = BalancerSlice(
    host="edge",
    os="debian-12",
    haproxy="2.6",
    address="10.0.0.5",
    metrics_port=8405,
    certificate="edge.pem",
    certificate_key=Secret.command("cat", "edge.key"),
    routes=(),
)


def problems(root: Path, key: str = "edge.key") -> list[str]:
    """Kinds of refusals of the certificate edge.pem with this key."""
    secret = Secret.command("cat", str(root / key))
    return [problem.kind for problem in key_problems([replace(BALANCER, certificate_key=secret)], root)]


def test_a_certificate_says_when_it_begins_and_ends(tmp_path: Path) -> None:
    dates, today = certificate(write_certificate(tmp_path, days=30)), datetime.datetime.now(datetime.UTC).date()
    assert (dates.begins, dates.ends) == (today - datetime.timedelta(1), today + datetime.timedelta(30))


def test_a_certificate_with_its_own_key_has_no_problem(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    assert problems(tmp_path) == []


def test_the_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    write_certificate(tmp_path, "other")
    assert problems(tmp_path, "other.key") == ["key-of-another-certificate"]


def test_a_file_without_a_private_key_is_refused(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    assert problems(tmp_path, "edge.pem") == ["no-private-key"]


def test_a_deploy_wants_the_authorities_of_clients(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    secret = Secret.command("cat", str(tmp_path / "edge.key"))
    asking = replace(BALANCER, certificate_key=secret, clients="clients.pem")
    assert [problem.facts["where"] for problem in key_problems([asking], tmp_path)] == ["edge: balancer.clients"]


def test_a_deploy_wants_the_certificate(tmp_path: Path) -> None:
    assert problems(tmp_path) == ["no-certificate"]


def test_a_key_beside_the_certificate_is_no_part_of_it(tmp_path: Path) -> None:
    file = write_certificate(tmp_path)
    file.write_bytes(file.read_bytes() + file.with_suffix(".key").read_bytes())
    assert "private key" in certificate(file).problem


def test_a_certificate_that_ends_soon_is_noted() -> None:
    ends = TODAY + datetime.timedelta(3)
    around = replace(AROUND, certificates={"keys/edge.pem": CertificateFile(begins=TODAY, ends=ends)})
    assert str(ends) in certificate_notice(replace(EDGE, **SIGNED), around)
