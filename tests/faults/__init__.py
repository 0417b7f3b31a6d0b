"""Faults of a host, one after the other, on a whole machine."""
