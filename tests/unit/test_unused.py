"""The plan notes cards that nothing uses, and pools of several cards; it refuses neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.inventory.misplaced_keys import elsewhere
from tests.unit.samples import MACHINE, MAIN, plan, refusals, sources


@pytest.mark.parametrize(
    ("gpus", "used", "words"),
    [(1, (0,), ""), (2, (0,), "no server uses GPU 1 of"), (4, (2,), "no server uses GPUs 0, 1, 3 of the machine's 4")],
)
def test_idle_cards_are_named(gpus: int, used: tuple[int, ...], words: str) -> None:
    servers = (replace(MAIN, gpus=used),)
    noted = [note for note in plan(machine=replace(MACHINE, gpus=gpus), servers=servers).warnings if "GPU" in note]
    assert [note for note in noted if note.startswith("no server uses")] == [
        note for note in noted if words and words in note
    ]


def test_a_pool_of_several_cards_is_noted() -> None:
    """The note has the number of hosts for each card."""
    servers = (replace(MAIN, models=MAIN.models[:1]),)
    fast = sources("a", "b", pool="chat", servers=servers)
    slow = sources("c", pool="chat", servers=servers, machine=replace(MACHINE, gpu="a100-80"))
    (note,) = [note for note in plan(*fast, *slow).warnings if note.startswith("pool chat")]
    assert "1 with A100" in note and "2 with H100" in note
    assert not [note for note in plan(*fast).warnings if note.startswith("pool chat")]


@pytest.mark.parametrize("key", ["http_proxy", "proxies", "HTTPS_PROXY", "model_repository", "nnodes", "ray_head"])
def test_a_key_that_belongs_elsewhere_gets_no_near_key(key: str) -> None:
    """The hint has the key's right place, and offers no near key."""
    assert elsewhere(key)
    if not key.isupper():
        (problem,) = refusals(**{key: "x"})
        assert (problem.kind, problem.attempt) == ("unknown-key", elsewhere(key))


def test_a_key_next_to_a_password_of_pyinfra_is_offered_no_password() -> None:
    """The key is a name of pyinfra 2, whose nearest present key would be refused next."""
    (problem,) = refusals(_use_sudo_password=True)
    assert "NOPASSWD" in problem.attempt
