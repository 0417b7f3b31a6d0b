"""The proxy's files on a host: the role proxy writes them, base removes them, and docker reads dockerd's file."""

from collections.abc import Iterator
from shlex import quote

from roles._pyinfra.facts import HostFacts
from roles._shipping.places import SETTINGS, UNITS

DIRECTORY = f"{SETTINGS}/proxy"
WANTED = f"{DIRECTORY}/wanted.json"
"""Record of the inventory's proxy without the password: a run without the password compares this file."""
ENVIRONMENT = f"{DIRECTORY}/environment"
"""Environment file for units that fetch weights, an image's blobs and certificates."""
DOCKER_ENVIRONMENT = f"{DIRECTORY}/docker"
"""Environment of dockerd, without the fleet's hosts, so that a new host does not restart Docker."""
APT = "/etc/apt/apt.conf.d/52enginehouse-proxy"
FETCHING = ("enginehouse-weights@", "enginehouse-pull@", "enginehouse-certificate")
DROP_INS = tuple(f"{UNITS}/{unit}.service.d/52-enginehouse-proxy.conf" for unit in FETCHING)
DOCKER_DROP_IN = f"{UNITS}/docker.service.d/52-enginehouse-proxy.conf"
FILES = (WANTED, ENVIRONMENT, DOCKER_ENVIRONMENT, APT, *DROP_INS, DOCKER_DROP_IN)


def left_files(facts: HostFacts) -> Iterator[str]:
    if WANTED in facts.files:
        gone = " ".join(map(quote, (APT, ENVIRONMENT, *DROP_INS, WANTED)))
        yield f": > {DOCKER_ENVIRONMENT} && rm -f {gone} && systemctl daemon-reload"
