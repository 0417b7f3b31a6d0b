"""tests/clients/README.md names the versions of the locks, without asking a gateway; `make clients` asks one."""

import json

from tests.clients.table import CLIENTS, LOCKS, NPM, REFUSALS
from tests.unit.test_imports import ROOT

PAGE = (ROOT / "tests/clients/README.md").read_text("utf-8")


def test_the_page_has_a_row_for_each_client_at_its_locked_version() -> None:
    table = PAGE.partition("<!-- table: clients -->")[2].partition("<!-- end -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[:2] for row in rows] == [[f"| {client.label}", client.version] for client in CLIENTS]
    assert len({client.label for client in CLIENTS}) >= 25


def test_every_refusal_stands_in_the_page_with_its_reason() -> None:
    assert all(f"`{call}`: {reason}" in PAGE for (_, call), (_, reason) in REFUSALS.items())


def test_npms_lock_pins_each_package_by_its_hash_and_names_no_address() -> None:
    packages = json.loads((LOCKS / "clients-npm/package-lock.json").read_text("utf-8"))["packages"]
    assert {client.package for client in CLIENTS if client.environment == NPM} <= set(packages[""]["dependencies"])
    assert all("integrity" in package and "resolved" not in package for name, package in packages.items() if name)
