"""Bundles: everything that the hosts of an inventory fetch, in one signed directory. Pure."""
