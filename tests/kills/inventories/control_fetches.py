"""The same two, but the control machine fetches from the hub and sends both."""

from tests.kills.variants import hosts

rehearsal = hosts(fetch_on="control")
