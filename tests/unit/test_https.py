"""HTTPS on the gateway's own host: the plan, the firewall around it, and files of the control machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.io.certificates import key_problems
from deploy.reports.plan import plan_report
from deploy.slices.host import Slice
from deploy.spec import Acme, Firewall, Gateway, Https, Secret
from deploy.validation.https import NAME
from roles.firewall.rules import rules
from tests.unit.certificates import write_certificate
from tests.unit.samples import plan, refusals
from tests.unit.test_report import printed
from tests.unit.wrong_https import CLOSED, DEBIAN, NAMED


def host(https: Https | None = None, firewall: Firewall = CLOSED) -> dict[str, Any]:
    """Data of a single GPU host with HTTPS."""
    return {"machine": DEBIAN, "firewall": firewall, "gateway": Gateway(https=https or Https(acme=NAMED))}


def mine(https: Https | None = None, firewall: Firewall = CLOSED) -> Slice:
    """The slice of that host."""
    return plan(**host(https, firewall)).slices[0]


def opened(slice_: Slice) -> list[str]:
    """The lines of the firewall that admit connections, between SSH and ICMP."""
    lines = [line.strip() for line in rules(slice_, [22]).splitlines()]
    return lines[lines.index("tcp dport { 22 } accept") + 1 : lines.index("meta l4proto { icmp, ipv6-icmp } accept")]


def test_one_host_is_open_at_https_and_at_the_challenge_s_port_and_nowhere_else() -> None:
    assert opened(mine()) == ["tcp dport 443 accept", "tcp dport 80 accept"]


def test_a_certificate_of_one_s_own_opens_https_alone() -> None:
    own = Https(certificate="llm.pem", certificate_key=Secret.command("cat", "llm.key"), address="192.0.2.7", port=8443)
    assert opened(mine(own)) == ["ip daddr 192.0.2.7 tcp dport 8443 accept"]


def test_named_networks_reach_https_and_everybody_the_challenge() -> None:
    slice_ = mine(Https(acme=NAMED, allow=("198.51.100.0/24",)))
    assert opened(slice_) == ["tcp dport 443 jump https", "tcp dport 80 accept"]
    assert "chain https {\n    ip saddr { 198.51.100.0/24 } accept\n    counter drop" in rules(slice_, [22])


def test_a_firewall_that_leaves_the_rest_alone_still_wants_somebody_to_allow() -> None:
    assert [problem.kind for problem in refusals(**host(firewall=Firewall()))] == ["firewall-allows-nobody"]


def test_clients_read_the_first_name_on_the_gateway_s_page() -> None:
    assert mine().gateway and mine().gateway.url == "https://llm.example.com"
    elsewhere = mine(Https(acme=NAMED, port=8443))
    assert elsewhere.gateway and elsewhere.gateway.url == "https://llm.example.com:8443"


def test_the_plan_lists_clients_and_certificate_of_a_gateway() -> None:
    text = printed(plan_report(plan(**host()))).replace("\n", " ")
    assert "https 0.0.0.0:443 from everywhere, certificate of llm.example.com, ordered from https://acme-v02" in text


def test_a_host_without_https_has_the_digest_of_before() -> None:
    assert "https" not in plan().slices[0].to_json()


def test_a_key_of_another_certificate_is_refused_before_a_host_is_touched(tmp_path: Path) -> None:
    write_certificate(tmp_path, "llm")
    write_certificate(tmp_path, "other")

    def problems(key: str, certificate: str = "llm.pem") -> list[tuple[str, str]]:
        secret = Secret.command("cat", str(tmp_path / key))
        slice_ = replace(mine(), https=Https(certificate=certificate, certificate_key=secret))
        return [(problem.kind, problem.facts["where"]) for problem in key_problems([], tmp_path, [slice_])]

    assert problems("llm.key") == []
    assert problems("other.key") == [
        ("key-of-another-certificate", "h100-01: gateway.https.certificate_key"),
    ]
    assert problems("llm.key", "none.pem") == [("no-certificate", "h100-01: gateway.https.certificate")]


def test_a_deploy_wants_the_issuer_of_the_directory_s_certificate(tmp_path: Path) -> None:
    slice_ = mine(Https(acme=replace(NAMED, authority="ca.pem")))
    (problem,) = key_problems([], tmp_path, [slice_])
    assert problem.facts["where"] == "h100-01: gateway.https.acme.authority"


@pytest.mark.parametrize(
    ("name", "is_name"),
    [
        ("llm.example.com", True),
        ("a.b-c.example", True),
        ("xn--bcher-kva.example", True),
        ("localhost", False),
        ("192.0.2.7", False),
        ("2001:db8::1", False),
        ("-a.example.com", False),
        ("a..example.com", False),
        ("llm.example.com.", False),
        ("https://llm.example.com", False),
        ("llm_example.com", False),
        ("a,b.example.com", False),
        (f"{'a' * 64}.example.com", False),
    ],
)
def test_a_name_is_one_that_an_authority_checks(name: str, is_name: bool) -> None:
    assert bool(NAME.fullmatch(name)) == is_name
    kinds = [problem.kind for problem in refusals(**host(Https(acme=Acme(names=(name,)))))]
    assert ("bad-name" in kinds or "unsafe-text" in kinds) != is_name
