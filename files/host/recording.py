"""Records the answers and the speed of the running LLM, before a swap stops it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from host import disk, places, prove, prove_llm, replies, systemd
from host.promotion import FILE
from host.server import DoesNotServe, Server


def record(server: Server, before: str, target: str, replay: dict[str, Any]) -> str:
    """The reason why the LLM of `target` has no predecessor for a comparison; empty once its answers are recorded.

    Raises DoesNotServe, before any change, if the predecessor serves but does not answer.
    """
    model = str(replay["model"])
    if reason := why_not(server, before, target, model):
        return reason
    served = json.loads((places.release(before) / "server.json").read_text())
    if is_beside(served, model):
        engine: prove.Triton = prove_llm.Engine(served, server.name)
        dialect: replies.Dialect = replies.Completions(model, served["llm"]["runtime"])
    else:
        engine, dialect = prove.Triton(served, server.name), replies.Generate(in_triton(served, model))
    try:
        measured = replies.measure(engine, dialect, replay, time.monotonic() + served["start_seconds"])
        write(server.place / FILE, json.dumps({"release": target, "replay": replay, "before": measured}) + "\n")
    except (replies.Unanswered, prove.NotServing) as problem:
        raise DoesNotServe(f"{model}, which serves, does not answer the replay ({problem})") from None
    except OSError as problem:
        raise DoesNotServe(f"the answers of {model} could not be recorded ({problem})") from None
    return ""


def why_not(server: Server, before: str, target: str, model: str) -> str:
    """The reason why there is nothing to compare with; empty otherwise."""
    if not before or before == target or not server.has(before):
        return f"no other release served {model} before"
    if not server.has(target):
        return f"release {target} is not on this host"
    served = json.loads((places.release(before) / "server.json").read_text())
    beside = is_beside(served, model)
    if not beside and not in_triton(served, model):
        return f"{before} did not serve {model}"
    unit = server.llm if beside else server.unit
    if systemd.show(unit, "ActiveState")["ActiveState"] != "active":
        return f"{unit} was not running"
    if files_of(before, model) == files_of(target, model):
        return f"{model} is unchanged"
    return ""


def is_beside(served: dict[str, Any], model: str) -> bool:
    return bool(served.get("llm", {}).get("name") == model)


def in_triton(served: dict[str, Any], model: str) -> dict[str, Any]:
    return next((row for row in served.get("models", []) if (row["name"], row["kind"]) == (model, "llm")), {})


def files_of(release: str, model: str) -> dict[str, bytes]:
    """The files with which a release serves the model, and the image of a model that Triton serves."""
    folder = places.release(release)
    roots = [folder / "llm", *(folder / "models").glob(f"{model}*")]
    files = {str(file.relative_to(folder)): file.read_bytes() for root in roots for file in sorted(root.rglob("*"))
             if file.is_file()}  # fmt: skip
    served = json.loads((folder / "server.json").read_text())
    return files | ({} if is_beside(served, model) else {"image": json.dumps(served["image"]).encode()})


def write(path: Path, content: str) -> None:
    """Writes the file, readable by root only."""
    path.unlink(missing_ok=True)
    os.close(os.open(new := path.with_name(f".{path.name}.new"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
    disk.write(new, content.encode())
    new.rename(path)
