"""The role on fake hosts: bare, without spare files, with some."""

from __future__ import annotations

import json
import shlex
from typing import Any

from roles import cleanup
from tests.roles.fake import Ran, run
from tests.roles.slices import a_slice

MINE = a_slice()
SPARE = "/var/lib/enginehouse/cache/1 (3 MiB): its release is gone"


def play(spare: str = "", **options: Any) -> Ran:
    """The role on one host whose program prints these lines."""
    return run(lambda: cleanup.apply(MINE), answers={"host clean-up list": spare}, **options)


def test_a_host_with_nothing_to_spare_changes_nothing() -> None:
    ran = play()
    assert (ran.changed, ran.would_change) == ((), ())


def test_spare_files_are_removed_and_planned_ones_kept() -> None:
    ran = play(spare=SPARE, data={"cleanup_settings": {"keep_images": 2}})
    settings = json.loads(shlex.split(ran.commands[0])[-1])
    assert ran.changed == ("Cleanup | Remove unneeded images, weights and engines",)
    assert settings["images"] == ["nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3"]
    assert settings["keep"] == {"weights": 1, "engines": 2, "images": 2, "failed": 1}


def test_a_dry_cleanup_lists_the_spare_files_and_removes_none() -> None:
    ran = play(spare=SPARE, dry=True)
    assert ran.would_change == ("Cleanup | Remove unneeded images, weights and engines",)
    assert any(SPARE in line for line in ran.log)
