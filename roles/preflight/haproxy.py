"""HAProxy with a foreign configuration, reported before the first change, as the role would stop it. Pure."""

from collections.abc import Iterator

from deploy.refusals import PREFLIGHT, Refusal
from deploy.slices.host import Slice
from roles._pyinfra.facts import HostFacts, ask_units, ask_value
from roles._shipping.haproxy import DISTRIBUTION


def fact_commands(*units: str) -> list[str]:
    return [
        # The package's own example listens nowhere; dpkg knows the checksum of the package's file.
        ask_value("changed", "dpkg --verify haproxy | grep -o '/etc/haproxy/haproxy.cfg'"),
        ask_units(DISTRIBUTION, *units),
    ]


def units_of(mine: Slice) -> list[str]:
    """Our units with HAProxy on a GPU host."""
    units = {"enginehouse-https.service": mine.https, "enginehouse-mutual.service": mine.mutual and mine.mutual.port}
    return [name for name, is_planned in units.items() if is_planned]


def foreign_haproxy(facts: HostFacts, host: str, unit: str) -> Iterator[Refusal]:
    """A finding if the distribution's HAProxy runs with a changed configuration; `unit` is ours."""
    theirs = facts.unit(DISTRIBUTION)
    if facts.value("changed") and (theirs.runs or theirs.starts_at_boot):
        yield Refusal(
            f"{host}: HAProxy runs on this host with a foreign configuration",
            facts={
                "found": f"{DISTRIBUTION} and a changed {facts.value('changed')}",
                "wanted": f"only this project's HAProxy, with its own unit and configuration ({unit})",
            },
            attempt=f"systemctl disable --now {DISTRIBUTION} on the host, once nobody needs it; or another machine",
            state=PREFLIGHT,
            kind="foreign-haproxy",
        )
