"""The doctor's findings on certificates: the days left, and the limit for each kind of file."""

from __future__ import annotations

import pytest

from tests.unit.doctored import examined, ids

HOST, AUTHORITY = "/etc/enginehouse/mutual/host.pem", "/etc/enginehouse/mutual/authority.pem"


@pytest.mark.parametrize(
    ("path", "end", "evidence"),
    [
        (HOST, "Dec  1 10:00:00 2026", f"{HOST} ends on 2026-12-01, in 8 days"),
        (HOST, "Nov 20 08:00:00 2026", f"{HOST} ended on 2026-11-20, 3 days ago"),
        (AUTHORITY, "May  1 10:00:00 2027", f"{AUTHORITY} ends on 2027-05-01, in 159 days"),
    ],
)
def test_a_finding_says_how_many_days_are_left(path: str, end: str, evidence: str) -> None:
    (finding,) = examined({"certificates": f"{path} notAfter={end} GMT"})
    assert evidence in finding.evidence


def test_a_year_s_certificate_and_ten_years_authority_have_no_finding() -> None:
    """A plain run renews the certificate long before; the authority is reported 180 days before its end."""
    lines = [f"{HOST} notAfter=Feb  1 10:00:00 2027 GMT", f"{AUTHORITY} notAfter=Jun  1 10:00:00 2027 GMT"]
    assert ids(examined({"certificates": "\n".join(lines)})) == []
