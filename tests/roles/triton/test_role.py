"""The role on fake hosts: bare, finished, half-finished, and after a change of a lower role."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyinfra import host

from roles import rollout, triton
from roles._pyinfra.runs import Run
from roles.triton import swapping
from roles.triton.operations import texts
from roles.triton.publishing import publishing
from roles.triton.times import unit_stop_seconds
from tests.roles.fake import Ran, run
from tests.roles.triton.serving import MAIN, MINE, PROBED, RELEASE, WANTED, host_answers, placed, serving

SWAP = "enginehouse-swap@main.service"
UNIT = "/etc/systemd/system/triton@.service"
UNIT_PATHS = " ".join(text.path for text in texts([WANTED]) if text.path.startswith("/etc/systemd/system/"))
RETIRED = (
    "{ systemctl disable --now enginehouse-watch@old.timer 2>/dev/null || true; } &&"
    " systemctl disable --now triton@old.service && rm -rf /etc/systemd/system/triton@old.service.d"
    " /var/lib/enginehouse/servers/old/current /var/lib/enginehouse/servers/old/swap.json"
    " && systemctl daemon-reload"
    " && { systemctl reset-failed triton@old.service enginehouse-swap@old.service 2>/dev/null || true; }"
)
STARTED = (
    f"{{ systemctl reset-failed {SWAP} 2>/dev/null || true; }} && systemctl start --no-block {SWAP}",
    f"follow {SWAP}",
)


@pytest.fixture(autouse=True)
def someone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes the run's id, user and token, so that tests do not depend on who runs them."""
    monkeypatch.setattr(
        swapping, "this_run", lambda state: Run("20261122-101502-3f9c", "2026-11-22T10:15:02Z", "me@here")
    )
    monkeypatch.setattr(swapping, "token_hex", lambda _: "mine")


def play(answers: dict[str, Any], **options: Any) -> Ran:
    """The role on one host with these answers."""
    return run(lambda: triton.apply(MINE, "plan-1", 2), answers=answers, **options)


def test_a_bare_host_is_published_proven_and_swapped() -> None:
    ran = play(host_answers())
    assert ran.changed == (
        "Triton | Install programs and units",
        f"Triton | Publish release {RELEASE} for main",
        "Triton | Prove CUDA inside the image for main",
        f"Triton | Swap in release {RELEASE} on main",
    )


def test_a_bare_host_gets_these_commands() -> None:
    commands = [command for command in play(host_answers()).commands if "enginehouse-new" not in command]
    assert commands == [
        "systemctl daemon-reload",
        f"publish /var/lib/enginehouse/releases/{RELEASE} ({len(WANTED.files)} files)",
        "docker rm --force enginehouse-probe-main >/dev/null 2>&1; timeout 600 docker run --rm"
        " --name enginehouse-probe-main --label io.enginehouse.probe=cuda"
        " --pull never --network none --user 61140:61140 --cap-drop ALL"
        " --security-opt no-new-privileges --read-only --tmpfs /tmp:rw,exec --device nvidia.com/gpu=0"
        " --mount type=bind,source=/usr/local/lib/enginehouse/host/cuda_probe.py,"
        "target=/usr/local/lib/enginehouse/host/cuda_probe.py,readonly"
        " nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3 python3 /usr/local/lib/enginehouse/host/cuda_probe.py 1"
        " && mkdir -p /var/lib/enginehouse/probes && touch /var/lib/enginehouse/probes/abc"
        " || { docker rm --force enginehouse-probe-main >/dev/null 2>&1; false; }",
        "systemctl enable triton@main.service",
        *STARTED,
    ]


def test_a_release_is_synced_before_it_is_named_and_linked() -> None:
    staging, target = "/var/lib/enginehouse/releases/.r1.partial", "/var/lib/enginehouse/releases/r1"
    synced, judged, renamed, *_ = publishing("r1").split("; ")[-7:]
    assert (synced, renamed) == (f"find {staging} -exec sync {{}} +", f"mv -T {staging} {target}")
    assert judged == f"test -f {target}/server.json || {{ rm -rf {target}"
    assert "; sync /var/lib/enginehouse/releases; rm -rf" in publishing("r1")


