"""The rehearsal with its server under another name and with a model that does not load."""

from dataclasses import replace

from deploy.spec import Weights
from tests.faults.variants import hosts
from tests.rehearsal.variants import UNLOADABLE, with_model

rehearsal = hosts(
    lambda data, state: {
        "servers": tuple(
            replace(server, name="other")
            for server in with_model(data, "nomic-moe", weights=Weights.local(str(state / UNLOADABLE)))
        )
    }
)
