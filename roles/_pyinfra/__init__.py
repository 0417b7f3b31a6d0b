"""Runs pyinfra operations for the roles. This folder is no role, and none of it is installed on a host."""
