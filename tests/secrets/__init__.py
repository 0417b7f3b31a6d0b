"""Canaries: secrets that the tests search for everywhere, during and after a deploy."""
