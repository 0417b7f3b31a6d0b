"""The rehearsal with weights that fill no network: a release that never becomes ready."""

from deploy.spec import Weights
from tests.rehearsal.variants import UNLOADABLE, hosts, with_model

rehearsal = hosts(
    lambda data, state: {"servers": with_model(data, "nomic-moe", weights=Weights.local(str(state / UNLOADABLE)))}
)
