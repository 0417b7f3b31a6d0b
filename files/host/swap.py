"""Changes the release that a Triton server serves, as a transaction on the host.

    host swap run SERVER        stop, switch `current`, start, load, prove; after any failure: put the old release back
    host swap undo SERVER       after a killed swap: put back, and start it (ExecStopPost of the swap's unit)
    host swap recover SERVER    the same before a start, without starting (ExecCondition of triton@: power cut, reboot)

In /var/lib/enginehouse/servers/SERVER: wanted.json (the request), swap.json (exists during a swap, and so marks an
interrupted one), verdict.json (the result of the last one), lock. Each swap adds a line to ../../history.jsonl.

With `replay` in wanted.json the serving LLM gets its prompts before it stops (`recording`), and the new one before
clients reach it (`promotion`): an LLM whose answers differ too much does not serve.

The LLM beside a server's Triton (llm@SERVER) belongs to the release: it stops and starts with it, in one transaction.

A server that replaces others (`instead_of` in wanted.json: one of them may be this one under its old name) stops those
that hold a port or a device that it needs. If it does not serve, they serve again, also after an interrupted swap:

    until it serves     they keep `current` and stay enabled, so every boot starts them. A boot does not start it:
                        `recover` takes its `current` away before its container could ask for their ports
    once it serves      their `current` is removed first, so that no boot starts them, and swap.json last: after an
                        interruption it still has the release of each, and undo and recover restore and start them
    after that          deploy.py removes them, once every swap of the host has succeeded
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from host import disk, history, offered, places, recording
from host.promotion import FILE as REPLAY
from host.server import DoesNotServe, Server
from host.systemd import say

OF_RUN = ("run", "wave", "back")
"""Fields that describe the requesting run besides `who` and `plan`: its name, the wave, and the run that it reverts."""
PUT_BACK = "put-back.json"
"""File with the release that was last restored, and the run of the failed swap, for the other hosts of a group."""
TRY_AGAIN = 255
"""Exit status of an ExecCondition that fails, after which systemd retries; 1 to 254 would skip the start for good."""


def main(arguments: list[str]) -> int:
    """0 if the server is as requested; 1 if it is not; TRY_AGAIN if an interrupted swap could not be undone."""
    verb, name = arguments
    server = Server(name)
    with server.locked(wait=verb == "run") as mine:
        if not mine:
            return 0  # another process swaps at the moment
        if verb == "run":
            return swap(server)
        cut = server.swap_file.exists()
        if cut:
            try:
                undo(server, running=verb == "undo")
            except OSError as problem:
                print(f"the interrupted swap could not be undone: {problem}", file=sys.stderr)
                return TRY_AGAIN
        if verb == "recover":
            return 0 if server.release("current") else 1
        if cut and server.release("current"):
            server.systemctl("start", "--no-block", *server.units())
        return 0


def swap(server: Server) -> int:
    """0 once the wanted release serves. Otherwise the earlier release serves again, and the verdict has the reason."""
    if server.swap_file.exists():
        undo(server, running=True)
    for file in ("verdict.json", PUT_BACK):
        (server.place / file).unlink(missing_ok=True)
    wanted, began = json.loads(server.wanted_file.read_text()), time.monotonic()
    target, before = str(wanted["release"]), server.release("current")
    # A release that served before and is down now is started by the next boot, if no other one can be restored.
    fallback = before if before != target else server.release("previous") or before
    aside = server.in_its_way(target, wanted.get("instead_of", []))
    answers_before = server.answers(before)  # read first, because the start of another release deletes this proof
    entry = {"when": history.now(), "who": wanted["who"], "server": server.name, "plan": wanted["plan"], "from": before}
    entry |= {"release": target, "image": server.image_of(target), "asked": wanted.get("asked", "")}
    entry |= (of_run := {key: wanted[key] for key in OF_RUN if key in wanted})
    try:
        offered.keep()
    except OSError as problem:  # without the copy, a rollback leaves the gateway's settings unchanged
        print(f"the gateway's settings were not copied: {problem}", file=sys.stderr)
    try:
        if "replay" in wanted and (reason := recording.record(server, before, target, wanted["replay"])):
            entry["not_compared"] = reason
        bring(server, target, before, fallback, aside, of_run)
        entry |= server.compared(target)
        result, reason, again = "serves", "", list[str]()
        entry |= {"answers": server.answers(target), "answers_before": answers_before}
        finish_swap(server, target, before, aside, wanted["keep"])
    except DoesNotServe as problem:
        reason = str(problem)
        entry |= server.compared(target)
        result, again = put_back(server, target, fallback, aside)
    (server.place / REPLAY).unlink(missing_ok=True)
    entry |= {"result": result, "seconds": round(time.monotonic() - began, 1), "reason": reason}
    server.record(entry)
    conclude(server, entry, fallback, again)
    return 0 if result == "serves" else 1


def bring(server: Server, target: str, before: str, fallback: str, aside: list[Server], of_run: dict[str, Any]) -> None:
    """Makes `target` current and serving, with `aside` stopped. Raises DoesNotServe if it does not serve."""
    if not server.has(target):
        raise DoesNotServe(f"release {target} is not on this host")
    if full := disk.full(places.docker_root()):
        raise DoesNotServe(f"the swap did not begin, and nothing was stopped: {full}")
    releases = {neighbour.name: neighbour.release("current") for neighbour in aside}
    cut = {"from": fallback, "to": target, "pid": os.getpid(), "instead_of": releases, **of_run}
    try:
        if before != target:
            server.ready("current", target)
        disk.replace_durably(server.swap_file, json.dumps(cut) + "\n")
    except OSError as problem:
        server.swap_file.unlink(missing_ok=True)  # the file may exist although its directory could not be synced
        raise DoesNotServe(f"the swap did not begin, and nothing was stopped: {problem}") from None
    for neighbour in aside:
        say(f"stopping server {neighbour.name}")
        neighbour.halt()
    if before != target:
        say(f"stopping {before or 'nothing'}")
        server.stop()
        server.point("current", target)
    elif server.show("SubState")["SubState"] == "auto-restart":
        # The unit is between two automatic restarts (the engine was down): this start would count as a failed one.
        server.systemctl("stop", server.unit)
    server.start(target)


def finish_swap(server: Server, target: str, before: str, aside: list[Server], keep: int) -> None:
    """Ends the swap: disables `aside`, makes the release before `previous`, removes unneeded releases."""
    for neighbour in aside:
        neighbour.point("current", "")
    if before and before != target:
        server.point("previous", before)
    server.end_swap()
    server.prune(keep)


def put_back(server: Server, target: str, fallback: str, aside: list[Server]) -> tuple[str, list[str]]:
    """The outcome: "put back", or "stopped" without an earlier release or if the earlier release does not start either.

    The second value has a sentence for each of `aside`: whether it serves again.
    """
    if not server.swap_file.exists():
        return "unchanged", []
    server.stop()
    server.point("current", fallback)
    remember(server, target, str(json.loads(server.wanted_file.read_text()).get("run", "")))
    server.end_swap()
    aside = [neighbour for neighbour in aside if neighbour.release("current")]
    start(aside)  # started first and awaited later: if this process is killed meanwhile, they start all the same
    result = "stopped"
    if fallback not in ("", target) and serves_again(server, fallback):
        result = "put back"
    words = {True: "serves again", False: "did not start again either"}
    return result, [
        f"server {neighbour.name} {words[serves_again(neighbour, neighbour.release('current'))]}" for neighbour in aside
    ]


def remember(server: Server, release: str, run: str) -> None:
    """Records the release that is restored; on a full disk the group's other members notice by their time limit."""
    try:
        disk.replace_durably(server.place / PUT_BACK, json.dumps({"release": release, "run": run}) + "\n")
    except OSError as problem:
        print(f"{PUT_BACK} was not written: {problem}", file=sys.stderr)


