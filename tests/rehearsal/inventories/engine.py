"""The rehearsal's machines with one engine LLM, which the environment changes for a test.

ENGINE_BATCH: another max_batch_size, so another engine. ENGINE_WEIGHTS: a directory in the rehearsal's state, a
checkpoint with a failing build or wrong answers. ENGINE_KEY: another signing key.
"""

import os
from dataclasses import replace

from deploy.spec import EngineTrust, Weights
from tests.rehearsal.variants import hosts, llama


def _change(data, state):
    weights = os.environ.get("ENGINE_WEIGHTS")
    changed = {"weights": Weights.local(str(state / weights))} if weights else {}
    model = replace(llama(), max_batch_size=int(os.environ.get("ENGINE_BATCH", "8")), **changed)
    (server,) = data["servers"]
    key = os.environ.get("ENGINE_KEY")
    trust = EngineTrust(key=str(state / key)) if key else data["engine_trust"]
    return {"servers": (replace(server, models=(model,), address="0.0.0.0"),), "engine_trust": trust}


rehearsal = hosts(_change)
