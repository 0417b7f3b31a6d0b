"""The plan as text for people."""
