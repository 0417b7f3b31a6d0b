"""The same two embedders, but the control machine downloads from the hub and sends both."""

from tests.kills.variants import hosts

rehearsal = hosts(fetch_on="control")
