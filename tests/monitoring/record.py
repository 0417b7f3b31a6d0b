"""Records new scrapes; NODE and BLACKBOX are the programs of Debian's two exporters.

    PYTHONPATH=.:files python -m tests.monitoring.record gateway haproxy triton host=NODE probe=BLACKBOX

Each file of `scrapes/` is an exporter's answer: its first line has the exporter, the place and the time, its second
line the scrape job. Files that begin with `# read` are not recordings: their names and labels come from the source in
that line.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import http.server
import json
import os
import platform
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.unit.certificates import write_certificate

SCRAPES = Path(__file__).parent / "scrapes"


def keep(job: str, source: str, page: str) -> None:
    """Writes this page to scrapes/JOB.prom under its header, without help texts and Go runtime metrics."""
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [line for line in page.splitlines() if not line.startswith("# HELP ")]
    lines = [line for line in lines if not line.removeprefix("# TYPE ").startswith(("go_", "process_", "promhttp_"))]
    (SCRAPES / f"{job}.prom").write_text("\n".join([f"# recorded {today}: {source}", f"# job: {job}", *lines]) + "\n")


def get(address: str, path: str) -> str:
    """Returns the page of an exporter."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
        return str(reply.read().decode())


async def gateway_page(folder: Path) -> None:
    """Records this checkout's gateway after chats, vectors, scores and bad requests, before a small KServe server."""
    from tests.gateway.asking import chat, running_gateway
    from tests.gateway.triton import STATUS, Script

    async with running_gateway(folder) as front:
        for body in (chat(), chat(stream=True), chat(model="nobody")):
            await front.ask("/v1/chat/completions", body)
        await front.ask("/v1/embeddings", {"model": "nomic", "input": ["a", "b"]})
        await front.ask("/v2/rerank", {"model": "bge", "query": "a", "documents": ["a", "b"]})
        front.triton.script = Script(error=(STATUS.INTERNAL, "a fault"))
        await front.chat()
        front.triton.script = Script(error=(STATUS.INTERNAL, "a fault"), error_after=1)
        await front.chat(stream=True)
        page = (await front.ask("/metrics")).body.decode()
    keep("gateway", "files/gateway of this checkout, before the KServe server of its own tests", page)


async def haproxy(folder: Path) -> None:
    """Records the role's HAProxy before two stand-ins of hosts."""
    from tests.roles.balancer.bench import bench

    async with bench() as edge:
        for _ in range(4):
            await edge.ask()
        page = get(f"127.0.0.1:{edge.metrics_port}", "/metrics")
    number = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=True).stdout.split()[2]
    keep("haproxy", f"HAProxy {number} with the configuration of the balancer role, before stand-ins of hosts", page)


