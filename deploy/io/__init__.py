"""The boundary of `deploy/` to the outside world: inventories, files, the clock, a registry, a machine.

Nothing else in deploy/ touches it.
"""
