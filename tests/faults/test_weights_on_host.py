"""Weights that a host has already: a server reads them in place, and no run changes them."""

from __future__ import annotations

import pytest

from tests.faults.scene import WELL, Scene

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("number-7")]

ON_HOST = "tests/faults/inventories/weights_on_host.py"
PLACE = "/mnt/models/minilm"
BROUGHT = f"rm -rf {PLACE}; mkdir -p /mnt/models; cp -a /var/lib/enginehouse/weights/minilm/*/ {PLACE}; ls {PLACE}"
SUMS = f"cd {PLACE} && find . -type f -exec sha256sum {{}} + | sort -k 2; stat -c '%n %a %u %Y' *"
MOUNTS = 'docker inspect triton-main | grep -c \'"Source": "/mnt/models/minilm"\''


def test_a_server_reads_them_in_place_and_its_next_run_is_silent(scene: Scene) -> None:
    assert "model.safetensors" in scene.machine.run(BROUGHT).stdout
    before = scene.machine.run(SUMS).stdout
    run = scene.deploy(inventory=ON_HOST)
    assert run.code == 0, run.output[-4000:]
    assert int(scene.machine.run(MOUNTS).stdout) > 0
    assert scene.deploy(inventory=ON_HOST).is_silent
    assert scene.machine.run(SUMS).stdout == before
    assert scene.ends_well() == WELL
    assert scene.machine.run(SUMS).stdout == before, "another inventory leaves them, too"


def test_files_that_the_server_may_not_read_are_refused_before_the_first_change(scene: Scene) -> None:
    scene.machine.run(f"{BROUGHT} && chmod 600 {PLACE}/tokenizer.json")
    scene.mark()
    with scene.polled() as polls:
        run, written = scene.deploy(inventory=ON_HOST), scene.written()
    assert (run.code, written, polls.missed) == (1, [], [])
    assert f"{PLACE} cannot be read by the server's user" in run.output and "tokenizer.json" in run.output
    assert scene.ends_well() == WELL


def test_a_server_waits_for_a_mount_that_comes_late(scene: Scene) -> None:
    assert "model.safetensors" in scene.machine.run(BROUGHT).stdout
    assert scene.deploy(inventory=ON_HOST).code == 0
    scene.machine.run(f"mv {PLACE} {PLACE}-away && systemctl restart --no-block triton@main")
    logged = f"journalctl -u triton@main | grep -q 'waiting for {PLACE}'"
    waiting = f"for i in $(seq 60); do {logged} && break; sleep 1; done"
    assert scene.machine.run(f"{waiting}; systemctl is-active triton@main; true").stdout.split() == ["activating"]
    scene.machine.run(f"mv {PLACE}-away {PLACE}")
    active = "for i in $(seq 120); do [ $(systemctl is-active triton@main) = active ] && break; sleep 1; done"
    assert scene.machine.run(f"{active}; systemctl is-active triton@main; true").stdout.split() == ["active"]
    assert scene.ends_well() == WELL
