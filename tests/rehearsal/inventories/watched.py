"""The rehearsal with a small server, a frequent watchdog, and, with SECOND=1, another release of it."""

import os as _os
from dataclasses import replace as _replace
from typing import Any as _Any

from deploy.spec import Server as _Server
from tests.rehearsal.variants import hosts as _hosts


def _small(data: dict[str, _Any]) -> tuple[_Server, ...]:
    server = data["servers"][0]
    models = tuple(model for model in server.models if model.name in ("minilm", "gpt-oss-tiny"))
    shm_mib = 2048 if _os.environ.get("SECOND") else 1024
    return (_replace(server, models=models, stop_seconds=10, shm_mib=shm_mib),)


rehearsal = _hosts(
    lambda data, _: {
        "servers": _small(data),
        "health_settings": {"watch_seconds": 3, "answer_seconds": 3, "misses": 2, "gpu_state_seconds": 5},
    }
)
