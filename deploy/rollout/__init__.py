"""A run over the waves of a fleet, and the difference between hosts and plan."""
