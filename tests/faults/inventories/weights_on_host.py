"""The rehearsal with an embedder whose weights the host has already, outside our own directories."""

from deploy.spec import Weights
from tests.faults.variants import hosts
from tests.rehearsal.variants import with_model

rehearsal = hosts(
    lambda data, state: {"servers": with_model(data, "minilm", weights=Weights.on_host("/mnt/models/minilm"))}
)
