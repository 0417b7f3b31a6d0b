"""The rehearsal with an embedder, an LLM and the default gateway of its only host.

FAULTS_BATCH sets the embedder's batch, so that each number gives a different release.
"""

import os
import runpy
from dataclasses import replace

from tests.faults.variants import hosts
from tests.rehearsal.variants import with_model

_llm = runpy.run_path("inventories/rehearsal.py")["_llm"]


def _change(data, state):
    (server,) = with_model(data, "minilm", max_batch_size=int(os.environ["FAULTS_BATCH"]))
    kept = tuple(model for model in server.models if model.name == "minilm")
    return {"servers": (replace(server, models=(*kept, _llm)),)}


rehearsal = [(name, {key: value for key, value in data.items() if key != "gateway"}) for name, data in hosts(_change)]
