"""Expiry of the fleet's certificates as metrics: the certificates in use, and the signing authority."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from host import certificates, places
from tests.unit.certificates import write_certificate

DAY = 86_400
SAMPLE = re.compile(rf'^{certificates.NAME}{{file="[^"]+/(\w+)/\w+\.pem",kind="(\w+)"}} (\d+)$', re.M)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of a host whose servers and gateway both take part in mutual TLS."""
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(places, "SETTINGS", tmp_path)
    for folder in ("mutual", "gateway"):
        (tmp_path / folder).mkdir()
        write_certificate(tmp_path / folder, "authority", 3650)
    write_certificate(tmp_path / "mutual", "host", 20)
    write_certificate(tmp_path / "gateway", "mutual", 200)
    (tmp_path / "mutual/haproxy.cfg").touch()
    names = {"certificate": "mutual.pem", "authority": "authority.pem"}
    mutual = {kind: str(tmp_path / "gateway" / name) for kind, name in names.items()}
    (tmp_path / "gateway/settings.json").write_text(json.dumps({"mutual": mutual}))
    return tmp_path


def days_left(root: Path) -> dict[tuple[str, str], int]:
    """Whole days on the page of metrics, by folder and kind."""
    samples = SAMPLE.findall((root / "metrics/certificates.prom").read_text())
    return {(folder, kind): round((int(end) - time.time()) / DAY) for folder, kind, end in samples}


def test_every_certificate_in_use_is_there_with_its_end(settings: Path) -> None:
    assert certificates.main([]) == 0
    assert days_left(settings) == {
        ("mutual", "certificate"): 20,
        ("mutual", "authority"): 3650,
        ("gateway", "certificate"): 200,
        ("gateway", "authority"): 3650,
    }


def test_of_several_authorities_the_one_that_signs_counts(settings: Path) -> None:
    file = settings / "mutual/authority.pem"
    old = file.read_text()
    write_certificate(settings / "mutual", "authority", 100)
    file.write_text(file.read_text() + old)
    certificates.main([])
    assert days_left(settings)["mutual", "authority"] == 100


def test_files_that_nothing_uses_any_more_raise_no_alert(settings: Path) -> None:
    """A gateway without other hosts ignores its old certificate."""
    (settings / "gateway/settings.json").write_text("{}")
    (settings / "mutual/haproxy.cfg").unlink()
    assert (certificates.main([]), days_left(settings)) == (0, {})


@pytest.mark.parametrize("content", ["", "no certificate"])
def test_a_file_that_is_no_certificate_fails_the_unit_and_hides_no_other(
    settings: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (settings / "mutual/host.pem").write_text(content)
    assert certificates.main([]) == 1
    assert f"{settings}/mutual/host.pem is not a certificate" in capsys.readouterr().err
    assert len(days_left(settings)) == 3
