"""Sends files, programs, units, packages and secrets to hosts."""
