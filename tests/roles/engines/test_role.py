"""The role on fake hosts: bare, finished, half-finished, building, and building for other hosts."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyinfra import host

from deploy.slices.host import Slice
from deploy.spec import EngineTrust
from roles import engines
from roles.engines.carrying import Carry
from roles.engines.recording import Record
from roles.engines.signing import Sign
from tests.roles.engines.samples import (
    FINGERPRINT,
    FOREIGN,
    GOING,
    PATH,
    SIGNED,
    UNIT,
    UNSIGNED,
    a_replay,
    an_engine,
    placed,
    saying,
    slices,
)
from tests.roles.fake import Ran, Then, run

START = f"{{ systemctl reset-failed {UNIT} 2>/dev/null || true; }} && systemctl start --no-block {UNIT}"
HAVING = "echo build=llama"
NAME = f"llama-fp8-tp1-26.07-sm90-{FINGERPRINT}"
GONE = f"{PATH} was built, and is gone again: ls -la /var/lib/enginehouse/engines/llama"
BUILT = [
    f"follow {UNIT}",
    f"test -s {PATH}/engine.json || {{ echo '{GONE}' >&2; exit 1; }}",
    f"judge and sign {PATH}",
]


@pytest.fixture(autouse=True)
def nothing_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubs the control machine's own commands: test_carrying and test_signing cover them."""
    for command in (Carry, Sign, Record):
        monkeypatch.setattr(command, "execute", lambda *_: True)


def play(planned: tuple[Slice, ...], states: dict[str, Any], act: Any = engines.apply, **options: Any) -> Ran:
    """The role on one host for each slice; `states` are their answers about the engine, `files` the installed ones."""
    trust = planned[0].engine_trust
    assert trust
    common = {"%n %a %U": options.pop("files", placed(trust)), "systemctl show": "ActiveState=inactive"}
    mine = {
        f"@fake/{name}": next(slice_of_host for slice_of_host in planned if slice_of_host.host == f"@fake/{name}")
        for name in states
    }
    answers = {name: {HAVING: state, **options.get("answers", {}), **common} for name, state in states.items()}
    options.pop("answers", None)
    ledger = {"engines_settings": {"ledger": str(Path(trust.key).parent / "ledger")}}

    def story() -> None:
        act(mine[host.name], planned)

    return run(story, answers=answers, hosts=tuple(states), data=ledger, **options)


def essential(ran: Ran) -> list[str]:
    """Commands without their standard input, except those that only write files and units."""
    lines = [command.partition("\n")[0] for command in ran.commands if "enginehouse-new" not in command]
    return [line for line in lines if line != "systemctl daemon-reload"]


def record(trust: EngineTrust) -> None:
    """Writes the engine to the ledger."""
    place = Path(trust.key).parent / "ledger" / "llama"
    place.mkdir(parents=True)
    for end in ("", ".sig"):
        (place / f"{FINGERPRINT}.json{end}").write_text("{}")


def test_a_bare_host_builds_judges_signs_and_records(trust: EngineTrust) -> None:
    ran = play(slices(trust), {"host": Then(saying(), saying(), saying(UNSIGNED), saying(SIGNED))}, files="")
    assert essential(ran) == [
        START,
        *BUILT,
        f"record {Path(trust.key).parent}/ledger/llama/{FINGERPRINT}.json",
    ]


def test_a_host_that_has_everything_changes_nothing(trust: EngineTrust) -> None:
    record(trust)
    ran = play(slices(trust), {"host": saying(SIGNED)})
    assert (ran.changed, ran.would_change, len(ran.operations)) == ((), (), 6)


def test_an_engine_that_was_signed_unjudged_before_stays_as_it_is(trust: EngineTrust) -> None:
    """On a host from before a reason was required, no engine is built, judged or signed again."""
    record(trust)
    ran = play(slices(trust, engine=an_engine(unjudged="")), {"host": saying(SIGNED)})
    assert (ran.changed, ran.failed_hosts) == ((), ())


def test_a_lost_signed_engine_is_not_rebuilt_without_a_judge(trust: EngineTrust) -> None:
    """The refusal comes before an hour of building."""
    ran = play(slices(trust, engine=an_engine(unjudged="")), {"host": saying()}, files="")
    assert ran.failed_hosts == ("host",)
    assert START not in ran.commands
    assert any(
        "the signed engine is gone, and a new one would be signed without a comparison" in line for line in ran.log
    )


