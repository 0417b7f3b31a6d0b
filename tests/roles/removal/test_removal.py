"""The role on fake hosts: with or without a record, with our files or without."""

from __future__ import annotations

from typing import Any

from roles import removal
from tests.roles.fake import Ran, run

FOUND = "units: triton@main.service\ndata: /var/lib/enginehouse (3.1 GiB: releases)"
STAYS = "stays: every package; the packages from before the first deploy are not recorded"


def play(listed: str, agreed: bool, **options: Any) -> Ran:
    """`remove.py` on a host whose program lists these items."""
    return run(lambda: removal.apply(agreed), answers={"python3 -B - list": listed}, **options)


def test_a_host_is_remembered_before_anything_is_installed() -> None:
    ran = run(removal.remember, answers={"before/packages": ""})
    assert ran.changed == ("Removal | Record the host before the first deploy",)


def test_a_host_is_remembered_once() -> None:
    ran = run(removal.remember, answers={"before/packages": "yes"})
    assert (ran.changed, ran.would_change) == ((), ())


def test_without_agreement_nothing_is_touched_and_everything_is_listed() -> None:
    ran = play(FOUND, agreed=False)
    assert (ran.changed, ran.would_change) == ((), ())
    assert [line.split("] ")[-1] for line in ran.log if "go" in line or "changed" in line] == [
        "would go: units: triton@main.service",
        "would go: data: /var/lib/enginehouse (3.1 GiB: releases)",
        "nothing was changed; `--data remove=yes` removes these items",
    ]


def test_with_the_word_the_same_program_removes() -> None:
    assert play(FOUND, agreed=True).commands == ("python3 -B - remove\n(a program)\n",)


def test_a_second_removal_changes_nothing() -> None:
    ran = play("", agreed=True)
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_package_that_stays_for_other_programs_causes_no_removal() -> None:
    ran = play(STAYS, agreed=True)
    assert (ran.changed, ran.would_change) == ((), ())


def test_dry_says_that_it_would_remove() -> None:
    assert play(FOUND, agreed=True, dry=True).would_change == ("Removal | Remove this project's files and packages",)
