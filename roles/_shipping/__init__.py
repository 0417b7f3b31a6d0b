"""Files, programs, units, packages and secrets on their way to hosts."""
