"""The rehearsal with an embedder whose directory also holds a large file: minutes of sending on a slow line."""

from deploy.spec import Weights
from tests.faults.variants import hosts
from tests.rehearsal.variants import with_model

rehearsal = hosts(
    lambda data, state: {
        "servers": with_model(
            data, "nomic-moe", weights=Weights.local(str(state / "heavy"), files=("*.json", "*.safetensors"))
        )
    }
)
