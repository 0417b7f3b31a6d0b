"""What an operator declares: the inventory as typed hosts, and what other tools list."""
