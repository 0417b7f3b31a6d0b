"""Two machines, Debian 12 and 13, with services of their own, deployed to once and shared by all `test_deploy*.py`.

They run beside a rehearsal somebody may have up: another number, so another bridge, other services and another state
directory. A first deploy costs more than a minute, so the files tell one story, in the order pytest runs them (by
name, then from top to bottom): bare, deployed, asked, failing and going back, searched for secrets.
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
# Whatever was written anywhere on the disk since; what logging in and looking around writes is not the deploy's, nor
# what Debian does at midnight.
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
        """Debian 12 first."""
        return self.d12, self.d13

    @property
    def names(self) -> list[str]:
        """Machine names in results."""
        return [machine.name for machine in self.both]


@dataclass(frozen=True)
class Before:
    """The dry run against bare machines, and what was written on each of them and on the control machine meanwhile."""

    run: Run
    written: dict[str, list[str]]
    kept_at_home: list[str]


@pytest.fixture(scope="package")
def operator() -> Operator:
    """The person who types the commands of this story; the log stays in the state directory until the next story."""
    return Operator.fresh(PLACES)


@pytest.fixture(scope="package")
def bare(operator: Operator) -> Iterator[Pair]:
    """Both machines as they come from the provider; removed before and afterwards."""
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
    """`--dry` before the first run."""
    for machine in bare.both:
        machine.run(MARK)
    run = operator.pyinfra("--dry")
    written = {machine.name: machine.run(WRITTEN).stdout.splitlines() for machine in bare.both}
    return Before(run, written, [path.name for path in operator.home.rglob("*") if path.is_file()])


@pytest.fixture(scope="package")
def first(operator: Operator, before: Before) -> Run:
    """The first run, to both machines at once, at the highest verbosity: nothing it could give away stays unsaid."""
    return operator.pyinfra("-vvv", "--debug")


@pytest.fixture(scope="package")
def deployed(bare: Pair, first: Run) -> Pair:
    """Both machines serving."""
    assert first.code == 0, first.output[-4000:]
    return bare


def _throw_away(operator: Operator) -> None:
    machines.down(PLACES)
    operator.python("-m", "rehearsal.services", "down")
