"""The rehearsal's machines with their GPU cut in two: one instance for the LLM, one for the encoders."""

from dataclasses import replace
from pathlib import Path

from tests.rehearsal.variants import Data, hosts


def _cut(data: Data, _: Path) -> Data:
    (main,) = data["servers"]
    *encoders, llm = main.models
    ports = {"http_port": 8100, "grpc_port": 8101, "metrics_port": 8102}
    return {
        "machine": replace(data["machine"], mig=("4g.40gb", "3g.40gb")),
        "servers": (
            replace(main, models=(llm,), gpus=(0,)),
            replace(main, name="encoders", models=tuple(encoders), gpus=(1,), **ports),
        ),
    }


rehearsal = hosts(_cut)