def test_a_finished_host_is_asked_two_questions_a_phase(trust: EngineTrust) -> None:
    record(trust)
    ran = play(slices(trust), {"host": saying(SIGNED)})
    assert len(ran.shell["host"]) == 4


def test_dry_announces_all_that_a_bare_host_will_do(trust: EngineTrust) -> None:
    ran = play(slices(trust), {"host": saying()}, files="", dry=True)
    assert [name.split(" | ")[1].split(" ")[0] for name in ran.would_change] == [
        "Install",
        "Build",
        "Judge",
        "Record",
    ]


def test_a_running_build_is_followed_and_its_settings_kept(trust: EngineTrust) -> None:
    ran = play(slices(trust), {"host": Then(GOING, GOING, saying(UNSIGNED), saying(SIGNED))})
    assert [line for line in ran.commands if "build/llama.json" in line or line == START] == []
    assert essential(ran)[:3] == BUILT


def test_a_build_that_is_no_longer_planned_is_stopped_and_named(trust: EngineTrust) -> None:
    for_another = GOING.replace(FINGERPRINT, "8" * 16)
    ran = play(slices(trust), {"host": Then(for_another, for_another, saying(UNSIGNED), saying(SIGNED))})
    assert essential(ran)[:3] == [
        f"log {UNIT} builds 8888888888888888, which is no longer planned: it is stopped",
        f"systemctl stop {UNIT}",
        START,
    ]


def test_an_unsigned_engine_is_signed_without_a_build(trust: EngineTrust) -> None:
    ran = play(slices(trust), {"host": Then(saying(UNSIGNED), saying(UNSIGNED), saying(SIGNED))})
    assert essential(ran)[0] == f"judge and sign {PATH}"


def test_an_engine_of_a_foreign_signer_is_put_aside_and_rebuilt(trust: EngineTrust) -> None:
    ran = play(slices(trust), {"host": Then(saying(FOREIGN), saying(FOREIGN), saying(UNSIGNED), saying(SIGNED))})
    assert essential(ran)[:2] == [f"rm -rf {PATH}.refused && mv -T {PATH} {PATH}.refused", START]


def test_two_hosts_that_want_the_same_build_once_and_the_other_fetches(trust: EngineTrust) -> None:
    states = {"a": Then(saying(), saying(), saying(UNSIGNED), saying(SIGNED)), "b": Then(saying(), saying())}
    ran = play(slices(trust, "a", "b"), states)
    assert [command for command in essential(ran.on("a")) if NAME in command] == [f"collect {NAME}"]
    assert essential(ran.on("b")) == [
        f"fetch {NAME}",
    ]


def test_an_engine_of_another_host_is_fetched_and_not_built(trust: EngineTrust) -> None:
    record(trust)
    ran = play(slices(trust, "a", "b"), {"a": saying(), "b": saying(SIGNED)})
    assert [line.split(" ")[0] for line in essential(ran)] == ["collect", "fetch"]


def test_a_dry_run_of_two_hosts_announces_the_runs_steps(trust: EngineTrust) -> None:
    states = {"a": Then(saying(), saying(), saying(UNSIGNED), saying(SIGNED)), "b": saying()}
    ran = play(slices(trust, "a", "b"), states)
    assert set(ran.changed) == set(ran.would_change)


def test_a_failed_build_tells_its_cause_and_its_remedy(trust: EngineTrust) -> None:
    why = {"stage": "build", "exit": 1, "cause": "out of GPU memory", "remedy": "lower max_batch_size", "log": ["OOM"]}
    ran = play(slices(trust), {"host": saying()}, answers=failing(why))
    assert ran.failed_hosts == ("host",)
    lines = [line.removeprefix("[@fake/host] ") for line in ran.log]
    assert lines[lines.index(f"engine llama ({FINGERPRINT}) was not built: build ended with 1") :][:6] == [
        f"engine llama ({FINGERPRINT}) was not built: build ended with 1",
        "  cause  out of GPU memory",
        "  log    OOM",
        f"  kept   {PATH}.failed/build.log on the host",
        "  try    lower max_batch_size",
        "  state  nothing was published; running servers are not affected",
    ]


