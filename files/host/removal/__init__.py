"""Restores a host to its state before this project.

It is sent on standard input (roles/removal), because a partly cleaned host has no programs of ours; so these modules
import one another and no other module of `host`.
"""
