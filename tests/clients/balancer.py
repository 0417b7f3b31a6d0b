"""The real HAProxy before the gateway of these tests, with the configuration that the project's roles write.

The clients' environment lacks the roles, so the configuration is the golden file of this HAProxy's branch:
its part for gateways, with other addresses, without TLS and without the agent of a host.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "haproxy"
SECTIONS = ("global\n", "defaults\n", "frontend chat.gateway\n", "backend chat_gateway\n")
START_SECONDS = 20


def branch() -> str:
    """Returns the branch of this machine's HAProxy, or the latest branch with a golden file."""
    words = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=True).stdout.split()
    known = sorted(path.stem.removeprefix("gateway-") for path in GOLDEN.glob("gateway-*.cfg"))
    mine = ".".join(words[2].split(".")[:2])
    return mine if mine in known else known[-1]


def configuration(folder: Path, port: int, gateway_port: int) -> str:
    """Returns the golden file's gateway part with these two ports."""
    whole = (GOLDEN / f"gateway-{branch()}.cfg").read_text()
    parts = re.split(r"\n(?=[a-z]+(?: [\w.]+)?\n {4})", whole)
    text = "\n".join(part if part.startswith(SECTIONS) else table_of(part) for part in parts)
    lua, places = ROOT / "files" / "balancer" / "hold.lua", r"/(?:run|etc)/enginehouse/balancer/"
    for pattern, ours in {
        r"    (?:chroot|user|group) .*\n": "",
        r"    source .*\n": "",
        f"{places}hold.lua": str(lua),
        places: f"{folder}/",
        r"bind \S+ ssl .*": f"bind 127.0.0.1:{port}",
        r"    ssl-default-bind-options .*\n": "",
        r"    server h2\..*": "",
        r"(server h1\.8080) \S+ check port \d+": rf"\1 127.0.0.1:{gateway_port} check port {gateway_port}",
        r" agent-check.*": "",
    }.items():
        text, count = re.subn(pattern, ours, text)
        assert count, f"the golden file has no more what matches {pattern}"
    return text + "\n"


def table_of(section: str) -> str:
    """Returns the stick table of an omitted section, in which other sections count."""
    tables = [line for line in section.splitlines() if line.strip().startswith("stick-table ")]
    name = section.split("\n")[0].split()[-1]
    return "\n".join([f"backend {name}", *tables, ""]) if tables else ""


@contextlib.contextmanager
def balancer(folder: Path, gateway: str) -> Iterator[str]:
    """Yields the URL of an HAProxy that forwards to the gateway at that URL."""
    port = free_port()
    (folder / "state").write_text("1\n")
    file = folder / "haproxy.cfg"
    file.write_text(configuration(folder, port, int(gateway.rpartition(":")[2])))
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(["haproxy", "-f", file], stdout=log, stderr=subprocess.STDOUT)
        try:
            _await(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, "HAProxy ended"
        with contextlib.suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(url):
            return
        time.sleep(0.1)
    raise AssertionError("HAProxy sends to no gateway")
