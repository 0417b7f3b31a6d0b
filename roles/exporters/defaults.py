"""Paths, users and units on the host that the exporters role owns."""

from roles._shipping.places import SETTINGS, UNITS

NODE, METRICS, DCGM = "enginehouse-node-exporter.service", "enginehouse-metrics.service", "enginehouse-dcgm.service"
ALL = (NODE, METRICS, DCGM)
PAGES = f"{SETTINGS}/metrics.json"
COUNTERS = f"{SETTINGS}/dcgm-counters.csv"
PACKAGE = "prometheus-node-exporter"
DISTRIBUTION_UNIT = f"{PACKAGE}.service"


def unit_path(name: str) -> str:
    return f"{UNITS}/{name}"


def started(name: str) -> str:
    """Path of the checksums of the files that a unit was started with: written at its start, removed at its stop."""
    return f"/run/{name.removesuffix('.service')}/started"
