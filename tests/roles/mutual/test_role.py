"""The mutual role on hosts in every state: bare, finished, half-finished, renewed, removed; and its refusals."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.io.authority import KEY, made, now
from gateway.settings import settings_of
from roles import firewall, gateway, mutual
from roles._shipping import certificates
from roles.doctor.questions import questions
from roles.firewall.rules import rules
from roles.gateway import defaults as gateway_defaults
from roles.gateway.settings import settings
from roles.mutual import operations
from roles.mutual.config import config
from roles.mutual.defaults import AUTHORITY, CERTIFICATE, CONFIG, UNIT, UNIT_NAME
from tests.roles.fake import Ran, run
from tests.roles.gateway.test_role import COMPLETE, PACKAGES, PUBLISHED
from tests.roles.mutual.hosts import front_and_back, pem_of
from tests.roles.slices import a_slice

FRONT, BACK = front_and_back()
HAPROXY = ["package\thaproxy\t2.6.12-1+deb12u4\tii "]
RUNS = [f"unit\tId={UNIT_NAME}", "unit\tLoadState=loaded", "unit\tActiveState=active", "unit\tUnitFileState=enabled",
        "unit\t"]  # fmt: skip


@pytest.fixture(autouse=True)
def authority(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of this machine's authority, which does not exist yet."""
    monkeypatch.setattr(certificates, "authority_folder", lambda host: tmp_path / "authority")
    return tmp_path / "authority"


def request() -> str:
    """A signing request as a host's openssl prints it."""
    signing_request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return (
        signing_request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        .public_bytes(Encoding.PEM)
        .decode()
    )


def certificate(pem: str, mode: str = "600 root:root") -> list[str]:
    """The host's certificate as the fact prints it, without the key."""
    text = pem[pem.index("-----BEGIN CERT") :]
    return [*(f"value\tcertificate\t{line}" for line in text.splitlines()), f"value\tcertificate-mode\t{mode}"]


def file(path: str, content: str) -> str:
    """A file of the host as the fact prints it."""
    return f"file\t{path}\t{sha256(content.encode()).hexdigest()}"


def done(folder: Path) -> list[str]:
    """The answers of a finished host."""
    assert BACK.mutual
    trusted, pem = made(folder, now()).pem, pem_of(folder, "server", "back", "10.0.0.2")
    return [*HAPROXY, *RUNS, file(AUTHORITY, trusted), file(CONFIG, config(BACK, BACK.mutual)), *certificate(pem)]


def play(*seen: str, unit: bool = True, **how: Any) -> Ran:
    """The role on `back`, with the facts `seen`."""
    text = operations.unit()
    answers = {
        "dpkg-query": list(seen),
        "%n %a %U": f"{text.wanted_fact} {text.path}" if unit else "",
        "openssl req": request().splitlines(),
    }
    return run(lambda: mutual.apply(BACK), answers=answers, **how)


def first_lines(ran: Ran) -> list[str]:
    """The commands without the content that they write."""
    return [text.split("\n")[0] for text in ran.commands]


def test_a_bare_host_gets_an_authority_a_certificate_and_haproxy(authority: Path) -> None:
    ran = play("value\tstale\tstale", unit=False)
    starts = [
        "/usr/local/lib/enginehouse/patient-apt install",
        "systemctl disable --now haproxy.service",
        "mkdir -p /etc/systemd/system && cat > ",
        "systemctl daemon-reload",
        f"mkdir -p /etc/enginehouse/mutual && cat > {AUTHORITY}",
        f"certify {CERTIFICATE} for server: there is no certificate",
        f"mkdir -p /etc/enginehouse/mutual && cat > {CONFIG}.checked",
        f"systemctl enable {UNIT_NAME}",
        f"systemctl reload-or-restart {UNIT_NAME}",
    ]
    lines = first_lines(ran)
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * len(starts), lines
    (sent,) = [heard.stdin for heard in ran.shell["host"] if f"> {CERTIFICATE}.enginehouse-new.crt" in heard.command]
    assert "BEGIN CERTIFICATE" in sent and not any("PRIVATE" in heard.stdin for heard in ran.shell["host"])
    assert (authority / KEY).exists()


def test_only_looking_makes_no_authority(authority: Path) -> None:
    assert "Mutual TLS | Issue or renew the certificate" in play(unit=False, dry=True).would_change
    assert not authority.exists()


def test_a_finished_host_gets_no_commands(authority: Path) -> None:
    ran = play(*done(authority))
    assert (ran.commands, ran.would_change, ran.failed_hosts) == ((), (), ())


