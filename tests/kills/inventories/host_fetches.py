"""Two small embedders: one sent slowly enough to be cut in transit, one downloaded by the host from the hub."""

from tests.kills.variants import hosts

rehearsal = hosts(fetch_on="host")
