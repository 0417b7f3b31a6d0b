"""The rehearsal's machines with a gateway each."""

from deploy.spec import Gateway as _Gateway
from tests.rehearsal.variants import hosts as _hosts

rehearsal = _hosts(
    lambda data, _: {"gateway": _Gateway(ports=(8080, 8081), aliases={"text-embedding-3-small": "minilm"})}
)
