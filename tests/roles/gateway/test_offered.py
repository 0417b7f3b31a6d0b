"""The gateway's settings for each set of releases, over swaps of the host's own program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host import offered, places, swap
from tests.roles.triton.swapping import FakeHost


class Deployed:
    """A host with real swaps; a deploy writes the gateway's settings after its swap."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host, self.file = FakeHost(root, monkeypatch), root / "etc/gateway/settings.json"
        monkeypatch.setattr(places, "SETTINGS", root / "etc")
        self.file.parent.mkdir(parents=True)

    def swaps(self, release: str) -> None:
        """Swaps the host to this release."""
        if not (self.host.root / "releases" / release).exists():
            self.host.publish(release)
        wanted = {"release": release, "who": "ada", "plan": "p", "keep": 5}
        (self.host.root / "servers/main/wanted.json").write_text(json.dumps(wanted))
        assert swap.main(["run", "main"]) == 0

    def deploys(self, release: str, **settings: Any) -> None:
        """Swaps the release in, and writes the gateway's settings for it."""
        self.swaps(release)
        content = {"fingerprint": f"plan-{release}", "limits": {"held": 1}, "models": {f"model-{release}": {}}}
        self.file.write_text(json.dumps(content | settings, indent=2) + "\n")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the gateway reads."""
        return dict(json.loads(self.file.read_text()))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployed:
    """A host without a deploy."""
    return Deployed(tmp_path, monkeypatch)


def test_a_release_that_serves_again_has_the_very_settings_of_then(host: Deployed) -> None:
    host.deploys("a1")
    first = host.file.read_text()
    host.deploys("b2")
    host.swaps("a1")
    assert list(offered.restore()) == ["the gateway has the settings of these releases again: model-a1"]
    assert host.file.read_text() == first
    assert list(offered.restore()) == []


def test_forward_again_it_has_those_of_the_later_release(host: Deployed) -> None:
    host.deploys("a1")
    host.deploys("b2")
    host.swaps("a1")
    list(offered.restore())
    host.swaps("b2")
    list(offered.restore())
    assert host.settings["fingerprint"] == "plan-b2"


def test_limits_and_keys_of_the_last_deploy_stay(host: Deployed) -> None:
    """A gateway that requires keys by now is not opened again by a rollback."""
    host.deploys("a1")
    host.deploys("b2", limits={"held": 9}, keys_file="keys.json")
    host.swaps("a1")
    list(offered.restore())
    assert host.settings == {
        "fingerprint": "plan-a1",
        "limits": {"held": 9},
        "models": {"model-a1": {}},
        "keys_file": "keys.json",
    }


def test_releases_without_a_copy_leave_the_settings_as_they_are(host: Deployed) -> None:
    host.deploys("a1")
    host.deploys("b2")
    present = host.settings
    for copy in (places.ROOT / "gateway").glob("*.json"):
        copy.unlink()
    host.swaps("a1")
    assert (list(offered.restore()), host.settings) == ([], present)


def test_a_host_without_a_gateway_keeps_nothing(host: Deployed) -> None:
    host.swaps("a1")
    host.swaps("b2")
    assert (list(offered.restore()), (places.ROOT / "gateway").exists()) == ([], False)


def test_a_disk_that_is_full_keeps_no_swap_from_its_release(
    host: Deployed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    host.deploys("a1")
    monkeypatch.setattr(offered, "keep", full)
    host.swaps("b2")
    assert "the gateway's settings were not copied: " in capsys.readouterr().err


def test_only_the_last_copies_are_kept(host: Deployed) -> None:
    for number in range(offered.KEPT + 5):
        host.deploys(f"r{number}")
    assert len(list((places.ROOT / "gateway").glob("*.json"))) == offered.KEPT
