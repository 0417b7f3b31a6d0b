#!/usr/bin/python3
"""Changes which release a Triton server serves, as a transaction that lives on the host.

    swap.py swap SERVER       stop, switch `current`, start, load, prove; whatever fails: put back what served before
    swap.py undo SERVER       after a swap that was killed: put back, and start it (ExecStopPost of the swap's unit)
    swap.py recover SERVER    the same before a start, without starting (ExecCondition of triton@: power cut, reboot)

In /var/lib/enginehouse/servers/SERVER: wanted.json (asked for), swap.json (exists while a swap is under way, and so
tells a cut one), verdict.json (how the last one ended), lock. One line per swap goes to ../../history.jsonl.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(os.environ.get("ENGINEHOUSE_ROOT", "/var/lib/enginehouse"))
LAST_LINES = 20


class Stays(Exception):
    """The wanted release does not serve; the text says why."""


def main() -> int:
    verb, name = sys.argv[1:]
    server = Server(name)
    with server.locked(wait=verb == "swap") as mine:
        if not mine:
            return 0  # a swap is under way and knows what it does
        if verb == "swap":
            return swap(server)
        cut = server.swap_file.exists()
        if cut:
            undo(server, running=verb == "undo")
        if verb == "recover":
            return 0 if server.release("current") else 1
        if cut and server.release("current"):
            server.systemctl("start", "--no-block", server.unit)
        return 0


def swap(server: Server) -> int:
    """0 when the wanted release serves. Else what served before serves again, and the verdict says why."""
    if server.swap_file.exists():
        undo(server, running=True)
    (server.place / "verdict.json").unlink(missing_ok=True)
    wanted, began = json.loads(server.wanted_file.read_text()), time.monotonic()
    target, before = server.resolved(wanted["release"]), server.release("current")
    fallback = before if before != target else server.release("previous")
    entry = {"when": now(), "who": wanted["who"], "server": server.name, "plan": wanted["plan"], "from": before}
    entry |= {"release": target, "image": server.image_of(target)}
    try:
        bring(server, target, before, fallback)
        result, reason = "serves", ""
        settle(server, target, before, wanted["keep"])
    except Stays as problem:
        reason = str(problem)
        result = put_back(server, fallback)
    entry |= {"result": result, "seconds": round(time.monotonic() - began, 1), "reason": reason}
    server.record(entry)
    tell(server, entry, fallback)
    return 0 if result == "serves" else 1


def bring(server: Server, target: str, before: str, fallback: str) -> None:
    """`target` is current and serves. Raises Stays when it does not."""
    if not target:
        raise Stays("this server keeps none; deploy.py brings the release that the inventory names")
    if not (ROOT / "releases" / target / "server.json").exists():
        raise Stays(f"release {target} is not on this host")
    write(server.swap_file, {"from": fallback, "to": target, "pid": os.getpid()})
    if before != target:
        say(f"stopping {before or 'nothing'}")
        server.systemctl("stop", server.unit)
        server.point("current", target)
    elif server.show("SubState")["SubState"] == "auto-restart":
        # Between two tries of its own (the engine was down): a start on top of it would be counted as a failed one.
        server.systemctl("stop", server.unit)
    server.start(target)


def settle(server: Server, target: str, before: str, keep: int) -> None:
    """The swap is over: what served before is `previous`, and releases nobody will ask for are gone."""
    if before and before != target:
        server.point("previous", before)
    server.over()
    server.prune(keep)


def put_back(server: Server, fallback: str) -> str:
    """What happened instead: "put back", or "stopped" where nothing served before or it does not start either."""
    if not server.swap_file.exists():
        return "unchanged"
    server.systemctl("stop", server.unit)
    server.point("current", fallback)
    server.over()
    if not fallback:
        return "stopped"
    try:
        say(f"putting back {fallback}")
        server.start(fallback)
        return "put back"
    except Stays as problem:
        print(f"{fallback} does not start either: {problem}", file=sys.stderr)
        return "stopped"


def undo(server: Server, running: bool) -> None:
    """`current` is again what it was before a cut swap. `running`: the cut one's container may still be there."""
    cut = json.loads(server.swap_file.read_text())
    if running:
        server.systemctl("stop", server.unit)
    server.point("current", cut["from"])
    server.over()
    entry = {"when": now(), "who": "this host", "server": server.name, "from": cut["to"], "release": cut["from"]}
    server.record(entry | {"result": "put back", "reason": "the swap was cut before it ended"})
    sentence = f"the swap to {cut['to']} was cut before it ended; {cut['from'] or 'nothing'} is put back"
    write(server.place / "verdict.json", {"result": "cut", "sentence": sentence, "reason": ""})
    print(sentence, file=sys.stderr)


def tell(server: Server, entry: dict, fallback: str) -> None:
    """The verdict, for whoever asked and for the unit's journal."""
    sentence = {
        "serves": f"{entry['release']} serves",
        "put back": f"{entry['release']} does not serve; {fallback} is put back and serves",
        "unchanged": f"{entry['release'] or 'an earlier release'} was not tried; what served goes on",
        "stopped": f"{entry['release']} does not serve; "
        + (f"{fallback} did not start again either" if fallback else "nothing served before, so the server is stopped"),
    }[entry["result"]]
    write(server.place / "verdict.json", entry | {"sentence": sentence})
    print(sentence, file=sys.stderr)
    if entry["reason"]:
        print(entry["reason"], file=sys.stderr)