def serves_again(server: Server, release: str) -> bool:
    """True if the earlier release serves again; prints the reason if it does not."""
    say(f"putting back {release}")
    try:
        server.start(release)
    except DoesNotServe as problem:
        print(f"{release} does not start either: {problem}", file=sys.stderr)
        return False
    return True


def start(servers: list[Server]) -> None:
    if servers:
        servers[0].systemctl("start", "--no-block", *(unit for server in servers for unit in server.units()))


def undo(server: Server, running: bool) -> None:
    """Restores `current` to its state before an interrupted swap. `running`: its container may still exist."""
    cut = json.loads(server.swap_file.read_text())
    if running:
        server.stop()
    (server.place / REPLAY).unlink(missing_ok=True)
    server.point("current", cut["from"])
    remember(server, cut["to"], str(cut.get("run", "")))
    aside = [Server(name) for name in cut.get("instead_of", {})]
    for neighbour in aside:
        neighbour.point("current", neighbour.release("current") or cut["instead_of"][neighbour.name])
    server.end_swap()
    start(aside)
    entry = {
        "when": history.now(),
        "who": "this host",
        "server": server.name,
        "from": cut["to"],
        "release": cut["from"],
    } | {key: cut[key] for key in OF_RUN if key in cut}
    server.record(entry | {"result": "put back", "reason": "the swap was interrupted"})
    back = [f"{cut['from'] or 'nothing'} is put back"] if cut["from"] or not aside else []
    back += [f"server {neighbour.name} is started again" for neighbour in aside]
    sentence = "; ".join([f"the swap to {cut['to']} was interrupted", *back])
    write_verdict(server, {"result": "cut", "sentence": sentence, "reason": ""})
    print(sentence, file=sys.stderr)


def conclude(server: Server, entry: dict[str, Any], fallback: str, again: list[str]) -> None:
    """Records the verdict for the caller and for the unit's journal."""
    does_not = f"{entry['release']} does not serve"
    stays = "the next boot starts it again"
    neither = stays if fallback == entry["release"] else f"{fallback} did not start again either"
    lost = [*([neither] if fallback else []), *again]
    sentence = "; ".join(
        {
            "serves": [f"{entry['release']} serves"],
            "put back": [does_not, f"{fallback} is put back and serves", *again],
            "unchanged": [f"{entry['release']} was not tried", "the serving release stays in service"],
            "stopped": [does_not, *(lost or ["nothing served before, so the server is stopped"])],
        }[entry["result"]]
    )
    write_verdict(server, entry | {"sentence": sentence})
    print(sentence, file=sys.stderr)
    if entry["reason"]:
        print(entry["reason"], file=sys.stderr)


def write_verdict(server: Server, verdict: dict[str, Any]) -> None:
    """Writes the verdict; on a full disk only the verdict is lost."""
    try:
        disk.replace_durably(server.place / "verdict.json", json.dumps(verdict) + "\n")
    except OSError as problem:
        print(f"the verdict was not written: {problem}", file=sys.stderr)
