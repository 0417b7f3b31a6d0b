"""Faults of a host in sequence, on a whole machine."""
