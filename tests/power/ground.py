"""The machine of the power cuts: prepared once, worked on, cut, and examined after its next boot."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from rehearsal import forks, machines, reader
from rehearsal.machine import Machine
from rehearsal.places import REPOSITORY, Places, RehearsalRefused
from roles._shipping import programs
from roles._shipping.places import ROOT
from roles._shipping.tar import tarred
from roles.triton.defaults import Defaults
from roles.triton.operations import texts
from roles.triton.release import release_of
from tests.power import work
from tests.power.work import Release, Work

NUMBER = 8
PLACES = Places(REPOSITORY / ".rehearsal" / f"number-{NUMBER}", NUMBER)
NAME, BARE = "power", "power-bare"
SEED = 20261121
# Releases and revisions 0 and 1 are what the machine has before the first cut.
FIRST, CUTS = 2, 10
PACKAGES = ("docker.io", "docker-cli", "iptables", "procps", "python3", "rsync")
# Nothing of this is part of a cut, and under emulation it would cost most of every boot.
QUIET = (
    "apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer"
    " systemd-tmpfiles-clean.timer e2scrub_reap.service user@.service systemd-timesyncd.service systemd-logind.service"
    " getty@.service serial-getty@.service modprobe@.service systemd-binfmt.service dev-mqueue.mount"
    " dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount"
    " sys-fs-fuse-connections.mount systemd-network-generator.service ldconfig.service"
    " systemd-hwdb-update.service apparmor.service systemd-pstore.service systemd-random-seed.service"
)
BEGIN = (
    f"cd {work.HERE}; rm -f {{name}}.ended {{name}}.over; systemctl reset-failed cut-{{name}} 2>/dev/null;"
    f" systemd-run --quiet --unit=cut-{{name}} --working-directory={work.HERE} sh {{name}}.later"
)
# Waits for the server's start after a boot to end, one way or the other.
SETTLED = (
    "for i in $(seq 120); do case $(systemctl is-active triton@main) in active|failed) break;; esac; sleep 2; done"
)
LOOK = f"""
{SETTLED}
echo "active=$(systemctl is-active triton@main)"
echo "current=$(basename "$(readlink {ROOT}/servers/main/current)")"
test ! -e {ROOT}/servers/main/swap.json || echo "cut=yes"
journalctl --boot --quiet --output=cat --unit=triton@main --grep='^read '
cd {ROOT}/weights/bulk && for d in *; do
  test -f $d/manifest.sha256 || continue
  ok=half; (cd $d && sha256sum --check --quiet --strict manifest.sha256 >/dev/null 2>&1) && ok=whole
  echo "revision=$d $(sha256sum <$d/manifest.sha256 | cut -c1-64) $ok $(find $d -type f | wc -l)"
done
true
"""
WHY = "journalctl --boot --quiet --output=short-monotonic --unit=triton@main --unit=docker --lines=80"


@dataclass
class Look:
    """The machine's state some time after a boot, and every read of a server's start since then."""

    active: str = ""
    current: str = ""
    cut: str = ""
    reads: list[str] = field(default_factory=list)
    revisions: list[str] = field(default_factory=list)
    journal: str = ""
    """The journal of a server that is not active."""

    def serves(self, release: str) -> bool:
        """Returns True if the server serves, by the role's own fact."""
        return (self.current, self.active, self.cut) == (release, "active", "")


@dataclass(frozen=True)
class Words:
    """A look as words: `old`, `new`, `whole`, or the observed value."""

    serves: str
    started: set[str]
    published: set[str]


@dataclass(frozen=True)
class Cut:
    """A power cut: its times in seconds from each job's start, the state after the boot, and after repeating both."""

    number: int
    publish_at: float
    swap_at: float
    after: Words
    end: Words
    journal: str = ""
    """The machine's output after the boot, if its server was not active then."""


