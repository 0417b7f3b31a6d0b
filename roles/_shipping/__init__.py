"""What the roles send to hosts, and how: files, programs, units, packages, secrets."""
