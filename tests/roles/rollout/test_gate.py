"""The gate on fake hosts: the order of waves, a lost host, an unreachable one."""

from __future__ import annotations

from pyinfra import host
from pyinfra.operations import server

from roles import rollout
from tests.roles.fake import Ran, run

CANARY, SECOND, THIRD = "@fake/one", "@fake/two", "@fake/three"
WAVES = ((CANARY,), (SECOND, THIRD))
HOSTS = ("one", "two", "three")


def story() -> None:
    """A minimal deploy.py: a gate for all, then swap and gate per wave."""
    rollout.gate((CANARY, SECOND, THIRD), name="Gate | All")
    for number, wave in enumerate(host.loop(WAVES), start=1):
        if host.name in wave:
            server.shell("swap", name=f"Swap {number}")
        rollout.gate(wave, name=f"Gate | Wave {number}")


def swapped(ran: Ran) -> list[str]:
    """Hosts that swapped, in order."""
    return [step.host for step in ran.steps if step.name.startswith("Swap") and step.commands and not step.failed]


def test_the_second_wave_begins_after_the_gate_of_the_first() -> None:
    names = list(dict.fromkeys(run(story, hosts=HOSTS).operations))
    assert names == ["Gate | All", "Swap 1", "Gate | Wave 1", "Swap 2", "Gate | Wave 2"]


def test_a_gate_before_a_whole_wave_is_no_change() -> None:
    ran = run(story, hosts=HOSTS)
    assert [
        step.name for step in ran.steps if step.name.startswith("Gate") and (step.commands or step.would_change)
    ] == []


def test_a_lost_canary_leaves_later_waves_untouched() -> None:
    ran = run(story, hosts=HOSTS, answers={"one": {"swap": {"success": False}}, "two": {}, "three": {}})
    assert (swapped(ran), ran.failed_hosts, ran.stopped) == ([], ("one", "three", "two"), "No hosts remaining!")


def test_a_host_lost_in_the_last_wave_leaves_its_neighbours_swapped_and_ends_the_run() -> None:
    ran = run(story, hosts=HOSTS, answers={"one": {}, "two": {"swap": {"success": False}}, "three": {}})
    assert (sorted(swapped(ran)), ran.stopped) == (["one", "three"], "No hosts remaining!")


def test_an_unreachable_host_stops_the_others_before_anything_is_touched() -> None:
    ran = run(story, hosts=HOSTS, unreachable=("three",))
    assert (swapped(ran), ran.stopped) == ([], "No hosts remaining!")


def test_dry_says_that_an_unreachable_host_will_stop_the_run() -> None:
    ran = run(story, hosts=HOSTS, unreachable=("three",), dry=True)
    assert "Gate | All" in ran.would_change


def test_without_change_detection_the_gate_stops_all_the_same() -> None:
    ran = run(story, hosts=HOSTS, unreachable=("two",), detect_changes=False)
    assert (swapped(ran), ran.stopped) == ([], "No hosts remaining!")


def test_the_message_names_the_lost_hosts_and_what_to_do() -> None:
    assert str(rollout.hosts_lost((SECOND,), 2)) == (
        "the gate failed: 1 of 2 hosts are lost\n"
        "  lost   @fake/two\n"
        "  means  an operation failed there, or it could not be reached; its own messages are above\n"
        "  try    repair it, or leave it out of the inventory, and run again: finished steps are not repeated\n"
        "  state  finished waves are done and stay so; on all other hosts nothing further happens"
    )


def test_a_gate_before_the_first_change_says_that_nothing_was_changed() -> None:
    """The line spares an operator the examination of forty unchanged hosts."""
    ran = run(
        lambda: rollout.gate((CANARY, SECOND, THIRD), rollout.UNTOUCHED, name="Gate | All"),
        hosts=HOSTS,
        unreachable=("two",),
    )
    assert "before the first change; every host serves what it served" in str(ran.log)
