"""Malformed requests to a real gateway behind the real HAProxy: `python -m tests.roles.balancer.malformed_stories`.

Prints JSON: by case, its end, the gateway's statuses, and the status of another tenant's later request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from roles._shipping.texts import HERE
from tests.gateway.asking import KEY, OTHER_KEY, key_line, settings
from tests.gateway.triton import Triton, serving
from tests.gateway.weights import written
from tests.roles.balancer.bench import Bench, bench, free_ports, until
from tests.roles.balancer.frames import GOAWAY, HEADERS, RST_STREAM, frames_of, status_of
from tests.roles.balancer.gateway_stories import certificate
from tests.roles.balancer.gateways import response_to, sent_to_gateways
from tests.roles.balancer.malformed import CASES, Case
from tests.roles.balancer.standins import Host

SECONDS = 3.0
"""Seconds for the answer to a case. No answer within them counts as refused."""
OTHERS = f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n"
ENDS = {HEADERS: "status", RST_STREAM: "reset", GOAWAY: "closed"}


@contextlib.asynccontextmanager
async def front(folder: Path) -> AsyncIterator[tuple[Bench, Path, Path]]:
    """A balancer before one gateway process; its certificate, and the gateway's log."""
    keys, log = folder / "keys.json", folder / "gateway.log"
    keys.write_text(json.dumps({"keys": [key_line(KEY, "acme"), key_line(OTHER_KEY, "umbrella")]}))
    (port,) = free_ports(1)
    pem = certificate(folder)
    async with serving(Triton()) as triton:
        gateway_settings = settings([triton.address], written(folder / "weights"), keys, listen={"ports": [port]})
        (folder / "settings.json").write_text(json.dumps(gateway_settings))
        words = [sys.executable, "-m", "gateway", "serve", str(folder / "settings.json")]
        environment = {**os.environ, "PYTHONPATH": str(HERE / "files")}
        with log.open("wb") as output:
            process = subprocess.Popen(words, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:

            async def give_gateway(hosts: list[Host]) -> None:
                hosts[0].gateway = SimpleNamespace(port=port)

            await until(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/health").status == 200)
            async with bench(1, certificate=str(pem), prepare=give_gateway) as edge:
                await sent_to_gateways(edge, *edge.hosts)
                yield edge, pem, log
        finally:
            process.terminate()
            process.wait()


async def ended(edge: Bench, pem: Path, case: Case) -> str:
    """The end of the case: the answers' statuses, a reset stream, a closed connection, or none within the time."""
    context = ssl.create_default_context(cafile=str(pem))
    context.set_alpn_protocols(["h2" if case.h2 else "http/1.1"])
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", edge.gateway_port, ssl=context, server_hostname="localhost"
    )
    received = b""
    try:
        async with asyncio.timeout(SECONDS):
            writer.write(case.sent)
            while part := await reader.read(2**16):
                received += part
                if end := outcome(case, received):
                    return end
    except TimeoutError:
        return "silent"
    except (OSError, ssl.SSLError):
        return outcome(case, received) or "closed"
    finally:
        writer.transport.abort()
    return outcome(case, received, is_over=True) or "closed"


def outcome(case: Case, received: bytes, is_over: bool = False) -> str:
    """The outcome according to the bytes so far; "" if more are needed."""
    if case.h2 and not received.startswith(b"HTTP/"):
        for kind, _, _, payload in frames_of(received):
            if kind in ENDS:
                return f"status {status_of(payload)}" if kind == HEADERS else ENDS[kind]
        return ""
    statuses = [part[:3].decode() for part in received.split(b"HTTP/1.1 ")[1:]]
    final = [status for status in statuses if status != "100"]
    return f"status {' '.join(final)}" if final and (is_over or len(final) >= max(case.requests, 1)) else ""


def lines(log: Path) -> list[dict[str, Any]]:
    """The gateway's audit: a line for each request that it received."""
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"time"')]


def is_idle(edge: Bench) -> bool:
    """True if the gateway has no open request: each has its line in the audit."""
    with urllib.request.urlopen(f"http://127.0.0.1:{edge.hosts[0].gateway.port}/metrics") as answer:
        page = answer.read().decode()
    counts = [line.split()[-1] for line in page.splitlines() if line.startswith("enginehouse_gateway_running{")]
    return bool(counts) and not any(float(count) for count in counts)


async def seen(edge: Bench, pem: Path, log: Path, case: Case) -> dict[str, Any]:
    """The outcome of a case, and of another tenant's request after it."""
    before = len(lines(log))
    how = await ended(edge, pem, case)
    others, _ = await response_to(edge, pem, OTHERS)
    await until(lambda: is_idle(edge) and any(line["tenant"] == "acme" for line in lines(log)[before:]))
    statuses = [line["status"] for line in lines(log)[before:] if line["tenant"] != "acme"]
    return {"ended": how, "statuses": statuses, "others": others}


async def run(names: list[str]) -> dict[str, Any]:
    """Runs every case, one after the other, so that the gateway's counts belong to one case."""
    with tempfile.TemporaryDirectory() as folder:
        async with front(Path(folder)) as (edge, pem, log):
            chosen = [case for case in CASES if not names or case.name in names]
            return {case.name: await seen(edge, pem, log, case) for case in chosen}


if __name__ == "__main__":
    os.environ.pop("NOTIFY_SOCKET", None)
    print(json.dumps(asyncio.run(run(sys.argv[1:]))))