def test_the_wanted_release_is_written_to_the_host_before_the_swap() -> None:
    heard = [command for command in play(host_answers()).shell["host"] if "wanted.json" in command.command]
    assert [json.loads(command.stdin) for command in heard] == [
        {
            "release": RELEASE,
            "keep": 3,
            "asked": "mine",
            "instead_of": [],
            "plan": "plan-1",
            "run": "20261122-101502-3f9c",
            "wave": 2,
            "who": "me@here",
        }
    ]


def test_a_host_that_serves_the_release_changes_nothing() -> None:
    ran = play(host_answers(placed(), PROBED, serving()))
    assert (ran.changed, ran.would_change) == ((), ())


def test_a_finished_host_costs_three_questions_per_phase() -> None:
    heard = play(host_answers(placed(), PROBED, serving())).shell["host"]
    assert len(heard) == 6


def test_a_host_with_another_release_is_swapped_without_enabling_again() -> None:
    ran = play(host_answers(placed(), PROBED, serving(current="another")))
    assert ran.changed == (f"Triton | Swap in release {RELEASE} on main",)
    assert tuple(command for command in ran.commands if "enginehouse-new" not in command) == STARTED


def test_a_unit_that_is_not_active_is_started_through_the_same_transaction() -> None:
    assert play(host_answers(placed(), PROBED, serving(active="failed"))).changed == (
        f"Triton | Swap in release {RELEASE} on main",
    )


def test_a_cut_swap_is_not_taken_for_a_finished_one() -> None:
    assert play(host_answers(placed(), PROBED, serving(more="cut=yes"))).changed == (
        f"Triton | Swap in release {RELEASE} on main",
    )


def test_a_new_driver_is_proven_and_nothing_is_swapped() -> None:
    ran = play(host_answers(placed(), "key=def", serving()))
    assert ran.changed == ("Triton | Prove CUDA inside the image for main",)


OLD = "\nserver=old\ncurrent=1\nprevious=\nactive=active\nenabled=enabled\nswap=inactive"


def test_an_unplanned_server_is_retired_even_without_a_swap() -> None:
    assert play(host_answers(placed(), PROBED, serving() + OLD)).commands == (RETIRED,)


def test_a_renamed_server_is_forgotten_only_after_the_swap() -> None:
    ran = play(host_answers(placed(), PROBED, f"release={RELEASE}{OLD}"))
    assert ran.commands[-len(STARTED) - 1 :] == (*STARTED, RETIRED)
    assert ran.would_change == (
        f"Triton | Swap in release {RELEASE} on main",
        "Triton | Stop unplanned servers",
    )


def test_the_host_learns_which_server_is_replaced() -> None:
    heard = play(host_answers(placed(), PROBED, f"release={RELEASE}{OLD}")).shell["host"]
    assert [json.loads(command.stdin)["instead_of"] for command in heard if "wanted.json" in command.command] == [
        ["old"]
    ]


def test_a_swaps_timeout_includes_the_old_servers_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[int] = []  # filled twice: by the preparation with a dry answer, then on the host

    class FollowSwap(swapping.FollowSwap):
        def __init__(self, server: str, release: str, token: str, seconds: int) -> None:
            waits.append(seconds)
            super().__init__(server, release, token, seconds)

    monkeypatch.setattr(swapping, "FollowSwap", FollowSwap)
    for old in ("", OLD, OLD + OLD.replace("old", "older")):
        play(host_answers(placed(), PROBED, f"release={RELEASE}{old}"))
    alone, with_old, with_two_old = sorted(set(waits))
    assert with_old - alone == with_two_old - with_old == MAIN.start_seconds + unit_stop_seconds(MAIN, 0)


OTHER = json.dumps({"release": "other-release", "asked": "another's", "sentence": "other-release serves"})


def test_a_swap_of_another_run_is_not_taken_for_ours() -> None:
    """systemd merges a start into the running swap, which read its request before we wrote ours."""
    ran = play(host_answers(placed(), PROBED, serving("old")) | {"/verdict.json": OTHER})
    assert ran.failed_hosts == ("host",)
    assert "main: another swap was under way: it brought other-release" in str(ran.log)


def test_a_swap_that_leaves_no_verdict_is_no_success() -> None:
    ran = play(host_answers(placed(), PROBED, serving("old")) | {"/verdict.json": ""})
    assert ran.failed_hosts == ("host",)
    assert ("main: the swap ended without a verdict" in str(ran.log), "another swap" in str(ran.log)) == (True, False)


