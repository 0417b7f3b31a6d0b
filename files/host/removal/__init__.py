"""Restores a host to its state before this project. Sent along on standard input (roles/removal), because a host
half taken off has no programs of ours; so these modules import one another and nothing else of `host`."""
