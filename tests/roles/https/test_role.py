"""The role https on hosts in every state: bare, finished, half-finished, with another certificate, and removed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.slices.host import Slice
from deploy.spec import Acme, Gateway, Https, Secret
from roles import https
from roles._pyinfra.facts import HostFacts, Unit
from roles.doctor.questions import questions
from roles.https import operations
from roles.https.config import config
from roles.https.defaults import CONFIG, ORDER_UNIT, TIMER, UNIT, UNIT_NAME
from roles.preflight.facts import addresses
from roles.preflight.haproxy import DISTRIBUTION, foreign_haproxy, units_of
from tests.roles.fake import Ran, run
from tests.roles.gateway.gateways import h100
from tests.roles.slices import a_slice
from tests.unit.certificates import write_certificate

ACME = Acme(names=("llm.example.com", "gpu.example.com"), email="ops@example.com")
PACKAGES = ["package\thaproxy\t2.6.12-1+deb12u4\tii ", "package\tcertbot\t2.1.0-4\tii "]


def unit(name: str) -> list[str]:
    """A running and enabled unit, as the fact prints it."""
    return [f"unit\tId={name}", "unit\tLoadState=loaded", "unit\tActiveState=active", "unit\tUnitFileState=enabled",
            "unit\t"]  # fmt: skip


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def slice_of(declared: Https) -> Slice:
    """The host of inventories/h100.py on Debian 12, with this HTTPS."""
    mine, _ = h100(Gateway())
    return replace(mine, machine=replace(mine.machine, os="debian-12"), https=declared)


ORDERS = slice_of(Https(acme=ACME))


@pytest.fixture
def own(tmp_path: Path) -> Slice:
    """A host with the operator's own certificate."""
    file = write_certificate(tmp_path, "llm")
    return slice_of(Https(certificate=str(file), certificate_key=Secret.command("cat", str(tmp_path / "llm.key"))))


def done(mine: Slice) -> list[str]:
    """The answers of a finished host."""
    declared = mine.https
    assert declared
    own_key = ["value\tkey\t600 root"] if declared.certificate else []
    ordered = []
    if declared.acme:
        order = operations.order(declared.acme) + operations.issuer(declared.acme)
        ordered = [*unit(TIMER), f"value\tordered\t{sha256(order)}", "value\torder\t/etc/enginehouse/https/certbot.ini"]
    return [*PACKAGES, *unit(UNIT_NAME), *own_key, *ordered, f"file\t{CONFIG}\t{sha256(config(mine, declared))}"]


def play(mine: Slice, *seen: str, placed: bool = True, **how: Any) -> Ran:
    """The role on a host with the facts `seen`."""
    assert mine.https
    texts = [f"{text.wanted_fact} {text.path}" for text in operations.texts(mine.https)] if placed else ""
    return run(lambda: https.apply(mine), answers={"dpkg-query": list(seen), "%n %a %U": texts}, **how)


def first_lines(ran: Ran) -> list[str]:
    """The commands without the content that they write."""
    return [text.split("\n")[0] for text in ran.commands]


def test_a_bare_host_orders_its_certificate_before_haproxy_shows_it() -> None:
    lines = first_lines(play(ORDERS, "value\tstale\tstale", placed=False))
    wanted = [
        "/usr/local/lib/enginehouse/patient-apt install",
        "systemctl disable --now haproxy.service",
        f"mkdir -p /etc/systemd/system && cat > {UNIT}",
        f"mkdir -p /etc/systemd/system && cat > /etc/systemd/system/{ORDER_UNIT}",
        f"mkdir -p /etc/systemd/system && cat > /etc/systemd/system/{TIMER}",
        "mkdir -p /usr/local/lib/enginehouse && cat > /usr/local/lib/enginehouse/certificate.sh",
        "mkdir -p /etc/enginehouse/https && cat > /etc/enginehouse/https/issuer.pem",
        "mkdir -p /etc/enginehouse/https && cat > /etc/enginehouse/https/certbot.ini",
        "systemctl daemon-reload",
        "/usr/local/lib/enginehouse/patient-apt install",
        "systemctl disable --now certbot.timer",
        f"systemctl start {ORDER_UNIT} || {{",
        f"systemctl enable --now {TIMER}",
        f"mkdir -p /etc/enginehouse/https && cat > {CONFIG}.checked",
        f"systemctl enable {UNIT_NAME}",
        f"systemctl reload-or-restart {UNIT_NAME}",
    ]
    assert [line.startswith(start) for line, start in zip(lines, wanted, strict=True)] == [True] * len(wanted), lines


