"""Two small embedders: one sent slowly enough to be cut on its way, one the host fetches from the hub itself."""

from tests.kills.variants import hosts

rehearsal = hosts(fetch_on="host")
