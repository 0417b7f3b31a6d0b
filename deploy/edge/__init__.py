"""What `deploy/__main__.py` does with the outside world.

Files, the clock, a registry, a machine. Nothing else in deploy/ touches it.
"""
