"""The outer machine's apt configuration, in either format, names the mirror of every rehearsal machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.catalog import SYSTEMS
from rehearsal import apt_sources
from rehearsal.apt_sources import Source, for_release, outer_sources, parse_deb822, parse_one_line
from rehearsal.places import REPOSITORY, RehearsalRefused

DEB822 = """\
# comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://mirror.example/off
Suites: bookworm
Components: main

Types: deb-src
URIs: http://mirror.example/source
Suites: bookworm
Components: main
"""


def test_a_deb822_file_yields_its_enabled_binary_sources() -> None:
    wanted = Source(
        ("http://mirror.example/debian",),
        ("bookworm", "bookworm-updates"),
        ("main", "contrib"),
        "/usr/share/keyrings/debian-archive-keyring.gpg",
    )
    assert parse_deb822(DEB822) == [wanted]


def test_a_key_in_armour_stays_with_its_source() -> None:
    text = "Types: deb\nURIs: http://mirror.example\nSuites: trixie\nComponents: main\nSigned-By:\n KEY\n .\n abc\n"
    assert parse_deb822(text)[0].signed_by == "\n KEY\n .\n abc"


def test_a_one_line_file_yields_its_sources_with_options() -> None:
    text = (
        "deb [arch=amd64 signed-by=/etc/k.gpg] http://mirror.example/debian trixie main # ours\ndeb-src http://x y z\n"
    )
    assert parse_one_line(text) == [Source(("http://mirror.example/debian",), ("trixie",), ("main",), "/etc/k.gpg")]


def test_both_formats_under_etc_apt_are_read(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://one.example/debian bookworm main\n")
    (tmp_path / "sources.list.d/two.sources").write_text(DEB822)
    (tmp_path / "sources.list.d/off.list.disabled").write_text("deb http://three.example/debian bookworm main\n")
    assert [source.uris[0] for source in outer_sources(tmp_path)] == [
        "http://one.example/debian",
        "http://mirror.example/debian",
    ]


def test_a_mirror_serves_another_release_under_the_same_kinds_of_suite() -> None:
    source = Source(("http://mirror.example",), ("bookworm", "bookworm-updates", "bookworm-security"), ("main",))
    mirrored = for_release(source, "trixie")
    assert mirrored and mirrored.suites == ("trixie", "trixie-updates", "trixie-security")


def test_a_source_that_is_not_debian_is_not_handed_on() -> None:
    assert for_release(Source(("https://apt.example",), ("cloud-sdk-bookworm",), ("main",)), "trixie") is None


def test_an_outer_machine_without_debian_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGINEHOUSE_DEBIAN_MIRROR", raising=False)
    monkeypatch.setattr(apt_sources, "outer_sources", lambda: [Source(("http://u.example",), ("noble",), ("main",))])
    with pytest.raises(RehearsalRefused, match="names no Debian archive"):
        apt_sources.debian_sources("13")


def test_a_mirror_can_be_named_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOUSE_DEBIAN_MIRROR", "http://near.example/debian")
    assert apt_sources.debian_sources("12") == [Source(("http://near.example/debian",), ("bookworm",), ("main",))]


def test_a_source_is_written_as_one_paragraph() -> None:
    written = Source(("http://mirror.example",), ("trixie",), ("main", "contrib"), "/k.gpg").to_deb822()
    assert written == (
        "Types: deb\nURIs: http://mirror.example\nSuites: trixie\nComponents: main contrib\nSigned-By: /k.gpg\n"
    )


@pytest.mark.parametrize(
    ("line", "is_handed_on"),
    [
        ('Acquire::Check-Valid-Until "false";', True),
        ('Acquire::http::Proxy "http://proxy.example";', True),
        ('Acquire::https::Proxy::mirror.example "DIRECT";', True),
        ('Acquire::https::CAInfo "/etc/ca.pem";', True),
        ('Acquire::Languages "none";', False),
        ('APT::Install-Recommends "false";', False),
    ],
)
def test_only_settings_the_mirror_needs_are_handed_on(line: str, is_handed_on: bool) -> None:
    assert bool(apt_sources.HANDED_ON.match(line)) is is_handed_on


def test_a_machine_of_ubuntu_has_the_archives_updates_and_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEHOUSE_UBUNTU_MIRROR", "http://near.example/ubuntu")
    (source,) = apt_sources.sources("24.04")
    assert source.suites == ("noble", "noble-updates", "noble-security")
    assert (source.uris, source.signed_by) == (("http://near.example/ubuntu",), apt_sources.UBUNTU_KEYRING)


def test_an_outer_ubuntu_names_the_mirror_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGINEHOUSE_UBUNTU_MIRROR", raising=False)
    outer = Source(("http://u.example/ubuntu",), ("noble", "noble-updates"), ("main",))
    monkeypatch.setattr(apt_sources, "outer_sources", lambda: [outer])
    assert apt_sources.sources("24.04")[0].uris == ("http://u.example/ubuntu",)


def test_an_outer_machine_without_ubuntu_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGINEHOUSE_UBUNTU_MIRROR", raising=False)
    monkeypatch.setattr(apt_sources, "outer_sources", lambda: [Source(("http://d.example",), ("trixie",), ("main",))])
    with pytest.raises(RehearsalRefused, match="ENGINEHOUSE_UBUNTU_MIRROR"):
        apt_sources.sources("24.04")


def test_a_release_is_written_as_inventories_do() -> None:
    systems = [apt_sources.system(release) for release in apt_sources.CODENAMES]
    assert systems == ["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04", "ubuntu-26.04"]
    assert {name: SYSTEMS[name].codename for name in systems} == dict(
        zip(systems, apt_sources.CODENAMES.values(), strict=True)
    )


def test_the_pages_name_the_systems_that_no_machine_has_run() -> None:
    """README's row of fake hosts names them all, and the table of the rehearsal has a row for each system."""
    with_machine = {apt_sources.system(release) for release in apt_sources.CODENAMES}
    row = re.search(r"^\| fake hosts only \| (.*) \|$", (REPOSITORY / "README.md").read_text(), re.M)
    assert _systems_in(row[1] if row else "") == SYSTEMS.keys() - with_machine
    table = re.findall(r"^\| (.*?) \| .*? \| (.*?) \|", (REPOSITORY / "rehearsal/README.md").read_text(), re.M)
    rehearsed = {name: cell != "–" for title, cell in table for name in _systems_in(title)}
    assert {name for name, was in rehearsed.items() if was} == with_machine
    assert rehearsed.keys() == SYSTEMS.keys()


def _systems_in(text: str) -> set[str]:
    return {f"{name.lower()}-{number}" for name, number in re.findall(r"(Debian|Ubuntu) (\d[\d.]*\d)", text)}
