"""The Terraform examples have outputs that `terraform_hosts` reads, and the format of `terraform fmt`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.io.hosts import terraform_hosts

FOLDERS = sorted(path.parent for path in Path("inventories/terraform").glob("*/main.tf"))
ATTRIBUTE = re.compile(r'( *)("[^"]+"|[\w-]+)( +)= (.+)')
ATTRIBUTES = {"ssh_hostname", "ssh_user", "peer_address"}


def test_there_is_an_example_for_each_cloud_of_the_page() -> None:
    page = Path("inventories/terraform/README.md").read_text("utf-8")
    assert [folder.name for folder in FOLDERS] == ["any_cloud", "aws", "azure_nd_h100", "gcp_a3"]
    assert [folder.name for folder in FOLDERS if f"({folder.name}/main.tf)" not in page] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_recorded_outputs_are_the_hosts_that_the_example_makes(folder: Path) -> None:
    """Names and all fields of the output block are compared."""
    text = (folder / "main.tf").read_text("utf-8")
    hosts = terraform_hosts(str(folder / "outputs.json"), "hosts")
    names = re.findall(r'^    "([\w.-]+)" = ', text, re.MULTILINE)
    assert [name for name, _ in hosts] == names and len(names) >= 2
    recorded = json.loads((folder / "outputs.json").read_text("utf-8"))["hosts"]["value"]
    assert {frozenset(host) for host in recorded.values()} == {frozenset(ATTRIBUTES)}
    output = text[text.index('output "hosts"') :]
    assert set(re.findall(r"(\w+) += (?:host|var|address|\")", output)) == ATTRIBUTES
    assert all(recorded[name]["peer_address"] in text for name in names)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_holds_no_secret_and_offers_user_data_and_spot(folder: Path) -> None:
    text = (folder / "main.tf").read_text("utf-8")
    assert not re.search(r"secret_key|access_key|password|PRIVATE KEY", text)
    if folder.name != "any_cloud":
        assert 'variable "user_data"' in text and 'variable "spot"' in text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_is_formatted(folder: Path) -> None:
    lines = (folder / "main.tf").read_text("utf-8").splitlines()
    assert [line for line in lines if line != line.rstrip() or "\t" in line] == []
    depth = 0
    for line in filter(None, lines):
        opened, closed = (len(re.findall(signs, line.partition("#")[0])) for signs in (r"[{(\[]", r"[})\]]"))
        begins_closed = bool(re.match(r" *[})\]]", line))
        indent = len(line) - len(line.lstrip())
        assert indent == 2 * (depth - (1 if begins_closed else 0)), line
        # A line that opens several, as `map(object({`, is one level deeper.
        depth += (opened > closed) - (closed > opened)
    assert depth == 0
    for group in groups(lines):
        assert len({line.index(" = ") for line in group}) == 1, group


def groups(lines: list[str]) -> Iterator[list[str]]:
    """Adjacent lines whose equals signs are aligned: attributes of one line each."""
    group: list[str] = []
    for line in [*lines, ""]:
        if (match := ATTRIBUTE.fullmatch(line)) and not match[4].endswith(("{", "(", "[")):
            group.append(line)
        elif group:
            yield group
            group = []