def test_a_swap_that_fails_leaves_the_old_server_all_it_has() -> None:
    answers = {f"{SWAP} 2>/dev/null || true": "ActiveState=failed\nResult=exit-code"}
    ran = play(answers | host_answers(placed(), PROBED, f"release={RELEASE}{OLD}"))
    assert (ran.failed_hosts, RETIRED in ran.commands) == (("host",), False)


@pytest.mark.parametrize("left", ["active=failed", "enabled=enabled", "left=yes"])
def test_leftovers_of_a_retired_server_are_removed_too(left: str) -> None:
    old = "\nserver=old\nactive=inactive\nenabled=disabled\n"
    assert play(host_answers(placed(), PROBED, serving() + old)).commands == ()
    assert play(host_answers(placed(), PROBED, serving() + old + left)).commands == (RETIRED,)


@pytest.mark.parametrize("name", ["main", "old"])
def test_a_container_that_lost_its_unit_is_removed(name: str) -> None:
    ran = play(host_answers(placed(), PROBED, serving() + f"\norphan={name}"))
    assert ran.commands == (f"docker rm --force triton-{name}",)


def test_units_that_were_there_change_under_the_dead_mans_switch() -> None:
    old = placed().replace(next(text for text in texts([WANTED]) if UNIT in text.path).wanted_fact, "0 644 root")
    commands = [command.splitlines()[0] for command in play(host_answers(old, PROBED, serving())).commands]
    assert [command.partition(" undo ")[2].split(" ")[0] for command in commands[:2]] == ["save", "watch"]
    assert commands[2].endswith(f"{UNIT}.enginehouse-new {UNIT}")
    assert [command.split(" ")[-1] for command in commands[3:]] == ["daemon-reload", "20", "connection"]


def test_changes_that_a_killed_run_left_unconfirmed_are_confirmed() -> None:
    kept = "x 600 root /etc/enginehouse/undo/units-triton/kept.json"
    commands = play(host_answers(f"{placed()}\n{kept}", PROBED, serving())).commands
    assert [command.split(" ")[-1] for command in commands] == [UNIT_PATHS.split(" ")[-1], "20", "connection"]


def test_a_unit_that_systemd_has_not_read_is_read() -> None:
    ran = play(host_answers(f"{placed()}\ndue - - daemon-reload", PROBED, serving()))
    assert ran.commands == ("systemctl daemon-reload",)


def test_a_dry_run_announces_every_step_of_a_bare_host() -> None:
    assert len(play(host_answers(), dry=True).would_change) == 4


def test_broken_cuda_leaves_the_running_server_unchanged() -> None:
    answers = {"docker run": {"success": False, "stderr": "no"}} | host_answers(
        placed(), "key=def", serving(current="another")
    )
    ran = play(answers)
    assert ran.failed_hosts == ("host",)
    assert not any(
        "enginehouse-swap" in command.command
        for command in ran.shell["host"]
        if command.executing and "start" in command.command
    )


def test_a_failed_swap_tells_the_hosts_verdict() -> None:
    verdict = {
        "sentence": "new does not serve; old is put back and serves",
        "reason": "chat does not load\n  | last line",
    }
    answers = {
        "verdict.json": json.dumps(verdict),
        f"{SWAP} 2>/dev/null || true": "ActiveState=failed\nResult=exit-code",
    }
    ran = play(answers | host_answers(placed(), PROBED, serving(current="another")))
    assert [line.strip() for line in ran.log if "main:" in line] == [
        "[@fake/host] main: new does not serve; old is put back and serves",
        "[@fake/host] main: chat does not load",
        "[@fake/host] main:   | last line",
    ]


def test_a_run_killed_anywhere_is_taken_up_where_it_stood() -> None:
    """The finished host is not touched, and the host with the interrupted swap comes before the untouched ones."""
    seen = {"done": serving(), "cut": serving(more="cut=yes"), "later": serving(current="another")}
    waves = [(f"@fake/{name}",) for name in seen]

    def story() -> None:
        for number, wave in enumerate(host.loop(waves), start=1):
            if host.name in wave:
                triton.apply(MINE, "plan-1", number)
            rollout.gate(wave, name=f"Gate | Wave {number}")

    answers = {name: host_answers(placed(), PROBED, served) for name, served in seen.items()}
    ran = run(story, hosts=tuple(seen), answers=answers)
    assert [step.host for step in ran.steps if step.commands] == ["cut", "later"]
