"""Rehearsal machines that serve one LLM together: BATCH is the number of concurrent requests; another number gives a
new release.

RUNTIME is the program: vllm or trtllm-serve.
"""

from rehearsal import machines as _machines
from tests.rehearsal.group_data import group_data as _group_data
from tests.rehearsal.variants import hosts as _hosts

_NAMES = tuple(machine.name for machine in _machines.known())

rehearsal = _hosts(lambda data, _: _group_data(data, _NAMES))
