"""What `deploy/` does with the outside world: inventories, files, the clock, a registry, a machine.

Nothing else in deploy/ touches it.
"""