def test_the_order_names_the_authority_the_account_and_all_names() -> None:
    order = operations.order(ACME)
    assert "\nserver = https://acme-v02.api.letsencrypt.org/directory\nemail = ops@example.com\n" in order
    assert "\ndomains = llm.example.com,gpu.example.com\n" in order
    assert "register-unsafely-without-email = true" in operations.order(replace(ACME, email=""))


def test_a_trial_authority_s_certificate_never_stays_for_the_real_one() -> None:
    trial = replace(ACME, directory="https://acme-staging-v02.api.letsencrypt.org/directory")
    lines = [set(operations.order(acme).splitlines()) for acme in (ACME, trial)]
    assert sorted(line.partition(" = ")[0] for line in lines[0] - lines[1]) == ["cert-name", "server"]


def test_a_finished_host_gets_no_commands(own: Slice) -> None:
    for mine in (ORDERS, own):
        ran = play(mine, *done(mine))
        assert (ran.commands, ran.would_change, ran.failed_hosts) == ((), (), ())


def test_another_name_is_ordered_anew() -> None:
    more = slice_of(Https(acme=replace(ACME, names=("llm.example.com",))))
    (command,) = first_lines(play(more, *done(ORDERS)))
    assert command.startswith(f"systemctl start {ORDER_UNIT} ||")


def test_a_failed_certificate_order_names_its_log_and_keeps_serving() -> None:
    ran = play(ORDERS, *PACKAGES, placed=True)
    (order,) = [text for text in ran.commands if ORDER_UNIT in text]
    assert f"journalctl -q -u {ORDER_UNIT}" in order and "port 80 is open before it" in order
    assert "the gateway serves on loopback as before" in order


def test_the_key_of_a_certificate_travels_on_standard_input_alone(own: Slice) -> None:
    ran = play(own, *PACKAGES, "value\tstale\tstale", placed=False)
    heard = ran.shell["host"]
    assert [bool("PRIVATE KEY" in call.command) for call in heard].count(True) == 0
    (sent,) = [call for call in heard if "PRIVATE KEY" in call.stdin]
    assert sent.command.startswith("sh -c") or ".pem.key.new" in sent.command


def test_a_certificate_of_one_s_own_ends_an_order(own: Slice) -> None:
    """Account and keys of the authority's certificate are removed; otherwise the timer would order for ever."""
    lines = first_lines(play(own, *done(own), "value\torder\t/etc/enginehouse/https/certbot.ini"))
    assert lines[0].startswith(f"systemctl disable --now {TIMER}; rm -rf /etc/enginehouse/https/acme")


def test_an_earlier_certificate_and_its_key_go_once_another_one_is_shown(own: Slice) -> None:
    spare = "/etc/enginehouse/https/tls-0000000000000000.pem"
    removal, reload = first_lines(play(own, *done(own), f"value\tspare\t{spare}"))
    assert removal == f"rm -f {spare} {spare}.key" and reload.startswith("systemctl reload-or-restart")


def test_a_host_without_https_has_nothing_of_it() -> None:
    assert run(lambda: https.apply(a_slice())).operations == ()
    ran = run(lambda: https.apply(a_slice()), answers={f"{UNIT} ] || echo": "there"})
    (command,) = ran.commands
    assert f"systemctl disable --now {TIMER} {UNIT_NAME}; rm -rf /etc/enginehouse/https" in command
    assert command.index("certificate.sh") < command.index(UNIT), "the unit goes last"


def test_the_authority_is_reached_before_the_first_change_unless_there_is_a_certificate() -> None:
    (row,) = [row for row in addresses(ORDERS) if row[0] == "the-certificate"]
    assert row == (
        "the-certificate",
        "acme-v02.api.letsencrypt.org:443",
        "[ -s /etc/enginehouse/https/acme.pem ]",
    )


def test_the_doctor_asks_when_the_shown_certificate_ends() -> None:
    assert "/etc/enginehouse/{balancer,https}/haproxy.cfg" in questions(ORDERS)["certificates"]


def test_haproxy_of_somebody_else_is_not_switched_off() -> None:
    """The role's own package step would switch it off, so the host is refused before the first change."""
    theirs = {DISTRIBUTION: Unit("loaded", "active", "enabled")}
    changed = HostFacts(values={"changed": "/etc/haproxy/haproxy.cfg"}, units=theirs)
    for seen, kinds in ((changed, ["foreign-haproxy"]), (HostFacts(units=theirs), []), (HostFacts(), [])):
        findings = foreign_haproxy(seen, "h100-01", units_of(ORDERS)[0])
        assert [finding.kind for finding in findings] == kinds
    assert units_of(a_slice()) == []
