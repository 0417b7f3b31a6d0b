"""Manifests before programs that judge any: `make manifests`."""
