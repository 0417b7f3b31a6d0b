"""Judges a host at a gate, and writes the message of a failed gate. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from deploy.refusals import Refusal
from deploy.rollout.run import Failure, Hold, Stop
from deploy.slices.host import Slice
from deploy.spec import Rollout
from roles.rollout.facts import ServerFacts

UNTOUCHED = "before the first change; every host serves what it served"
STAGED = "no host was drained; every host that served serves what it served"
BEGUN = "finished waves are done and stay so; on all other hosts nothing further happens"
AGAIN = "repair it, or leave it out of the inventory, and run again: finished steps are not repeated"
SHOWN = 8


def finding(
    mine: Slice,
    before: Mapping[str, ServerFacts],
    now: Mapping[str, ServerFacts],
    rollout: Rollout,
    floor_seconds: float,
) -> tuple[Failure | None, str]:
    """The worst failure of a host's servers and a sentence for it; None without a failure."""
    servers = [server.name for server in mine.servers]
    all_facts = [now.get(name, ServerFacts(name)) for name in servers]
    idle = [f"{facts.server} is {facts.active or 'not there'}" for facts in all_facts if facts.active != "active"]
    if idle:
        return "not ready", "; ".join(idle)
    wrong = [f"{facts.server}: {facts.problem}" for facts in all_facts if facts.problem]
    if wrong:
        return "question failed", "; ".join(wrong)
    slow = [
        f"{facts.server}: {sentence}"
        for facts in all_facts
        for sentence in slower(
            before.get(facts.server, ServerFacts(facts.server)), facts, rollout.slower_percent, floor_seconds
        )
    ]
    return ("slower", "; ".join(slow)) if slow else (None, "")


def slower(before: ServerFacts, now: ServerFacts, percent: int, floor_seconds: float) -> Iterator[str]:
    """A sentence for each model of a newly swapped release that answers its test request too slowly.

    The comparison is with the previous release on the same host, each measured by its own proof.
    """
    if not percent or now.swap.get("release") != now.release or now.swap.get("from") != before.release:
        return
    earlier = now.swap.get("answers_before", {})
    for model, seconds in now.swap.get("answers", {}).items():
        if model in earlier and seconds > earlier[model] * (1 + percent / 100) + floor_seconds:
            yield f"{model} answers in {seconds:.2f} s, and before in {earlier[model]:.2f} s ({percent} % more may be)"


def unchanged(before: Mapping[str, ServerFacts], now: Mapping[str, ServerFacts]) -> bool:
    return {name: (facts.release, facts.invocation) for name, facts in before.items()} == {
        name: (facts.release, facts.invocation) for name, facts in now.items()
    }


def hosts_lost(missing: tuple[str, ...], size: int, state_then: str = BEGUN, attempt: str = AGAIN) -> Refusal:
    return Refusal(
        f"the gate failed: {len(missing)} of {size} hosts are lost",
        facts=_lost(missing),
        attempt=attempt,
        state=state_then,
        kind="gate",
    )


def gate_failed(stop: Stop, why: Mapping[str, str], size: int, state_then: str = BEGUN) -> Refusal:
    """The refusal for every remaining host after a failed gate; `why` by host."""
    if not stop.failed and not stop.back and not stop.stays:
        return hosts_lost(stop.lost, size, state_then)
    failures = [f"{host} {_words(event)} ({why.get(host, '')})" for host, event in sorted(stop.failed.items())]
    facts = {"found": "; ".join(failures[:SHOWN]) + _more(failures)} if failures else {}
    facts |= _lost(stop.lost) if stop.lost else {}
    facts |= {"restored": f"{_names(stop.back)}: the earlier release serves again"} if stop.back else {}
    if stop.stays:
        facts["unchanged"] = f"{_names(stop.stays)}: lost, without room in the pool, or nothing served there before"
    problem = f"{len(stop.failed)} of {size} hosts did not pass" if failures else ""
    lost = f"{len(stop.lost)} of {size} hosts are lost" if stop.lost else ""
    return Refusal(
        "the gate failed: " + ", and ".join(part for part in (problem, lost) if part),
        facts=facts,
        attempt=AGAIN,
        state=state_then,
        kind="gate",
    )


def no_room(hold: Hold, waited_seconds: int) -> Refusal:
    """The refusal of a host that may not be drained."""
    if not hold.pool and not hold.out:
        return Refusal(
            f"this host is not drained: {hold.why}",
            facts={},
            attempt="see the gate's own message on the other hosts",
            state="this host serves what it served",
            kind="no-room",
        )
    pool = f"pool {hold.pool}" if hold.pool else "the hosts without a pool"
    return Refusal(
        f"{pool} has no room: with this wave more than {hold.allowed} would be out",
        facts={
            "out": _names(hold.out),
            "means": f"lost in this run, or no balancer has sent requests to them for {waited_seconds} s",
        },
        attempt="repair them first; if this run can do it, alone: --limit " + (hold.out[0] if hold.out else "HOST"),
        state="this host serves what it served",
        kind="no-room",
    )


def _words(event: str) -> str:
    return {"not ready": "is not ready", "slower": "is slower", "question failed": "fails its question"}[event]


def _lost(missing: tuple[str, ...]) -> dict[str, str]:
    means = "an operation failed there, or it could not be reached; its own messages are above"
    return {"lost": _names(missing), "means": means}


def _names(hosts: Iterable[str]) -> str:
    names = list(hosts)
    return ", ".join(names[:SHOWN]) + _more(names)


def _more(items: list[str]) -> str:
    return f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
