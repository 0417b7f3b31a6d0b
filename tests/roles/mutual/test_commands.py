"""The commands that a host runs for its certificate, run here with a real openssl, in a separate folder."""

from __future__ import annotations

import grp
import os
import pwd
import ssl
import stat
import subprocess
from pathlib import Path

from deploy.io.authority import made, now, signed, why_anew
from gateway.mutual import identity
from roles._pyinfra.facts import HostFacts, script
from roles._shipping.certificates import Certified, ask_certificate, installed, requested

SELF = f"{pwd.getpwuid(os.getuid()).pw_name}:{grp.getgrgid(os.getgid()).gr_name}"


def shell(command: str, stdin: str = "") -> str:
    """The command's output."""
    return subprocess.run(["sh", "-c", command], input=stdin, capture_output=True, text=True, check=True).stdout


def test_a_host_makes_its_key_and_gets_a_certificate_for_it(tmp_path: Path) -> None:
    """The key is in no answer; only its owner's group may read the file, and `then` is run for its readers."""
    place = tmp_path / "etc" / "mutual.pem"
    wanted = Certified(
        path=str(place), authority=str(tmp_path / "authority.pem"), use="client", name="front", address="10.0.0.1",
        folder=tmp_path / "authority", then=f"touch {tmp_path}/said", owner=SELF, mode="0640",
    )  # fmt: skip
    request = shell(requested(wanted))
    authority = made(wanted.folder, now())
    pem = signed(authority, request, wanted.use, wanted.name, wanted.address, now())
    shell(installed(wanted, pem), pem)
    (tmp_path / "authority.pem").write_text(authority.pem)
    seen = HostFacts.parse(shell(script(ask_certificate(wanted.path, wanted.authority))).splitlines())
    assert seen.value("certificate-mode") == wanted.wanted_fact and "PRIVATE" not in str(seen) + request
    assert why_anew(seen.value("certificate"), authority.trusted, "client", "front", "10.0.0.1", now()) == ""
    assert identity(place, tmp_path / "authority.pem").context.verify_mode == ssl.CERT_REQUIRED
    assert (stat.S_IMODE(place.stat().st_mode), (tmp_path / "said").exists()) == (0o640, True)
    assert sorted(path.name for path in place.parent.iterdir()) == ["mutual.pem"]


def test_a_certificate_that_came_half_replaces_nothing(tmp_path: Path) -> None:
    place = tmp_path / "mutual.pem"
    place.write_text("the one before\n")
    wanted = Certified(
        path=str(place), authority="", use="client", name="front", address="10.0.0.1", folder=tmp_path, then="true",
        owner=SELF,
    )  # fmt: skip
    shell(requested(wanted))
    ended = subprocess.run(["sh", "-c", installed(wanted, "all of it")], input=b"half", check=False)
    assert (ended.returncode != 0, place.read_text()) == (True, "the one before\n")
