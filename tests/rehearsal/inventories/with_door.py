"""The rehearsal's machines with a front door each."""

from deploy.spec import Door as _Door
from tests.rehearsal.variants import hosts as _hosts

rehearsal = _hosts(lambda data, _: {"door": _Door(ports=(8080, 8081), aliases={"text-embedding-3-small": "minilm"})})
