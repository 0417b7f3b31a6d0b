"""Reports the state of this host's servers: release and start of each, and whether its models answer.

    host tell SERVER…          the release of each; sends no request to a model
    host tell --ask SERVER…    also sends every model its test request, as `prove` does

Prints one line of JSON for each server: {"server", "release", "active", "invocation", "swap": the last verdict,
"problem": the fault in its answers, else empty}. Changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from host import systemd
from host.server import Server

ANSWER_SECONDS = 50


def main(arguments: list[str]) -> int:
    """Returns 0 after the report, 64 if no server is named."""
    asks = arguments[:1] == ["--ask"]
    names = arguments[int(asks) :]
    if not names:
        print("no server is named: host tell [--ask] SERVER…", file=sys.stderr)
        return 64
    for name in names:
        print(json.dumps(stand(Server(name), asks)), flush=True)
    return 0


def stand(server: Server, asks: bool) -> dict[str, Any]:
    """The state of a server; a server that this host never had serves nothing."""
    unit = systemd.show(server.unit, "ActiveState", "InvocationID")
    record: dict[str, Any] = {"server": server.name, "release": server.release("current")}
    record |= {"active": unit["ActiveState"], "invocation": unit["InvocationID"]}
    record |= {"swap": verdict(server), "problem": ""}
    if asks and record["active"] == "active":
        record["problem"] = problem(server)
    return record


def verdict(server: Server) -> dict[str, Any]:
    """The verdict of the last swap; empty if there was none."""
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        return dict(json.loads((server.place / "verdict.json").read_text()))
    return {}


def problem(server: Server) -> str:
    """The problem of the first model without a correct answer; empty if all answer."""
    from host import prove  # imported here, because a report without test requests needs no HTTP client
    from host.watch import Asker, answered

    served = json.loads((server.place / "current" / "server.json").read_text())
    asker = Asker(served, server.name, ANSWER_SECONDS)
    for model in served["models"]:
        before = answered(asker, model)
        try:
            prove.QUESTIONS[model["kind"]](asker, model)
        except prove.NoRoom:
            continue  # a full queue proves that the server has clients
        except prove.NotServing as wrong:
            return str(wrong)
        except OSError as silence:
            after = answered(asker, model)
            if before is None or after is None or after <= before:
                return f"{model['name']} does not answer ({silence})"
        except prove.MALFORMED as unread:
            return f"{model['name']} answers in an unknown form ({type(unread).__name__})"
    return ""
