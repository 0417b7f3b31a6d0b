"""Runs pyinfra operations for the roles. This folder is not a role, and no part of it is installed on a host."""
