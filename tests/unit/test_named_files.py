"""A file that the inventory names and this machine lacks is a note of the plan, one for each kind of file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.inventory.fleet import Fleet
from deploy.io.inventory import load_plan
from deploy.io.local_paths import local_path
from deploy.io.named_files import missing_files
from deploy.spec import (
    AptMirror,
    Calibration,
    EngineStore,
    EngineTrust,
    Hub,
    Mirrors,
    Registry,
    Replay,
    Secret,
)
from tests.unit.samples import LLAMA, main, sources

LLAMA_AT = 'servers["main"].models["llama"]'
NEEDED = "a deploy needs it, this plan does not"


def notes(root: Path, *names: str, **data: Any) -> tuple[str, ...]:
    """The notes of these hosts."""
    inventory = sources(*(names or ("h",)), **data)
    return missing_files(inventory, Fleet.of(inventory), root)


def engine(**changes: Any) -> dict[str, Any]:
    """Data of a host that serves an engine."""
    return main(replace(LLAMA, path="engine", **changes))


CASES = {
    "texts to calibrate with": (
        engine(calibration=Calibration(directory="texts")),
        f"no directory texts here: the texts to calibrate with (h: {LLAMA_AT}.calibration.directory); {NEEDED}",
        "texts/",
    ),
    "prompts": (
        engine(replay=Replay(prompts="p.jsonl")),
        f"no file p.jsonl here: the prompts of the replay (h: {LLAMA_AT}.replay.prompts); {NEEDED}",
        "p.jsonl",
    ),
    "key of engines": (
        {"engine_trust": EngineTrust(key="keys/engines")},
        f"no file keys/engines here: the key that signs engines (h: engine_trust.key); {NEEDED}",
        "keys/engines.pub",
    ),
    "engine store": (
        {"engine_store": EngineStore.directory("engines")},
        f"no directory engines here: the engine store (h: engine_store); {NEEDED}",
        "engines/",
    ),
    "CA of the registry": (
        {"registry": Registry(ca_file="ca.pem")},
        f"no file ca.pem here: the CA of the registry (h: registry.ca_file); {NEEDED}",
        "ca.pem",
    ),
    "CA of the hub": (
        {"hub": Hub(ca_file="ca.pem")},
        f"no file ca.pem here: the CA of the hub (h: hub.ca_file); {NEEDED}",
        "ca.pem",
    ),
    "key of a mirror": (
        {"mirrors": Mirrors(docker=AptMirror(url="https://m", key_file="m.asc"))},
        f"no file m.asc here: the signing key of the docker mirror (h: mirrors.docker.key_file); {NEEDED}",
        "m.asc",
    ),
    "vault": (
        {"hub": Hub(token=Secret.vault("vault.yml", "token"))},
        f"no file vault.yml here: the vault of a secret (h: hub.token); {NEEDED}",
        "vault.yml",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_missing_file_is_a_note(case: str, tmp_path: Path) -> None:
    """The note has the file's place in the inventory; an existing file has no note."""
    data, note, file = CASES[case]
    assert notes(tmp_path, **data) == (note,)
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if file.endswith("/") else path.write_text("x")
    assert notes(tmp_path, **data) == ()


def test_answers_and_tasks_of_a_replay_are_looked_for_too(tmp_path: Path) -> None:
    """Each missing file has its own note."""
    replay = Replay(prompts="p", answers="a", tasks="t")
    assert [note.split(" here:")[0] for note in notes(tmp_path, **engine(replay=replay))] == [
        "no file p",
        "no file a",
        "no file t",
    ]


def test_forty_hosts_that_miss_one_file_make_one_note(tmp_path: Path) -> None:
    """The note names the first of the hosts."""
    (note,) = notes(tmp_path, "a", "b", "c", hub=Hub(ca_file="ca.pem"))
    assert "(a and 2 more: hub.ca_file)" in note


def test_a_login_key_that_is_missing_is_a_note_of_the_plan(tmp_path: Path) -> None:
    """pyinfra would report it for each host. The whole path is tested, from a file."""
    text = Path("inventories/h100.py").read_text().replace('"_sudo": True,', '"_sudo": True, "ssh_key": "keys/nobody",')
    (tmp_path / "fleet.py").write_text(text)
    notes = [note for note in load_plan(str(tmp_path / "fleet.py")).warnings if note.startswith("no file")]
    assert notes == [f"no file keys/nobody here: the key that logs in (h100-01.example.internal: ssh_key); {NEEDED}"]


def test_the_shipped_engine_inventory_says_which_files_it_wants() -> None:
    """A fresh clone gets three notes."""
    notes = [note for note in load_plan("inventories/h100_engine.py").warnings if " here: " in note]
    assert [note.split(" here:")[0] for note in notes] == [
        "no file keys/engines",
        "no directory calibration/cnn_dailymail",
        "no file replay/prompts.jsonl",
    ]


def test_the_home_of_an_unknown_user_is_an_ordinary_path() -> None:
    """At deployment the file counts as missing, without a traceback."""
    assert local_path("~no-such-user-here/key") == Path("~no-such-user-here/key")
    roles = [
        file
        for file in Path("roles").rglob("*.py")
        if "Path(" in (text := file.read_text()) and ").expanduser()" in text
    ]
    assert roles == []
