"""Manifests checked by three programs: `make manifests`."""
