"""The fleet's authority: made once, readable only by its owner; certificates have a purpose."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from deploy.io.authority import CERTIFICATES, KEY, Authority, known, made, signed, why_anew

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
HOST = ("server", "h1", "10.0.0.11")


def request(name: str = "whatever it says") -> str:
    """A request in the form of a host."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    unsigned = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return unsigned.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A new authority."""
    return made(tmp_path / "authority", NOW)


def test_a_folder_has_one_authority_and_only_its_owner_reads_the_key(tmp_path: Path, authority: Authority) -> None:
    assert made(tmp_path / "authority", NOW).trusted == authority.trusted
    modes = [stat.S_IMODE((tmp_path / "authority" / name).stat().st_mode) for name in ("", KEY)]
    assert modes == [0o700, 0o600] and "PRIVATE" not in authority.pem
    assert known(tmp_path / "none") is None


def test_a_certificate_has_the_hosts_name_and_not_the_requests_subject(authority: Authority) -> None:
    pem = signed(authority, request(), *HOST, NOW)
    certificate = x509.load_pem_x509_certificate(pem.encode())
    assert certificate.subject.rfc4514_string() == "CN=h1" and why_anew(pem, authority.trusted, *HOST, NOW) == ""
    certificate.verify_directly_issued_by(authority.trusted[0])


def test_a_certificate_of_before_is_renewed_while_a_third_of_its_time_is_left(authority: Authority) -> None:
    pem = signed(authority, request(), *HOST, NOW)
    reasons = [why_anew(pem, authority.trusted, *HOST, NOW + timedelta(days=days)) for days in (243, 244, 500)]
    assert reasons == ["", *["less than a third of its time is left"] * 2]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (("server", "h1", "10.0.0.12"), "it is for another name or address"),
        (("server", "h2", "10.0.0.11"), "it is for another name or address"),
        (("client", "h1", "10.0.0.11"), "it is for another use"),
    ],
)
def test_a_certificate_for_something_else_is_replaced(authority: Authority, wanted: tuple, why: str) -> None:
    assert why_anew(signed(authority, request(), *HOST, NOW), authority.trusted, *wanted, NOW) == why


def test_a_file_without_a_certificate_is_replaced_and_a_foreign_certificate_is_not(
    tmp_path: Path, authority: Authority
) -> None:
    assert why_anew("", authority.trusted, *HOST, NOW) == "there is no certificate"
    assert why_anew("half of", authority.trusted, *HOST, NOW) == "the file is not a certificate"
    stranger = made(tmp_path / "stranger", NOW)
    with pytest.raises(LookupError, match="enginehouse authority"):
        why_anew(signed(stranger, request(), *HOST, NOW), authority.trusted, *HOST, NOW)


def test_an_authority_without_its_key_is_replaced_and_stays_trusted(tmp_path: Path, authority: Authority) -> None:
    pem = signed(authority, request(), *HOST, NOW)
    (tmp_path / "authority" / KEY).rename(tmp_path / "old.key")
    new = made(tmp_path / "authority", NOW)
    assert new.trusted[1:] == authority.trusted and new.trusted[0] != authority.trusted[0]
    assert why_anew(pem, new.trusted, *HOST, NOW) == "another authority signs now"


def test_a_host_with_the_first_certificate_only_trusts_no_earlier_signature(
    tmp_path: Path, authority: Authority
) -> None:
    """A stolen certificate is revoked in this documented way: hosts then get only the new authority."""
    stolen, folder = signed(authority, request(), *HOST, NOW), tmp_path / "authority"
    (folder / KEY).rename(tmp_path / "old.key")
    new = made(folder, NOW)
    first, end, _rest = (folder / CERTIFICATES).read_text().partition("-----END CERTIFICATE-----\n")
    (folder / CERTIFICATES).write_text(first + end)
    kept = known(folder)
    assert kept and kept.trusted == new.trusted[:1]
    with pytest.raises(LookupError):
        why_anew(stolen, kept.trusted, *HOST, NOW)


def test_files_that_do_not_belong_together_sign_nothing(tmp_path: Path, authority: Authority) -> None:
    stranger = made(tmp_path / "stranger", NOW)
    (tmp_path / "authority" / CERTIFICATES).write_text(stranger.pem)
    with pytest.raises(ValueError, match="does not begin with the certificate"):
        known(tmp_path / "authority")
