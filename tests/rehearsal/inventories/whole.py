"""The rehearsal's machines with whole GPUs and no gateway: the inventory that reverts `cut.py`."""

from tests.rehearsal.variants import hosts

rehearsal = hosts(lambda data, _: {})
