"""aiperf in a separate virtual environment, made on first use with the hashes in locks/requirements-bench.lock."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.bench.load import KEY_VARIABLE
from deploy.refusals import Refusal, refuse

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "locks/requirements-bench.lock"
PLACE = ROOT / ".cache/bench"
PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that aiperf 0.13 runs on."""
SPARE_SECONDS = 240
"""Seconds for aiperf's start, its warm-up and the last answers of a run."""
REPORT = "profile_export_aiperf.json"


def environment(place: Path = PLACE, lock: Path = LOCK) -> Path:
    """The aiperf program, installed by the lock; 1.2 GB and a few minutes the first time.

    Raises: a Refusal if no Python version fits, or if pip fails.
    """
    mark, digest = place / ".ready", hashlib.sha256(lock.read_bytes()).hexdigest()
    program = place / "bin/aiperf"
    if mark.is_file() and mark.read_text("utf-8") == digest and program.exists():
        return program
    python = _python()
    for argv in (
        [python, "-m", "venv", "--clear", str(place)],
        [str(place / "bin/pip"), "install", "--disable-pip-version-check", "--require-hashes", "-r", str(lock)],
    ):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise _refused("no-aiperf", "aiperf cannot be installed", done.stderr, f"{' '.join(argv)}")
    mark.write_text(digest, "utf-8")
    return program


def _python() -> str:
    if PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return sys.executable
    for minor in range(PYTHONS[1][1], PYTHONS[0][1] - 1, -1):
        if program := shutil.which(f"python3.{minor}"):
            return program
    raise _refused("no-python", "aiperf runs on Python 3.11 to 3.13", sys.version.split()[0], "install python3.13")


def together(program: Path, configs: Sequence[Mapping[str, Any]], key: str, seconds: float) -> list[dict[str, Any]]:
    """The reports of simultaneous runs, each in its own process.

    The key is in the processes' environment alone. Raises: a Refusal with aiperf's last messages if a run fails.
    """
    with tempfile.TemporaryDirectory(prefix="enginehouse-bench-") as folder:
        running = [_started(program, Path(folder), place, config, key) for place, config in enumerate(configs)]
        try:
            for process in running:
                process.wait(seconds + SPARE_SECONDS)
        except subprocess.TimeoutExpired:
            raise _refused(
                "no-run", "a run of aiperf did not end", _last_errors(Path(folder)), "a longer --seconds"
            ) from None
        finally:
            for process in running:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        return [_report(Path(folder) / str(place)) for place in range(len(configs))]


def _started(program: Path, folder: Path, place: int, config: Mapping[str, Any], key: str) -> subprocess.Popen[bytes]:
    mine = folder / str(place)
    mine.mkdir()
    (mine / "config.yaml").write_text(json.dumps(config), "utf-8")  # JSON is YAML
    argv = [str(program), "profile", "--config", str(mine / "config.yaml"), "--artifact-dir", str(mine / "out")]
    argv += ["--ui", "none", "--no-gpu-telemetry", "--no-server-metrics"]
    environment = os.environ | {"NO_COLOR": "1"} | ({KEY_VARIABLE: key} if key else {})
    with (mine / "log").open("wb") as log:
        return subprocess.Popen(argv, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=mine)


def _report(mine: Path) -> dict[str, Any]:
    try:
        report = json.loads((mine / "out" / REPORT).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise _refused(
            "no-run", "aiperf wrote no report", _last_errors(mine.parent), "enginehouse ask INVENTORY"
        ) from None
    if not isinstance(report, dict) or "request_latency" not in report:
        raise _refused("no-answers", "no request was answered", _last_errors(mine.parent), "enginehouse ask INVENTORY")
    return report


def _last_errors(folder: Path) -> str:
    """The last lines with errors in the logs."""
    lines = [line.strip() for log in sorted(folder.glob("*/log")) for line in log.read_text("utf-8").splitlines()]
    return " | ".join([line for line in lines if "rror" in line][-2:] or lines[-2:])[:600]


def _refused(kind: str, problem: str, seen: str, attempt: str) -> Refusal:
    last = [line for line in seen.strip().splitlines() if line.strip()]
    return refuse(
        kind,
        problem,
        where="enginehouse bench",
        seen=last[-1].strip() if last else "nothing",
        wanted="aiperf, which asks the gateway",
        attempt=attempt,
    )
