"""The boundary of `deploy/` to the outside world: inventories, files, the clock, a registry, a machine.

No other part of deploy/ does I/O.
"""
