"""The inventory as typed hosts, and hosts that other tools list."""