def test_a_run_that_was_cut_off_before_haproxy_read_its_files_is_finished(authority: Path) -> None:
    (command,) = play(*done(authority), "value\tstale\tstale").commands
    assert command.startswith(f"systemctl reload-or-restart {UNIT_NAME}")


def test_a_certificate_that_others_may_read_is_replaced(authority: Path) -> None:
    seen = [line.replace("600 root:root", "644 root:root") for line in done(authority)]
    assert first_lines(play(*seen)) == [
        f"certify {CERTIFICATE} for server: other users can read it, or its own user cannot"
    ]


def test_a_certificate_is_renewed_by_a_plain_run(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, later = done(authority), now() + timedelta(days=300)
    monkeypatch.setattr(certificates, "now", lambda: later)
    assert first_lines(play(*seen)) == [f"certify {CERTIFICATE} for server: less than a third of its time is left"]


def test_a_host_of_another_authority_is_left_as_it_is(authority: Path, tmp_path: Path) -> None:
    """The machine of the other authority may still exist: two authorities would separate gateways and hosts."""
    ran = play(*done(tmp_path / "other"))
    assert ran.failed_hosts and not authority.exists()
    assert any("is of another authority than the one in" in line for line in ran.log)


def test_files_of_an_authority_that_do_not_fit_sign_nothing(authority: Path) -> None:
    seen = done(authority)
    (authority / KEY).write_text("half a key\n")
    ran = play(*seen)
    assert ran.failed_hosts and any("cannot sign" in line for line in ran.log)


def test_a_host_that_no_gateway_comes_to_has_nothing_of_it() -> None:
    assert run(lambda: mutual.apply(a_slice())).operations == ()
    ran = run(lambda: mutual.apply(a_slice()), answers={f"{UNIT} ] || echo": "there"})
    (command,) = ran.commands
    assert f"systemctl disable --now {UNIT_NAME}" in command and "rm -rf /etc/enginehouse/mutual" in command


def test_the_firewall_admits_only_the_gateways_host() -> None:
    text = rules(BACK, [22])
    assert "chain gateways {\n    ip saddr { 10.0.0.1/32 } accept\n    counter drop" in text
    assert "ip daddr 10.0.0.2 tcp dport 8009 jump gateways" in text
    assert run(lambda: firewall.apply(FRONT)).commands == (), "nobody comes to the gateway's own host"


def test_a_gateway_has_a_certificate_before_its_settings_name_it(authority: Path) -> None:
    seen = [*PACKAGES, COMPLETE, PUBLISHED, "value\tkeys\tthere"]
    ran = run(lambda: gateway.apply(FRONT), answers={"dpkg-query": seen, "openssl req": request().splitlines()})
    lines = first_lines(ran)
    order = [
        next(number for number, line in enumerate(lines) if start in line)
        for start in (
            "useradd",
            gateway_defaults.AUTHORITY,
            f"certify {gateway_defaults.CERTIFICATE} for client",
            f"cat > {gateway_defaults.WANTED}",
        )
    ]
    assert order == sorted(order)
    new = f"> {gateway_defaults.CERTIFICATE}.enginehouse-new.crt;"
    (sent,) = [heard.command for heard in ran.shell["host"] if new in heard.command]
    assert "chown root:enginehouse-gateway" in sent and "touch -c" in sent


def test_a_gateways_settings_name_the_certificate_for_other_hosts() -> None:
    assert FRONT.gateway
    written = settings(FRONT, FRONT.gateway)
    assert written["servers"] == {
        "front/main": {"grpc": "127.0.0.1:8001", "ready_url": "http://10.0.0.1:8003/ready/main"},
        "back/main": {"grpc": "10.0.0.2:8009", "ready_url": "https://10.0.0.2:8009/ready/main", "mutual": "main"},
    }
    assert written["mutual"] == {"certificate": gateway_defaults.CERTIFICATE, "authority": gateway_defaults.AUTHORITY}
    assert written["models"]["nomic"]["servers"] == ["back/main"]
    assert settings_of(written).servers["back/main"].mutual == "main"


def test_the_doctor_asks_for_the_certificate_of_a_gateway_that_asks_others_alone() -> None:
    """A gateway that only answers others ignores its certificate, and no run renews it: a report would be wrong."""
    questions_about_certificates = [questions(mine)["certificates"] for mine in (FRONT, BACK, a_slice())]
    assert ["gateway/mutual.pem" in shell for shell in questions_about_certificates] == [True, False, False]
    assert all("mutual/host.pem" in shell for shell in questions_about_certificates)