@dataclass
class Ground:
    """The machine, its published files, and the duration of uninterrupted jobs."""

    machine: Machine
    bulk: Path
    sums: dict[str, str]
    seconds: dict[str, float] = field(default_factory=dict)
    lengths: dict[str, float] = field(default_factory=dict)
    """Durations of an undisturbed publish and swap beside each other, from which the moments of the cuts are drawn."""
    next: int = FIRST
    """Number of the release and the revision that the next cut brings: one more than the present number."""
    lost: str = ""
    """The reason why no further cut is tried."""

    def release(self, number: int) -> Release:
        """Returns the server's release of that number."""
        return work.release(self.machine.address, number)

    def publish(self, number: int) -> Work:
        """Returns the job that publishes the many files as the revision of that number."""
        return work.publish("bulk", revision(number), self.bulk)

    def manifest(self, number: int) -> str:
        """Returns the checksum of that revision's manifest, by which the role identifies the revision."""
        return sha256(self.publish(number).files["manifest"]).hexdigest()

    def swap(self, number: int) -> Work:
        """Returns the job that publishes and swaps in the release of that number."""
        return work.swap(self.release(number))

    def begin(self, *works: tuple[Work, float]) -> None:
        """Starts each job on the machine after its delay, by the machine's own timer."""
        files = {name: content for task, _ in works for name, content in task.files.items()}
        for task, delay in works:
            timed = f"date +%s.%N >{task.name}.began\n{{\n{task.script}}}\ndate +%s.%N >{task.name}.ended\n"
            files[f"{task.name}.sh"] = timed.encode()
            files[f"{task.name}.later"] = f"sleep {delay:.2f}; sh {task.name}.sh; >{task.name}.over\n".encode()
        unpack(self.machine, work.HERE, files)
        self.machine.run("; ".join(BEGIN.format(name=task.name) for task, _ in works))

    def done(self, *works: Work) -> None:
        """Runs all jobs on the machine concurrently to their end; `seconds` gets their durations."""
        if not works:
            return
        self.begin(*((task, 0.0) for task in works))
        names = " ".join(task.name for task in works)
        # Looking costs the machine a process, which is dear under emulation.
        waits = f"cd {work.HERE}; for n in {names}; do until test -e $n.over; do sleep 1; done; done"
        moments_of = self.machine.run(f"{waits}; for n in {names}; do echo $n $(cat $n.began $n.ended); done").stdout
        for name, *moments in (line.split() for line in moments_of.splitlines()):
            assert len(moments) == 2, (
                f"{name} did not end\n{self.machine.run(f'journalctl -b -u cut-{name} -n 30').stdout}"
            )
            self.seconds[name] = float(moments[1]) - float(moments[0])

    def cut(self, ordinal: int) -> Cut:
        """Cuts the power while the next number is published and swapped in, then repeats both.

        A cut's times do not depend on earlier cuts.
        """
        assert not self.lost, f"not tried: {self.lost}"
        number, self.next = self.next, self.next + 1
        chance = random.Random(SEED + ordinal)
        works = self.publish(number), self.swap(number)
        moments = [chance.uniform(0, self.lengths[task.name]) for task in works]
        self.begin(*((task, max(moments) - moment) for task, moment in zip(works, moments, strict=True)))
        time.sleep(max(moments))
        self.boot(ordinal)
        after = self.look()
        has_it = any(
            published.startswith(f"{revision(number)} {self.manifest(number)} ") for published in after.revisions
        )
        serves = after.serves(self.release(number).id)
        # As the roles decide it, from the published manifest and from what serves.
        self.done(*([] if has_it else [works[0]]), *([] if serves else [works[1]]))
        end = self.look()
        self.machine.run(f"rm -rf {ROOT}/weights/bulk/{revision(number - 1)}; sync")
        return Cut(
            ordinal, *moments, after=self.words(after, number), end=self.words(end, number), journal=after.journal
        )

    def boot(self, ordinal: int) -> None:
        """Cuts the power and boots the machine. A failed boot ends the wait for all later cuts."""
        try:
            self.machine.power_cycle()
        except RehearsalRefused:
            self.lost = f"the machine did not come up after cut {ordinal}; its own words are there"
            raise

    def log_cut(self, cut: Cut) -> None:
        """Writes a line about a cut beside the machine."""
        with (PLACES.root / "cuts.log").open("a") as log:
            log.write(f"{cut}\n")

    def words(self, look: Look, number: int) -> Words:
        """Returns the state in words: old (the number before), new (this number) or another."""
        names = {number - 1: "old", number: "new"}
        releases = {self.release(release_number).id: name for release_number, name in names.items()}
        listings = {
            self.listing(self.release(release_number)): f"{name} whole" for release_number, name in names.items()
        }
        whole = {
            f"{revision(release_number)} {self.manifest(release_number)} whole {len(self.sums) + 1}": name
            for release_number, name in names.items()
        }
        return Words(
            serves=f"{releases.get(look.current, look.current)} {look.active}",
            started={listings.get(read, read) for read in look.reads},
            published={f"{whole[entry]} whole" if entry in whole else entry for entry in look.revisions},
        )

    def look(self) -> Look:
        """Returns the machine's state after the server's start succeeded or failed."""
        seen = Look()
        for line in self.machine.run(LOOK, timeout=600).stdout.splitlines():
            key, _, value = line.partition("=")
            if line.startswith("read "):
                seen.reads.append(line)
            elif key == "revision":
                seen.revisions.append(value)
            else:
                setattr(seen, key, value)
        if seen.active != "active":
            seen.journal = self.machine.run(WHY).stdout
        return seen

    def listing(self, release: Release) -> str:
        """Returns the listing that a complete release prints at its start."""
        manifest = work.publish("embed", "local-0", self.bulk.parent / "small").files["manifest"].decode()
        place = work.target("embed", "local-0")
        weights = {f"{place}/{name}": digest for digest, name in (line.split("  ") for line in manifest.splitlines())}
        weights[f"{place}/manifest.sha256"] = sha256(manifest.encode()).hexdigest()
        return work.listing(release, weights)


