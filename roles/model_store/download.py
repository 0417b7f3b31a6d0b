"""Fetches one hub repository into a directory; run as a separate process by `operations`.

    python download.py      the request as JSON on standard input, token included; prints one line of JSON

pyinfra makes every socket of its process cooperative (gevent), and huggingface_hub downloads in threads: together they
truncated answers, once in five runs. A separate process avoids that, and the token is in no argument.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ABANDONED_SECONDS = 600
"""Seconds without a write, after which a download counts as abandoned."""


def main() -> int:
    """Zero if there is an answer: `{}` if all files are present, else the message and its HTTP status."""
    request: dict[str, Any] = json.load(sys.stdin)
    if request["ca_file"]:
        os.environ["SSL_CERT_FILE"] = request["ca_file"]
    from huggingface_hub import snapshot_download

    forget_killed(Path(request["target"]))
    try:
        snapshot_download(
            request["repository"],
            revision=request["revision"],
            allow_patterns=request["files"],
            local_dir=request["target"],
            endpoint=request["endpoint"],
            token=request["token"] or False,
        )
    except OSError as problem:  # the base of every huggingface_hub error that an operator can solve
        lines = [line for line in str(problem).splitlines() if line.strip()]
        status = getattr(getattr(problem, "response", None), "status_code", 0)
        print(json.dumps({"said": lines[0] if lines else type(problem).__name__, "status": status}))
        return 0
    print("{}")
    return 0


def forget_killed(target: Path) -> None:
    """Removes partial files of a killed download: huggingface_hub starts again under another name."""
    for path in target.glob(".cache/huggingface/download/**/*.incomplete"):
        if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
