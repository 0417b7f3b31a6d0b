"""Repositories, keys and packages as commands, and the two host programs behind them."""

from __future__ import annotations

import shlex
import subprocess
from base64 import b64decode
from pathlib import Path

import pytest

from deploy.refusals.errors import Refusal
from deploy.spec import AptMirror
from host import fetch_apt_key
from roles._pyinfra.facts import HostFacts, Installed
from roles._shipping import apt
from roles._shipping.places import command

FILES = Path(__file__).parents[2] / "files"
FINGERPRINT = "A7720A6CBC293D0CE3DAE3CAECAAB0223AF3EF2D"
KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mQGNBGsA/PUBDADVTaevV1oc9oXEmqah+WcQM2FyGz+iYRVRJMuLRlLkFOCHwmqS
eW4Enefn7KBTc5jblP8marcFq2/ArkAsPxN3Vvr8+E+rZtCo8cTAmk72KqgRsDPG
saF3A/RUcXmEevEbjGbGuoDgQlrNKNWjMQn3TGV4i3zGP5/JMUgnoz4PBcPoUJJc
aS05JvOmmZqSvMGFkOtySbu8gjSNo7oeXIfZbrEnfvDZOZPwZspku4QFPSJDvpel
4fiEHQVwz4+X86N7EHx8zyhZItyeWVaQGCKIoiT+G73sUpmJLGJLu/68QsxdrgYf
ZYZyM6J8lh3wUxTndIrngY9e6C6uWY4lKkXeBsYlRnFgHX27vIVBA8FlnHn/uain
gfI+tYo3Vd44A5kW2ol0N4Kdnt8o7K8B49KVPFTc0sdRbZxIE2MViDO4lWSOQR7D
a1x8W+MbV28w8Fee3W+ox/pkoQ8jmiqqDJuZ1r3Py9wwlB5RXlmxHoehBO7w0OWt
jqSAhRALWNbFZ7cAEQEAAbQiZW5naW5laG91c2UgcmVoZWFyc2FsICh0aHJvdy1h
d2F5KYkBzgQTAQoAOBYhBKdyCmy8KT0M49rjyuyqsCI68+8tBQJrAPz1AhsDBQsJ
CAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEOyqsCI68+8tVrUL/AuPC0/jjuL8+Qy2
l3uqzOsFdWDsv3/igvmcwTwnQC2WJn5XXmpOhNKdmghJ/4RnSMKxBTet9bmdu1Ug
EbwstKg9tD7LSAzGoj8PLRLxNMnsBROMR/n2QmEk6TJmF/Gnn0yZo5zAG+EQyguZ
TaCdWJyJUW3UaIgspkpPnG6yQ3fvQcPXyWxgtfmtRC3iPp5Y9f+tkcjiPUBqL/BK
A1h2YWOkwExSy8+S7tozXQ5wmSnvdSFHwdT8sZlcpQoTjBcRPNYWJChWCBErUqaK
MU3YQJlH1yhWrSrluLm33uzQeTfN0wKL86KUDNfnuRp8NXniwCP5wSO+Ae3TOROh
pWq0xF+rBiLzN2I2Ra8O5521eOL6UqGOQBfpFSs88V37od/DqEIHfgIU934H3zRh
ODW7qeUE9Z3opruk2fDhnjsjOWXJHAN+Thmx76wviOEWT8HyFwdIcUuENTwVFaI1
w6WNprJhkirYJbDQBXHT48B8LX1m1YCPonhnhlYIEX0oNvG75A==
=4XnN
-----END PGP PUBLIC KEY BLOCK-----
"""
UPSTREAM = apt.Repository(
    name="tool", url="https://up.example/deb", path="$(ARCH) /", key_url="https://up.example/key", key_fingerprint="AB"
)


def test_a_key_has_the_fingerprint_gpg_shows() -> None:
    assert fetch_apt_key.fingerprint(KEY.encode()) == FINGERPRINT


def test_a_binary_key_has_the_same_fingerprint() -> None:
    assert fetch_apt_key.fingerprint(fetch_apt_key.packets(KEY.encode())) == FINGERPRINT


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"])
def test_text_that_is_no_key_has_no_fingerprint(content: bytes) -> None:
    assert fetch_apt_key.fingerprint(content) == ""


def test_a_binary_key_file_becomes_the_armour_it_came_from(tmp_path: Path) -> None:
    body = KEY.split("\n\n", 1)[1].split("\n=")[0]
    (tmp_path / "key.gpg").write_bytes(b64decode(body))
    assert apt.armoured(str(tmp_path / "key.gpg")).split() == KEY.split()


def test_a_missing_key_file_is_refused_by_name() -> None:
    with pytest.raises(Refusal, match=r"signing key /nowhere/key\.asc cannot be read"):
        apt.armoured("/nowhere/key.asc")


def test_an_upstream_key_is_fetched_and_checked() -> None:
    assert str(next(UPSTREAM.missing(HostFacts()))) == (
        f"{command('fetch-apt-key')} https://up.example/key AB /etc/apt/keyrings/tool.asc"
    )


def test_a_mirror_brings_its_own_key_and_keeps_the_path(tmp_path: Path) -> None:
    (tmp_path / "key.asc").write_text(KEY)
    mirror = UPSTREAM.mirrored(AptMirror(url="http://mirror/deb/", key_file=str(tmp_path / "key.asc")))
    assert mirror.content == "deb [signed-by=/etc/apt/keyrings/tool.asc] http://mirror/deb/$(ARCH) /\n"


def test_another_list_of_the_same_repository_is_set_aside() -> None:
    seen = HostFacts(values={"conflicts-tool": "/etc/apt/sources.list.d/old.list\n/etc/apt/sources.list.d/old.sources"})
    assert [str(command) for command in UPSTREAM.missing(seen)][:2] == [
        "sed -i 's|^deb.*https://up.example/deb|# set aside by enginehouse: &|' /etc/apt/sources.list.d/old.list",
        "mv /etc/apt/sources.list.d/old.sources /etc/apt/sources.list.d/old.sources.disabled",
    ]


def test_only_missing_or_outdated_packages_are_installed() -> None:
    installed = {"a": Installed("1"), "b": Installed("2.1-1"), "c": Installed("580.95.05-1")}
    *_, command = apt.install({"a": "", "b": "2.1-1", "c": "580.178.04-*", "d": ""}, installed)
    assert str(command).endswith("--no-install-recommends 'c=580.178.04-*' d")


def test_installed_packages_need_no_command() -> None:
    assert list(apt.install({"a": "580.*"}, {"a": Installed("580.1-1")}, repository="tool")) == []


def test_only_installed_packages_without_a_hold_are_held() -> None:
    installed = {"a": Installed("1"), "b": Installed("1", held=True)}
    assert list(apt.hold(["a", "b", "c"], installed)) == ["apt-mark hold a"]


def test_half_installed_packages_do_not_count() -> None:
    seen = HostFacts.parse(["package\ta\t1\tiF ", "package\tb\t1\tii ", "package\tc\t1\thi ", "package\td\t1\trc "])
    assert seen.packages == {"b": Installed("1"), "c": Installed("1", held=True)}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("sources.list", "deb http://m/debian bookworm main\n", "deb http://m/debian bookworm main contrib\n"),
        ("sources.list", "deb http://m/debian bookworm main contrib\n", "deb http://m/debian bookworm main contrib\n"),
        ("sources.list", "deb http://other/x stable main\n", "deb http://other/x stable main\n"),
        ("sources.list.d/d.sources", "Suites: bookworm bookworm-updates\nComponents: main\n",
         "Suites: bookworm bookworm-updates\nComponents: main contrib\n"),
        ("sources.list.d/o.sources", "Suites: stable\nComponents: main\n", "Suites: stable\nComponents: main\n"),
    ],
)  # fmt: skip
def test_contrib_is_added_to_debians_own_sources_alone(tmp_path: Path, name: str, before: str, after: str) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(before)
    subprocess.run([FILES / "shell" / "enable-contrib", "bookworm", tmp_path], check=True)
    assert (tmp_path / name).read_text() == after


HOSTILE = "x; touch ran #$(touch ran)'\n"


def test_names_of_packages_and_units_are_quoted_for_the_shell() -> None:
    """Some names come from the host: the version of its kernel, installed packages."""
    seen = {HOSTILE: Installed("1", held=False), "held" + HOSTILE: Installed("1", held=True)}
    assert shlex.split(next(apt.hold([HOSTILE], seen)))[2:] == [HOSTILE]
    assert shlex.split(next(apt.release(["held" + HOSTILE], seen)))[2:] == ["held" + HOSTILE]
    assert shlex.split(next(apt.install_masked({"new" + HOSTILE: HOSTILE}, {})))[2:] == [HOSTILE]
    update, install = apt.install({HOSTILE: "", "b": HOSTILE}, {}, repository=HOSTILE)
    assert shlex.split(update)[2:] == [HOSTILE]
    assert shlex.split(install)[-2:] == [HOSTILE, f"b={HOSTILE}"]
