"""Machinery of the roles that runs pyinfra operations: no role, and nothing of it is on a host."""
