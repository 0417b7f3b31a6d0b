"""The steps of `enginehouse bundle`: gather the parts of the control machine, then make or verify a bundle."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path

from deploy.bundle.contents import Contents
from deploy.bundle.lacking import Bundled, expected_directories
from deploy.io.bundle_apt import Need
from deploy.io.bundle_make import STATE, Order, confirm_pinned, make, totals
from deploy.io.bundle_store import MIB
from deploy.io.bundle_verify import confirm_whole, opened, unpack
from deploy.io.local_paths import local_path, turn
from deploy.planning.plan import Plan
from deploy.refusals import Refusal
from deploy.spec import EngineTrust

ROOT = Path(__file__).parents[2]
Report = Callable[[str], None]
Wheels = tuple[str, tuple[str, ...]]
"""The text of a lock file, and pip's arguments for its download, for one Python version."""


def made(
    plan: Plan,
    needs: Iterable[Need],
    wheels: Iterable[Wheels],
    directory: Path,
    base: Path | None,
    split: int,
    report: Report,
) -> None:
    """Makes, signs and reports the bundle. Raises: a Refusal; fetched parts are kept."""
    trust = trust_of(plan)
    confirm_pinned(plan.slices)
    directory.mkdir(parents=True, exist_ok=True)
    work = directory / ".work"
    with _alone(directory):
        (work / "control").mkdir(parents=True, exist_ok=True)
        report("this repository and its Python packages")
        order = Order(
            slices=plan.slices,
            needs=tuple(needs),
            directory=directory,
            trust=trust,
            report=report,
            control={**repository(work, report), **dict(packages(work, wheels)), **engines(plan, report)},
            base=base,
            split_mib=split,
            today=date.today(),
        )
        contents = make(order)
    report(f"{directory} is bundled and signed: {len(contents.parts)} files")
    for line in (*totals(contents), *expected_directories(plan.slices)):
        report(line)
    report(f"next: enginehouse bundle INVENTORY {directory} --verify, on the machine to which it was carried")


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """A lock on the directory of a bundle. Raises: a Refusal if another command has it."""
    with ExitStack() as held:
        try:
            held.enter_context(turn(directory, is_patient=False))
        except BlockingIOError:
            raise Refusal(
                f"another command is making a bundle in {directory}",
                facts={"seen": f"a lock on {directory}", "wanted": "one command for a directory"},
                attempt="the same command again when the other one has ended, which continues; or another directory",
                state="nothing of this command was written",
                kind="bundle-being-made",
            ) from None
        yield


def verified(plan: Plan, directory: Path, report: Report) -> Contents:
    """The list of a bundle, after its signature and every byte were verified. Raises: a Refusal."""
    contents = opened(directory, trust_of(plan))
    size = confirm_whole(directory, contents)
    report(f"{directory} is whole: {len(contents.parts)} files, {size / MIB:,.1f} MiB read, made {contents.made}")
    for line in (*totals(contents), *expected_directories(plan.slices)):
        report(line)
    return contents


def unpacked(directory: Path, contents: Contents, target: Path, report: Report) -> None:
    """Unpacks the control machine's part of the bundle into `target`."""
    size = unpack(directory, contents, target)
    report(f"{target} has {len(contents.below('control'))} files, {size / MIB:,.1f} MiB")
    report(f"next: export PIP_NO_INDEX=1 PIP_FIND_LINKS={target.resolve() / 'wheels'}")


def trust_of(plan: Plan) -> EngineTrust:
    """The signer of bundles of this inventory. Raises: a Refusal without one."""
    hosts: tuple[Bundled, ...] = (*plan.slices, *plan.balancers, *plan.monitors)
    trusts = [mine.engine_trust for mine in hosts if mine.engine_trust]
    if not trusts:
        raise Refusal(
            "no key signs the bundles of this inventory",
            facts={"seen": "no engine_trust", "wanted": "a key of ssh-keygen; bundles are signed as engines are"},
            attempt='engine_trust=EngineTrust(key="~/.ssh/engines"), after: ssh-keygen -t ed25519 -f ~/.ssh/engines',
            state=STATE,
            kind="bundle-without-trust",
        )
    return trusts[0]


def repository(work: Path, report: Report) -> dict[str, Path]:
    """The archive of this repository's commit; empty if this is not a checkout."""
    target = work / "control/enginehouse.tar.gz"
    words = ["git", "-C", str(ROOT), "archive", "--format=tar.gz", "-o", str(target.resolve()), "HEAD"]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        report("  this is not a git checkout: carry this directory beside the bundle")
        return {}
    return {"enginehouse.tar.gz": target}


def packages(work: Path, wheels: Iterable[Wheels]) -> Iterator[tuple[str, Path]]:
    """(path, file) of each Python package of the locks. Raises: a Refusal with pip's message."""
    for text, words in wheels:
        name = hashlib.sha256(f"{text} {words}".encode()).hexdigest()[:16]
        target, lock = work / f"control/wheels-{name}", work / f"control/{name}.lock"
        finished = target / ".finished"
        if not finished.exists():
            lock.write_text(text, "utf-8")
            argv = [sys.executable, "-m", "pip", *words, "--dest", str(target), "--requirement", str(lock)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                raise Refusal(
                    "the Python packages of the control machine cannot be bundled",
                    facts={"seen": " ".join(errors[:3]) or done.stderr[-300:], "wanted": "every package of the lock"},
                    attempt="see that pip reaches its index here (pip config list), then type the same command again",
                    state=STATE,
                    kind="bundle-wheels",
                )
            finished.touch()
        yield from ((f"wheels/{file.name}", file) for file in sorted(target.glob("*")) if file.name[0] != ".")


def engines(plan: Plan, report: Report) -> dict[str, Path]:
    """The files of each planned engine that the store, a directory, has; the other engines are built on their hosts."""
    files = dict[str, Path]()
    for mine in plan.slices:
        store = mine.engine_store
        for engine in mine.engines:
            place = local_path(store.place) / engine.name if store and store.kind == "directory" else None
            if place is None or not place.is_dir():
                report(f"  the engine {engine.name} is in no directory here: its host builds it")
                continue
            paths = (path for path in sorted(place.rglob("*")) if path.is_file())
            files |= {f"engines/{engine.name}/{path.relative_to(place)}": path for path in paths}
    return files