def failing(why: dict[str, object]) -> dict[Any, Any]:
    """Answers of a host whose build unit fails with this why.json."""
    left = base64.b64encode(json.dumps(why).encode()).decode()
    return {
        re.compile(r"systemctl show .*build@llama"): "ActiveState=failed\nResult=exit-code",
        "why.json": f"present:\n{left}",
    }


def test_a_host_that_waits_for_a_failed_build_names_the_builder(trust: EngineTrust) -> None:
    states = {"a": saying(), "b": saying()}
    ran = play(slices(trust, "a", "b"), states, answers=failing({"stage": "build", "exit": 1}))
    assert ran.failed_hosts == ("a", "b")
    assert any(
        f"engine llama ({FINGERPRINT}) was to come from @fake/a, which did not finish it" in line for line in ran.log
    )


def test_a_key_that_signs_nothing_stops_before_the_build(trust: EngineTrust) -> None:
    planned = slices(trust)
    Path(trust.key).write_text("no key")
    ran = play(planned, {"host": saying()})
    assert (ran.failed_hosts, [line for line in ran.commands if START in line]) == (("host",), [])
    assert any("cannot sign" in line for line in ran.log)


def test_a_finished_host_needs_no_private_key(trust: EngineTrust) -> None:
    record(trust)
    Path(trust.key).unlink()
    ran = play(slices(trust), {"host": saying(SIGNED)})
    assert (ran.failed_hosts, ran.changed) == ((), ())


def test_no_private_key_leaves_the_control_machine(trust: EngineTrust) -> None:
    ran = play(slices(trust), {"host": Then(saying(), saying(), saying(UNSIGNED), saying(SIGNED))}, files="")
    secret = Path(trust.key).read_text().splitlines()[1]
    assert not any(secret in heard.command + heard.stdin for heard in ran.shell["host"])


def test_replay_prompts_reach_the_host_before_the_build(trust: EngineTrust, tmp_path: Path) -> None:
    planned = slices(trust, engine=an_engine(replay=a_replay(tmp_path)))
    ran = play(planned, {"host": Then(saying(), saying(), saying(UNSIGNED), saying(SIGNED))})
    sent = [command for command in ran.commands if "llama.replay/prompts.jsonl" in command]
    assert sent[0].endswith('{"prompt": "one"}\n{"prompt": "two"}\n')


def test_a_host_that_only_builds_keeps_the_engine_for_others(trust: EngineTrust) -> None:
    states = {"host": Then(saying(), saying(), saying(UNSIGNED), saying(SIGNED))}
    ran = play(slices(trust, farm=True), states, engines.build)
    assert f"collect {NAME}" in essential(ran)
    assert not any("Fetch" in name or "Remove" in name for name in ran.operations)


def test_a_host_without_engines_is_not_even_asked(trust: EngineTrust) -> None:
    ran = play((replace(slices(trust)[0], engines=()),), {"host": saying()})
    assert (ran.operations, ran.shell["host"]) == ((), [])


def test_the_repair_of_the_image_reaches_the_host_before_the_build(trust: EngineTrust, monkeypatch: Any) -> None:
    monkeypatch.setattr("roles.engines.repairing.unpacked", lambda wheel: {"python/openai/__init__.py": b""})
    planned = slices(trust, image=replace(slices(trust)[0].image, repairs=("openai",)))
    ran = play(planned, {"host": Then(saying(), saying(), saying(UNSIGNED), saying(SIGNED))})
    (place,) = re.findall(r"(/var/lib/enginehouse/repairs/[0-9a-f]{16})\n", "\n".join(ran.commands) + "\n")
    settings = next(heard.stdin for heard in ran.shell["host"] if heard.stdin and "build/llama.json" in heard.command)
    assert essential(ran)[:2] == [f"send what repairs the image to {place}", START]
    assert json.loads(settings)["python_path"] == place


def test_a_host_that_cannot_check_throws_nothing_away(trust: EngineTrust) -> None:
    unsure = f"engine={PATH}\nsealed=yes\nchecked=no\nproblem=ssh-keygen is not on this host"
    record(trust)
    ran = play(slices(trust), {"host": saying(unsure)})
    assert (ran.failed_hosts, ran.would_change) == (("host",), ())
    assert essential(ran) == ["call _fail"]
    assert any("said   ssh-keygen is not on this host" in line for line in ran.log)
