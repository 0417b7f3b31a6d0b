"""Paths, users and units on the host that the monitor role owns."""

from deploy.models.files import ROOT
from roles._shipping.places import SETTINGS, UNITS

PROMETHEUS = "enginehouse-prometheus.service"
ALERTMANAGER = "enginehouse-alertmanager.service"
BLACKBOX = "enginehouse-blackbox.service"
ALL = (PROMETHEUS, ALERTMANAGER, BLACKBOX)
PACKAGES = {
    name: f"{name}.service" for name in ("prometheus", "prometheus-alertmanager", "prometheus-blackbox-exporter")
}
"""Packages, each with its own unit, which would listen on every address."""
FOLDER = f"{SETTINGS}/monitor"
CONFIG, RULES = f"{FOLDER}/prometheus.yml", f"{FOLDER}/rules.yml"
ALERTS, PROBES = f"{FOLDER}/alertmanager.yml", f"{FOLDER}/blackbox.yml"
SAMPLES, SILENCES = f"{ROOT}/prometheus", f"{ROOT}/alertmanager"
READ = {PROMETHEUS: (RULES, CONFIG), ALERTMANAGER: (ALERTS,), BLACKBOX: (PROBES,)}
"""The files that each program reads at its start and at a reload."""


def unit_path(name: str) -> str:
    return f"{UNITS}/{name}"


def runtime(name: str) -> str:
    """The folder under /run in which a unit writes checksums of the files that it `started` with and has `loaded`."""
    return f"/run/{name.removesuffix('.service')}"
