"""Canaries: secrets that are looked for everywhere after, and while, a host is deployed to."""
