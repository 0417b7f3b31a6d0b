"""Commands for the difference between the exporters' facts and the wanted state. Pure; `step` runs them."""

import json
from collections.abc import Iterable, Iterator
from shlex import join

from deploy.slices.monitor import ExportersSlice
from deploy.topology.monitors import DCGM_PORT
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command
from roles._shipping import apt, programs
from roles._shipping.templates import template
from roles._shipping.texts import Text, shipped
from roles.exporters.counters import csv
from roles.exporters.defaults import ALL, COUNTERS, DCGM, DISTRIBUTION_UNIT, METRICS, NODE, PACKAGE, PAGES, unit_path


def texts(exporters: ExportersSlice) -> list[Text]:
    """Units and settings. `programs` is the digest of the host's programs, so that new programs change the settings.

    No program reads `programs`; it only makes the units restart.
    """
    content = {
        "address": exporters.address,
        "port": exporters.port,
        "monitors": list(exporters.monitors),
        "pages": {page.path: page.url for page in exporters.pages},
        "programs": programs.shipped_version(),
    }
    wanted = [
        Text(PAGES, json.dumps(content, indent=2) + "\n"),
        *(shipped(f"files/units/{name}", unit_path(name)) for name in (NODE, METRICS)),
    ]
    if exporters.dcgm_image:
        wanted += [Text(COUNTERS, csv()), dcgm_unit(exporters.dcgm_image)]
    return wanted


def dcgm_unit(image: str) -> Text:
    """The unit of dcgm-exporter's container."""
    values = {"counters": COUNTERS, "port": DCGM_PORT, "image": image}
    return Text(unit_path(DCGM), template("exporters", f"{DCGM}.j2").render(**values))


def package(facts: HostFacts) -> Iterator[Command]:
    """Commands that install node-exporter; its own unit would listen on every address."""
    yield from apt.install_masked({PACKAGE: DISTRIBUTION_UNIT}, facts.packages)


def units_of(exporters: ExportersSlice) -> tuple[str, ...]:
    return (NODE, METRICS, *([DCGM] if exporters.dcgm_image else []))


def in_force(facts: HostFacts, wanted: Iterable[str]) -> Iterator[Command]:
    for name in wanted:
        unit = facts.unit(name)
        if not unit.starts_at_boot:
            yield f"systemctl enable {name}"
        if name in facts.value("stale").split() or not unit.runs:
            yield f"systemctl restart {name} || {{ journalctl -q -u {name} -n 5 -o cat >&2; false; }}"


def unwanted(facts: HostFacts, exporters: ExportersSlice) -> Iterator[Command]:
    if not exporters.dcgm_image and facts.unit(DCGM).exists:
        yield f"systemctl disable --now {DCGM}; rm -f {unit_path(DCGM)} {COUNTERS} && systemctl daemon-reload"


def retired(left: list[str]) -> Iterator[Command]:
    if left:
        # Files are removed last, so that the next run repeats the removal of a run that is killed here.
        wants = " ".join(unit_path(f"*.wants/{name}") for name in ALL)
        yield f"systemctl stop {' '.join(ALL)}; rm -f {wants} {join(left)} && systemctl daemon-reload"