class Server:
    """One server's place on the host."""

    def __init__(self, name: str) -> None:
        self.name, self.unit = name, f"triton@{name}.service"
        self.place = ROOT / "servers" / name
        self.swap_file, self.wanted_file = self.place / "swap.json", self.place / "wanted.json"

    @contextlib.contextmanager
    def locked(self, wait: bool):
        """True while this process alone may switch. The kernel gives the lock up with the process, however it ends."""
        with (self.place / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                yield True
            except BlockingIOError:
                yield False

    def release(self, link: str) -> str:
        """The release a link names; empty without one."""
        path = self.place / link
        return Path(os.readlink(path)).name if path.is_symlink() else ""

    def resolved(self, wanted: str) -> str:
        """A release id as it is; the word `previous` as what it names now."""
        return self.release("previous") if wanted == "previous" else wanted

    def image_of(self, release: str) -> str:
        path = ROOT / "releases" / release / "server.json"
        return json.loads(path.read_text())["image"]["pull_reference"] if path.exists() else ""

    def point(self, link: str, release: str) -> None:
        """The link names the release, replaced by rename; without a release there is no link."""
        path, new = self.place / link, self.place / f".{link}.new"
        new.unlink(missing_ok=True)
        if release:
            new.symlink_to(Path("../../releases") / release)
            new.rename(path)
        else:
            path.unlink(missing_ok=True)
        flush(self.place)

    def over(self) -> None:
        """No swap is under way, also after a power cut: one that has ended well must not be undone then."""
        self.swap_file.unlink()
        flush(self.place)

    def start(self, release: str) -> None:
        """The unit is active: every model has answered. Raises Stays with the reason and the last lines."""
        (self.place / "proof.json").unlink(missing_ok=True)
        restarts = self.show("NRestarts")["NRestarts"]
        self.systemctl("reset-failed", self.unit)
        self.systemctl("start", "--no-block", self.unit)
        seconds = json.loads((ROOT / "releases" / release / "server.json").read_text())["start_seconds"]
        until, invocation, told = time.monotonic() + seconds + 60, "", ""
        while time.monotonic() < until:
            seen = self.show("ActiveState", "SubState", "NRestarts", "InvocationID", "StatusText", "Job")
            invocation = seen["InvocationID"] or invocation
            if seen["ActiveState"] == "active":
                return
            over = seen["ActiveState"] in ("failed", "inactive") or seen["SubState"] == "auto-restart"
            if (over and seen["Job"] in ("", "0")) or seen["NRestarts"] not in (restarts, "0"):
                break
            if seen["StatusText"] != told:
                told = seen["StatusText"]
                say(f"{release}: {told}")
            time.sleep(0.5)
        self.systemctl("stop", self.unit)
        raise Stays(self.why(release, invocation))

    def why(self, release: str, invocation: str) -> str:
        """What the proof said, and the last lines of the container."""
        reason = ""
        with contextlib.suppress(OSError, ValueError):
            proof = json.loads((self.place / "proof.json").read_text())
            reason = proof["reason"] if proof["release"] == release else ""
        lines = ["journalctl", "-q", "-o", "cat", "-n", str(LAST_LINES), f"_SYSTEMD_INVOCATION_ID={invocation}"]
        log = subprocess.run(lines, capture_output=True, text=True, check=False).stdout.strip() if invocation else ""
        said = "\n".join(f"  | {line.strip()[:200]}" for line in log.splitlines() if line[:1] not in "|+")
        return f"{reason or 'its unit did not become active'}\n{said}".strip()

    def systemctl(self, *arguments: str) -> None:
        """Asks systemd; what becomes of it is looked at afterwards."""
        subprocess.run(["systemctl", *arguments], check=False, stderr=subprocess.DEVNULL)

    def show(self, *properties: str) -> dict[str, str]:
        """The unit's properties."""
        asked = ["systemctl", "show", "-p", ",".join(properties), self.unit]
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        found = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        return {each: found.get(each, "") for each in properties}

    def record(self, entry: dict) -> None:
        """One line of history."""
        with (ROOT / "history.jsonl").open("a") as history:
            history.write(json.dumps(entry) + "\n")
            history.flush()
            os.fsync(history.fileno())

    def prune(self, keep: int) -> None:
        """Of this server's releases that are neither current nor previous, the newest `keep` stay."""
        kept = {self.release("current"), self.release("previous")}
        old = []
        for path in (ROOT / "releases").iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError):
                server = json.loads((path / "server.json").read_text())["server"]
                if server == self.name and path.name not in kept and not path.name.startswith("."):
                    old.append((path.stat().st_mtime, path))
        for _, path in sorted(old, reverse=True)[keep:]:
            shutil.rmtree(path)
            shutil.rmtree(ROOT / "cache" / path.name, ignore_errors=True)


def write(path: Path, content: dict) -> None:
    """The file holds `content` even if the power goes now."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as handle:
        handle.write(json.dumps(content) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    new.rename(path)
    flush(path.parent)


def flush(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def say(status: str) -> None:
    """The unit's status line."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.send(f"STATUS={status}".encode())


if __name__ == "__main__":
    sys.exit(main())
