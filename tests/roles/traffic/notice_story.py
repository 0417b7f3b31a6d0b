"""A host of a pool is reclaimed by its cloud under load; `python -m tests.roles.traffic.notice_story CLOUD` prints it.

Real: HAProxy with the role's configuration, the program that asks for notices, the drain of the traffic service.
Stand-ins: the metadata service, systemd and Triton. It is a separate process, like tests/roles/balancer/stories.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from host import places
from host.traffic.service import Service
from host.traffic.state import Unit, hold_of
from rehearsal.metadata import metadata
from roles._shipping.texts import HERE
from tests.roles.balancer.bench import Bench, bench, until
from tests.roles.balancer.standins import Host

NOTICE_SECONDS = {"aws": 20, "gcp": 30, "azure": 20}
"""Seconds of notice. Google's length is fixed; AWS is asked every five seconds."""
MARGIN_SECONDS = 5
SYSTEMCTL = '#!/bin/sh\necho "$*" >>"$ENGINEHOUSE_ROOT/systemctl"\n'


async def story(kind: str) -> dict[str, Any]:
    """Requests of all kinds while h1 drains: short requests throughout, a long request that ends in time, and a
    request that never ends."""
    async with bench() as edge:
        first, second = edge.hosts
        places.ROOT = edge.folder
        service = Service({"main": ["llm"]}, units={"main": Unit(True, "first", 0.0)})
        requests = await placed(edge)
        with metadata(kind) as cloud:
            program = started(edge, kind, cloud.url)
            agent = asyncio.create_task(spoken(service, first))
            try:
                await until(lambda: len(cloud.asked_for) >= 2)
                short, is_over = list[asyncio.Task[str]](), asyncio.Event()
                loading = asyncio.create_task(loaded(edge, short, is_over))
                await until(lambda: len(short) >= 50)
                cloud.notice(seconds=NOTICE_SECONDS[kind])
                await until(lambda: edge.states()["chat_http/h1.main"] == "DRAIN")
                before, sent = first.counts["http"], len(short)
                await until(lambda: len(short) >= sent + 50)
                new_at_the_drained = first.counts["http"] - before
                first.gate.release()
                await until(lambda: stopped(edge.folder))
                is_answered_first = requests["long"].done()
                await first.stop()
                requests["endless"].cancel()
                for _ in range(2):
                    second.gate.release()
                is_over.set()
                await loading
                answers = Counter(await asyncio.gather(*short, requests["more"], requests["most"]))
            finally:
                agent.cancel()
                program.terminate()
                program.wait()
        lines = [json.loads(line) for line in (edge.folder / "history.jsonl").read_text().splitlines()]
        return {
            "lost": sum(count for answer, count in answers.items() if answer not in ("h1", "h2")),
            "load": len(short) > 100 and set(answers) == {"h1", "h2"},
            "new at the drained": new_at_the_drained,
            "long answer": (is_answered_first, await requests["long"]),
            "history": [(line["result"], line["notice"]) for line in lines],
            "cut": json.loads((edge.folder / "notices/state.json").read_text())["cut"],
            "systemctl": (edge.folder / "systemctl").read_text().splitlines(),
        }


def started(edge: Bench, kind: str, url: str) -> subprocess.Popen[bytes]:
    """The program on h1, as its unit starts it."""
    folder = edge.folder
    settings = {"cloud": kind, "metadata": url, "margin_seconds": MARGIN_SECONDS}
    (folder / "notices.json").write_text(json.dumps(settings))
    balancers = [{"name": "edge", "metrics": f"http://127.0.0.1:{edge.metrics_port}/metrics"}]
    seen_as = ["chat_http/h1.main", "chat_grpc/h1.main"]
    traffic = {"servers": {"main": {"models": ["llm"], "seen_as": seen_as}}, "balancers": balancers}
    (folder / "traffic.json").write_text(json.dumps(traffic | {"drain_seconds": 600, "heard_seconds": 10}))
    (folder / "bin").mkdir()
    (folder / "bin/systemctl").write_text(SYSTEMCTL)
    (folder / "bin/systemctl").chmod(0o755)
    variables = {f"ENGINEHOUSE_{name}": str(folder) for name in ("ROOT", "SETTINGS", "RUNTIME")}
    environment = {**os.environ, **variables, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    words = [sys.executable, "-B", str(HERE / "files/host"), "notices", "serve"]
    return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)


async def spoken(service: Service, host: Host) -> None:
    """The host's agent answers by the traffic service's holds."""
    while True:
        service.holds |= {"main": hold_of("main")}
        host.word = service.agent("main")
        await asyncio.sleep(0.2)


async def loaded(edge: Bench, answers: list[asyncio.Task[str]], is_over: asyncio.Event) -> None:
    """Sends short requests throughout."""
    while not is_over.is_set():
        answers.append(asyncio.create_task(edge.ask()))
        await asyncio.sleep(0.05)


async def placed(edge: Bench) -> dict[str, asyncio.Task[str]]:
    """Two requests on each host: `long` waits for the gate of h1, and `endless` for ever."""
    first, second = edge.hosts
    requests = dict[str, asyncio.Task[str]]()
    for host, away, names in ((first, second, ("long", "endless")), (second, first, ("more", "most"))):
        host.word, away.word = "ready", "drain"
        await until(edge.sent_to(host))
        for name in names:
            taken_on = host.counts["http"]
            requests[name] = asyncio.create_task(edge.ask("/never" if name == "endless" else f"/gated/{name}"))
            await until(lambda host=host, taken_on=taken_on: host.counts["http"] > taken_on)
    first.word = "ready"
    await until(edge.sent_to(first, second))
    return requests


def stopped(folder: Path) -> bool:
    """True once the program has stopped the host's servers."""
    return (folder / "systemctl").exists()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(story(sys.argv[1]))))
