"""Checks an engine's directory against its signature; runs before every load.

    host engine verify DIRECTORY [--quick] [--signers FILE] [--image SHA256:…]
        exit 1: one sentence per problem; exit 2: this host cannot check (no signers, no ssh-keygen, an unreadable disk)
    host engine refuse DIRECTORY WHY     moves it to DIRECTORY.refused; the next deploy builds or fetches it again

The signature covers engine.json, and engine.json names every file with its size and sha256. `--quick` skips the
checksums: a few milliseconds instead of reading every byte.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from host import history
from host.disk import flush, sha256

SIGNERS = Path(os.environ.get("ENGINEHOUSE_SIGNERS", "/etc/enginehouse/engine_signers"))
RECORD, SIGNATURE = "engine.json", "engine.json.sig"
PRINCIPAL, NAMESPACE = "enginehouse", "enginehouse-engine"
# Files beside an engine that are never loaded, so the signature need not cover them.
BESIDE = {RECORD, SIGNATURE, "build.log", "answers.jsonl", "reference.jsonl"}
FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def main(arguments: list[str]) -> int:
    """0 if the engine may be loaded, or was moved aside; 1 if it may not be loaded; 2 if this host cannot check it."""
    options = parsed(arguments)
    if options.verb == "refuse":
        print(refuse(options.directory, options.why), file=sys.stderr)
        return 0
    try:
        wrong = problems(options.directory, options.quick, options.signers, options.image)
    except OSError as trouble:
        print(f"{options.directory} cannot be checked here: {trouble}", file=sys.stderr)
        return 2
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="engine", description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verify = verbs.add_parser("verify", allow_abbrev=False)
    verify.add_argument("directory", type=Path)
    verify.add_argument("--quick", action="store_true", help="sizes and signature only, no checksums")
    verify.add_argument("--signers", type=Path, default=SIGNERS, help="whose signatures count")
    verify.add_argument("--image", default="", help="digest of the image that is going to load it")
    verb = verbs.add_parser("refuse", allow_abbrev=False)
    verb.add_argument("directory", type=Path)
    verb.add_argument("why")
    return parser.parse_args(arguments)


def problems(directory: Path, quick: bool, signers: Path, image: str = "") -> list[str]:
    """A sentence for each fault of the engine; empty if it may be loaded. Raises OSError if its state is unknown."""
    try:
        text = (directory / RECORD).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return [f"{directory}: {RECORD} is missing, so the engine is unknown"]
    if problem := unsigned(directory, text, signers):
        return [f"{directory}: {problem}"]
    try:
        record = json.loads(text)
        wrong = [*misplaced(directory, record, image), *differing(directory, record["files"], quick)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        return [f"{directory}: {RECORD} is not a record of an engine ({type(problem).__name__}: {problem})"]
    return [f"{directory}: {problem}" for problem in wrong]


def unsigned(directory: Path, text: bytes, signers: Path) -> str:
    """The reason why the signature does not make this engine loadable; empty if it does."""
    signature = directory / SIGNATURE
    if not signature.is_file():
        return f"{SIGNATURE} is missing: nobody has signed this engine"
    if not signers.is_file():
        raise FileNotFoundError(f"{signers} is missing, so this host cannot check any signature")
    keygen = ["ssh-keygen", "-Y"]
    what = ["-n", NAMESPACE, "-s", str(signature)]
    if exit_status([*keygen, "verify", "-f", str(signers), "-I", PRINCIPAL, *what], text) == 0:
        return ""
    if exit_status([*keygen, "check-novalidate", *what], text) == 0:
        return f"it is signed with a key that is not in {signers}"
    return f"{SIGNATURE} does not match {RECORD}: one of the two was changed"


def exit_status(argv: list[str], text: bytes) -> int:
    return subprocess.run(argv, input=text, capture_output=True, check=False).returncode


def misplaced(directory: Path, record: dict[str, Any], image: str) -> list[str]:
    """A sentence for a signed engine in another engine's place, or under another image than that of its build."""
    wrong = []
    if FINGERPRINT.fullmatch(directory.name) and record["fingerprint"] != directory.name:
        wrong.append(f"{RECORD} is that of engine {record['fingerprint']}")
    if image and record["built"]["image_digest"] != image:
        wrong.append(f"it was built with image {record['built']['image_digest']}, and {image} is to load it")
    return wrong


def differing(directory: Path, files: dict[str, Any], quick: bool) -> list[str]:
    """A sentence for each file that is missing, superfluous, or not as recorded."""
    here = {str(path.relative_to(directory)) for path in directory.rglob("*") if not is_directory(path)}
    wrong = [f"{name} is not in {RECORD}" for name in sorted(here - set(files) - BESIDE)]
    if not any(name.endswith(".engine") for name in files):
        wrong.append(f"{RECORD} names no engine file")
    with ThreadPoolExecutor(4) as pool:
        differences = pool.map(lambda name: difference(directory / name, files[name], quick), sorted(files))
        wrong += [f"{name} {problem}" for name, problem in zip(sorted(files), differences, strict=True) if problem]
    return wrong


def is_directory(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def difference(path: Path, recorded: dict[str, Any], quick: bool) -> str:
    """The fault of a file; empty if it is as recorded. A link is always a fault."""
    try:
        status = path.lstat()
    except OSError:
        return "is missing"
    if not stat.S_ISREG(status.st_mode):
        return "is no plain file"
    if status.st_size != recorded["bytes"]:
        return f"has {status.st_size:,} bytes and should have {recorded['bytes']:,}"
    if not quick and sha256(path) != recorded["sha256"]:
        return "has the right size, but its content differs from the signed content"
    return ""


def refuse(directory: Path, why: str) -> str:
    """Moves the directory aside, with the reason beside its files, and replaces an earlier refused one."""
    aside = directory.with_name(f"{directory.name}.refused")
    if not directory.is_dir():
        return f"{directory} does not exist, so it cannot be moved aside"
    if aside.exists():
        shutil.rmtree(aside)
    directory.rename(aside)
    record = {"when": history.now(), "why": why}
    (aside / "why.json").write_text(json.dumps(record, indent=2) + "\n")
    flush(directory.parent)
    return f"{directory}: not loaded, and moved to {aside.name}: {why}"