def revision(number: int) -> str:
    """Returns the name of a revision of the many files."""
    return f"local-{number:02}"


def unpack(machine: Machine, place: str, files: dict[str, bytes]) -> None:
    """Copies the files to the machine under `place`."""
    machine.run(f"mkdir -p {place} && tar -xz -C {place}", input=tarred(files))


def ready() -> Ground:
    """Returns the machine with release 1 and revision 1 of the many files, and the durations of both jobs."""
    forks.virtual_snapshot(PLACES.snapshots / BARE, "13", PACKAGES)
    (machine,) = machines.up([NAME], "13", places=PLACES, kind="qemu", snapshot=BARE)
    place = PLACES.root / "copies"
    ground = Ground(machine, place / "bulk", work.bulk(place / "bulk"))
    (place / "small").mkdir(exist_ok=True)
    (place / "small/model.safetensors").write_bytes(random.Random(1).randbytes(300_000))
    _prepare(ground, place)
    ground.done(ground.swap(1), ground.publish(1))
    ground.lengths = dict(ground.seconds)
    return ground


def _prepare(ground: Ground, place: Path) -> None:
    machine = ground.machine
    machine.run(f"systemctl mask {QUIET}; systemctl disable rehearsal-hardware")
    reader.bring(machine)
    unpack(machine, programs.LINK, programs.sources())
    for text in texts([release_of(work.server(machine.address), Defaults())]):
        machine.put(text.path, text.content, int(text.mode, 8))
    copies = {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*.*")}
    unpack(machine, work.COPIES, copies)
    machine.run("systemctl daemon-reload; systemctl enable triton@main; sync")
    ground.done(work.publish("embed", "local-0", place / "small"))
    ground.done(ground.swap(0))