async def triton(folder: Path) -> None:
    """Records the real Triton with an embedder, a reranker and the LLM slot over the stand-in of its image."""
    from rehearsal import checkpoints as published
    from roles.triton.defaults import Defaults
    from roles.triton.render import render
    from tests.encoders import checkpoints, real_triton
    from tests.gateway.real import LIMITS, Scene, directly, image, llm, running_gateway

    os.environ["ENGINEHOUSE_LLMAPI"] = str(image(folder))
    published.gpt_oss(folder / "weights", [])
    repository = folder / "models"
    for path, content in render(llm(folder / "weights"), Defaults()).items():
        if path.startswith("models/"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    for kind, name, config in (("embedder", "nomic", checkpoints.NOMIC), ("reranker", "bge_v2", checkpoints.XLMR)):
        path = checkpoints.write(folder / f"{name}-weights", config, checkpoints.weights_for(config))
        more = {"dimensions": 64} if kind == "embedder" else {}
        parameters = {"device": "cpu", "dtype": "fp32", "max_items": "3", "model_path": str(path)}
        real_triton.add_model(repository, kind, name, parameters=parameters, **LIMITS, **more)
    with real_triton.serving(repository, folder) as server:
        scene = Scene(server, folder / "weights")
        (folder / "gateway").mkdir()
        async with running_gateway(scene, folder / "gateway") as front:
            for _ in range(3):
                await front.chat()
        await asyncio.to_thread(directly, scene, "nomic", {"task": "search_query"}, texts=[["a text"]])
        await asyncio.to_thread(directly, scene, "bge_v2", {}, query=[["a"]], passages=[["a text"]])
        await asyncio.sleep(3)  # the models publish once a second
        page = get(server.metrics, "/metrics")
    keep(
        "triton",
        "Triton 2.51 on a CPU with the shipped encoders, and the LLM's slot over the rehearsal's stand-in",
        page,
    )


async def host(folder: Path, program: str) -> None:
    """Records Debian's node-exporter with this project's textfiles, an nvidia-smi and a journal of a few lines."""
    from host import certificates, watch
    from tests.roles.health.test_gpu_state import LINE, Host

    with pytest.MonkeyPatch.context() as patch:
        made = Host(folder, patch)
        made.journal(LINE)
        made.call("metrics")
        (folder / "mutual").mkdir()
        (folder / "mutual/haproxy.cfg").touch()
        for name in ("host", "authority"):
            write_certificate(folder / "mutual", name)
        certificates.main([])
    seen = {
        "models": {"llama": {"misses": 0, "misses_total": 0, "slow": 0, "answer_seconds": 0.2}},
        "restarts_total": 0,
    }
    (folder / "metrics" / "watch-main.prom").write_text(watch.metrics("main", seen))
    words = [f"--collector.textfile.directory={folder / 'metrics'}", "--collector.disable-defaults"]
    collectors = ("cpu", "filesystem", "loadavg", "meminfo", "textfile", "time", "timex", "uname")
    with exporter(program, *words, *(f"--collector.{name}" for name in collectors)) as place:
        page = get(place, "/metrics").replace(platform.node(), "machine")
    page = page.replace(f"{folder}/mutual", "/etc/enginehouse/mutual").replace(str(folder), "/var/lib/enginehouse")
    keep("host", f"{version(program)}, on loopback; this project's textfiles with a stand-in card", page)


async def textfiles(folder: Path) -> None:
    """Writes textfiles of notices and repairs like their programs; node-exporter passes them on unchanged."""
    from host.notices.main import metrics as of_notices
    from host.repair.main import EMPTY
    from host.repair.metrics import metrics as of_repairs

    notices = {"active": None, "standing": ["rebalance"], "totals": {"rebalance": 1}, "cut": 0, "answered": 1.8e9}
    page = of_notices(notices) + of_repairs(EMPTY | {"looked": 1.8e9})
    lines = [line for line in page.splitlines() if not line.startswith("# HELP ")]
    today = datetime.datetime.now(datetime.UTC).date()
    source = "textfiles that files/host/notices and files/host/repair of this checkout write"
    (SCRAPES / "textfiles.prom").write_text(
        "\n".join([f"# read {today}, not recorded: {source}", "# job: host", *lines]) + "\n"
    )


async def probe(folder: Path, program: str) -> None:
    """Records Debian's blackbox-exporter, which asks a small server with a certificate."""
    certificate = write_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    modules = {"gateway": {"prober": "http", "http": {"tls_config": {"insecure_skip_verify": True}}}}
    (folder / "modules.yml").write_text(json.dumps({"modules": modules}))
    with exporter(program, f"--config.file={folder / 'modules.yml'}") as place:
        page = get(place, f"/probe?module=gateway&target=https://127.0.0.1:{server.server_port}/")
    server.shutdown()
    keep("probe", f"{version(program)}, on loopback, asking a small server with a certificate", page)


@contextlib.contextmanager
def exporter(program: str, *words: str) -> Iterator[str]:
    """Runs a program of Debian's; yields its address."""
    (port,) = free_ports(1)
    place = f"127.0.0.1:{port}"
    with subprocess.Popen([program, f"--web.listen-address={place}", *words], stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    get(place, "/metrics")
                    break
                time.sleep(0.1)
            yield place
        finally:
            process.terminate()


def version(program: str) -> str:
    """Returns the program's name and version, and the system's."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    number = (done.stdout + done.stderr).split()[2].strip(",")
    return f"{Path(program).name} {number} of {platform.freedesktop_os_release()['PRETTY_NAME']}"


if __name__ == "__main__":
    for recording in sys.argv[1:]:
        name, _, argument = recording.partition("=")
        with tempfile.TemporaryDirectory() as place:
            asyncio.run(globals()[name](Path(place), *([argument] if argument else [])))
