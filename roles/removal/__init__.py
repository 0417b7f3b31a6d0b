"""Removes this project's files and packages from a host; the state before the first deploy is recorded for that.

Our files are recognised by name; packages and merged settings by the record of `remember`. Nothing is removed without
`--data remove=yes`; without it the run lists everything that it would remove.
"""

from collections.abc import Iterator

from pyinfra import host, logger
from pyinfra.api.command import StringCommand
from pyinfra.api.operation import OperationMeta

from roles._pyinfra.steps import CachedFact, step
from roles._shipping.texts import HERE
from roles.removal.facts import OnHost, Remembered
from roles.removal.sent import program


def remember() -> OperationMeta:
    """Records the host's packages, holds and settings before the first installation, in /etc/enginehouse/before."""

    def decide(is_there: bool) -> Iterator[StringCommand]:
        if not is_there:
            yield StringCommand("bash -s", _stdin=(HERE / "files/shell/remember.sh").read_text())

    return step(CachedFact(Remembered), decide, name="Removal | Record the host before the first deploy")


def apply(agreed: bool) -> None:
    """Removes everything of this project from the host; unless `agreed`, only lists the items."""
    logged: set[str] = set()  # each line is logged once, not in both phases

    def decide(present: list[str]) -> Iterator[StringCommand]:
        for line in present:
            if line not in logged:
                host.log(f"{'goes' if agreed else 'would go'}: {line}", log_func=logger.info)
        if present and not agreed and not logged:
            host.log("nothing was changed; `--data remove=yes` removes these items", log_func=logger.warning)
        logged.update(present)
        if agreed and present:
            yield StringCommand("python3 -B - remove", _stdin=program())

    step(CachedFact(OnHost), decide, name="Removal | Remove this project's files and packages")
