"""Two machines, Debian 12 and 13, with separate services, deployed to once for all `test_deploy*.py`.

They have their own number, and so their own bridge, services and state directory beside another running rehearsal. A
first deploy takes more than a minute, so the files form one sequence, in pytest's order (by name, then from top to
bottom): bare, deployed, asked, failing and rolled back, searched for secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from rehearsal import machines, requirements
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places
from rehearsal.services import Services
from tests.rehearsal.operator import Operator, Run

PLACES = Places(REPOSITORY / ".rehearsal" / "number-4", 4)
# Marks the moment after which any write on the disk counts. Logging in, inspecting and Debian's midnight timers write
# too, but not for the deploy.
MARK = "touch /root/mark; sync; sleep 0.1"
WRITTEN = (
    "find / /var/lib/docker /var/lib/enginehouse -xdev"
    r" \( -path /var/log -o -path /var/lib/systemd -o -path /tmp -o -path /var/tmp"
    r" -o -path /var/backups -o -path /var/lib/apt/daily_lock \) -prune"
    " -o -newer /root/mark ! -type d -print 2>/dev/null; true"
)


@dataclass(frozen=True)
class Pair:
    """The two machines and the services they use."""

    d12: Machine
    d13: Machine
    services: Services

    @property
    def both(self) -> tuple[Machine, Machine]:
        """Returns both machines, Debian 12 first."""
        return self.d12, self.d13

    @property
    def names(self) -> list[str]:
        """Returns machine names in results."""
        return [machine.name for machine in self.both]


@dataclass(frozen=True)
class Before:
    """The dry run against bare machines, and the files written meanwhile on each of them and on the control machine."""

    run: Run
    written: dict[str, list[str]]
    kept_at_home: list[str]


@pytest.fixture(scope="package")
def operator() -> Operator:
    """Returns the operator of these tests; the log stays in the state directory until the next run."""
    return Operator.fresh(PLACES)


@pytest.fixture(scope="package")
def bare(operator: Operator) -> Iterator[Pair]:
    """Yields both machines in the provider's initial state; removes earlier machines before, and these afterwards."""
    if lacking := [*requirements.missing(PLACES), *requirements.missing_packages()]:
        pytest.skip(requirements.explain(lacking))
    _throw_away(operator)
    try:
        (d12,), (d13,) = (machines.up([f"d{release}"], release, places=PLACES) for release in ("12", "13"))
        started = operator.python("-m", "rehearsal.services", "up")
        assert started.returncode == 0, started.stderr
        yield Pair(d12, d13, Services.of_json((PLACES.root / "services/services.json").read_text()))
    finally:
        _throw_away(operator)


@pytest.fixture(scope="package")
def before(operator: Operator, bare: Pair) -> Before:
    """Runs `--dry` before the first run."""
    for machine in bare.both:
        machine.run(MARK)
    run = operator.pyinfra("--dry")
    written = {machine.name: machine.run(WRITTEN).stdout.splitlines() for machine in bare.both}
    return Before(run, written, [path.name for path in operator.home.rglob("*") if path.is_file()])


@pytest.fixture(scope="package")
def first(operator: Operator, before: Before) -> Run:
    """Runs the first deploy, to both machines at once, at the highest verbosity, to find leaked secrets."""
    return operator.pyinfra("-vvv", "--debug")


@pytest.fixture(scope="package")
def deployed(bare: Pair, first: Run) -> Pair:
    """Returns both serving machines."""
    assert first.code == 0, first.output[-4000:]
    return bare


def _throw_away(operator: Operator) -> None:
    machines.down(PLACES)
    operator.python("-m", "rehearsal.services", "down")
