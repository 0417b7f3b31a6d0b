#!/usr/bin/python3
"""Takes off a host what this project put there, and nothing else. Run on standard input by the role removal.

    take_off.py list       one line per thing that would go, or that stays and why; nothing is touched
    take_off.py remove     the same lines, and it is gone; cut off in the middle, the next call does the rest

What is ours is told by name (units, programs, settings, apt files, data), and for packages and merged settings by the
record of the host as it was before the first deploy (/etc/enginehouse/before, remember.sh). Without a record, packages,
daemon.json and apt's own files stay. A package that something of somebody else needs stays, and so does Docker while
containers of others exist. The record goes last. One file of many lines, because on a host half taken off there is
nothing left to import.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

PREFIX = os.environ.get("ENGINEHOUSE_PREFIX", "")
SETTINGS, DATA = f"{PREFIX}/etc/enginehouse", f"{PREFIX}/var/lib/enginehouse"
BEFORE = Path(f"{SETTINGS}/before")
SYSTEMD = f"{PREFIX}/etc/systemd/system"
UNITS = ("triton@*", "enginehouse-*")
FILES = (
    *(f"{SYSTEMD}/{unit}" for unit in UNITS),
    *(f"{SYSTEMD}/*.wants/{unit}" for unit in UNITS),
    f"{SYSTEMD}/nvidia-persistenced.service.d/52-enginehouse.conf",
    f"{PREFIX}/etc/systemd/journald.conf.d/52-enginehouse.conf",
    f"{PREFIX}/etc/apt/apt.conf.d/52enginehouse-*",
    f"{PREFIX}/etc/apt/sources.list.d/enginehouse-*",
    f"{PREFIX}/etc/apt/keyrings/enginehouse-*",
    f"{PREFIX}/etc/needrestart/conf.d/52-enginehouse-*",
    f"{PREFIX}/etc/modprobe.d/enginehouse-*",
    f"{PREFIX}/usr/local/lib/enginehouse",
    *(f"{PREFIX}/etc/{depth}*.enginehouse-{half}" for depth in ("*/", "*/*/") for half in ("new", "undo")),
    f"{PREFIX}/run/enginehouse",
    f"{PREFIX}/run/enginehouse-*",
)
EMPTIED = ("nvidia-persistenced.service.d", "../journald.conf.d", "../../needrestart/conf.d", "../../needrestart")
FAMILIES = {
    "Docker": r"docker-ce(-cli)?|docker\.io|docker-cli|containerd(\.io)?|runc",
    "the container toolkit": r"(lib)?nvidia-container.*",
    "the driver": r"(lib)?nvidia-(?!container).*|libcuda1|cuda-.*|firmware-nvidia.*|linux-headers-.*"
    r"|linux-(modules|objects|signatures)-nvidia-.*",
    **{name: re.escape(name) for name in ("ca-certificates", "curl", "iptables", "nftables", "openssh-client")},
    **{name: re.escape(name) for name in ("rsync", "systemd-timesyncd", "e2fsprogs", "xfsprogs", "python3")},
}
OWN_RULE = "enginehouse: no way out"
FSTAB_END = "nofail,x-systemd.device-timeout=30s 0 2"
Step = tuple[str, Callable[[], object]]


def main() -> int:
    for sentence, act in steps():
        print(sentence, flush=True)
        if sys.argv[1] == "remove":
            act()
    return 0


def steps() -> Iterator[Step]:
    """Everything that goes, in this order: who uses a thing before the thing, the record last."""
    yield from units()
    yield from containers()
    yield from firewall_rules()
    yield from images()
    yield from merged_settings()
    yield from apt_sources()
    yield from disk()
    docker_roots, is_ours = roots_of_docker(), bool(contents(DATA))  # asked before they go
    yield from files()
    if contents(DATA):
        yield f"data: {DATA} ({gib(DATA)} GiB: {contents(DATA)})", lambda: empty(DATA)
    yield from packages(docker_roots, is_ours)
    if Path(SETTINGS).exists():
        yield f"settings: {SETTINGS}", lambda: shutil.rmtree(SETTINGS)


def units() -> Iterator[Step]:
    """Servers, timers, long work: stopped, and started by nothing any more."""
    listed = run("systemctl", "list-units", "--all", "--plain", "--no-legend", *UNITS).splitlines()
    names = sorted(line.split()[0] for line in listed if line.strip() and line.split()[1] != "not-found")
    if names:
        # Timers first, or one fires between. What starts them at boot goes with the files.
        ordered = sorted(names, key=lambda name: (not name.endswith(".timer"), name))
        yield f"units: {', '.join(names)}", lambda: run("systemctl", "stop", *ordered)


def containers() -> Iterator[Step]:
    """Containers, probes and the network of ours."""
    found = [each for label in LABELS for each in docker("ps", "--all", "--quiet", "--filter", f"label={label}")]
    if found:
        yield f"containers: {len(found)}", lambda: docker("rm", "--force", *found)
    if docker("network", "ls", "--quiet", "--filter", "name=^enginehouse$"):
        yield "network: enginehouse", lambda: docker("network", "rm", "enginehouse")


LABELS = ("enginehouse.server", "enginehouse.build", "io.enginehouse.probe")


def firewall_rules() -> Iterator[Step]:
    """The rules that keep containers from calling out."""
    rules = [rule for rule in run("iptables", "-w", "-S").splitlines() if OWN_RULE in rule]

    def delete() -> None:
        for rule in rules:
            words = re.findall(r'"[^"]*"|\S+', rule)
            run("iptables", "-w", "-D", *(word.strip('"') for word in words[1:]))

    if rules:
        yield f"iptables: {len(rules)} rules of {OWN_RULE!r}", delete


def images() -> Iterator[Step]:
    """Images this project pulled."""
    records = [Path(each) for each in sorted(glob.glob(f"{DATA}/images/*.json"))]
    for reference in [json.loads(each.read_text())["reference"] for each in records]:
        if docker("image", "inspect", "--format", "{{.Id}}", reference):
            yield f"image: {reference}", lambda reference=reference: docker("image", "rm", reference)


def merged_settings() -> Iterator[Step]:
    """Keys of daemon.json and containerd's config.toml: ours go, what was there comes back, others' stay."""
    path, kept = Path(f"{PREFIX}/etc/docker/daemon.json"), BEFORE / "daemon.json"
    if BEFORE.exists() and path.exists():
        now, before = json.loads(path.read_text()), json.loads(kept.read_text() or "{}") if kept.exists() else {}
        wanted = unmerged(now, before)
        if wanted != now:
            keys = ", ".join(changed(now, wanted))
            # Not by a restart of ours: it would stop whatever else runs there.
            yield (
                f"keys of {path} (a Docker that stays reads it at its next start): {keys}",
                lambda: rewrite(path, wanted, kept, before),
            )
    path, kept = Path(f"{PREFIX}/etc/containerd/config.toml"), BEFORE / "config.toml"
    if kept.exists() and path.exists() and path.read_text() != kept.read_text():
        if without_root(path.read_text()) == without_root(kept.read_text()):
            yield f"the root in {path}", lambda: shutil.copy2(kept, path)
        else:
            yield f"stays: {path}, which somebody else changed too", lambda: None
    for told in glob.glob(f"{SETTINGS}/pull/*.json"):
        folder = Path(f"{PREFIX}/etc/docker/certs.d") / json.loads(Path(told).read_text())["registry"]
        if (folder / "ca.crt").exists():
            yield f"certificate: {folder}/ca.crt", lambda folder=folder: remove_certificate(folder)


OWN_KEYS = {"features": ("cdi",), "log-driver": (), "log-opts": ("max-size", "max-file"), "data-root": ()}


def unmerged(now: dict, before: dict) -> dict:
    """`now` with our keys as they were before; one that was not there goes, and so does an object it leaves empty."""
    wanted = dict(now)
    for key, inner in OWN_KEYS.items():
        if inner and isinstance(now.get(key), dict):
            inside, was = dict(now[key]), before.get(key, {})
            for each in inner:
                inside.pop(each, None)
            inside |= {each: was[each] for each in inner if each in was}
            wanted[key] = inside
            if not inside and key not in before:
                del wanted[key]
        elif key in before:
            wanted[key] = before[key]
        else:
            wanted.pop(key, None)
    return wanted


def changed(now: dict, wanted: dict) -> list[str]:
    return [key for key in now if now[key] != wanted.get(key)]


def rewrite(path: Path, wanted: dict, kept: Path, before: dict) -> None:
    """As the file was, byte by byte, where nothing else changed; gone where it was not there and nothing is left."""
    if kept.exists() and wanted == before:
        shutil.copy2(kept, path)
    elif wanted or kept.exists():
        path.write_text(json.dumps(wanted, indent=4) + "\n")
    else:
        path.unlink()


def without_root(config: str) -> str:
    return re.sub(r'(?m)^root\s*=\s*".*"\n*', "", config).strip()


def remove_certificate(folder: Path) -> None:
    (folder / "ca.crt").unlink()
    remove_empty(folder, folder.parent)


def apt_sources() -> Iterator[Step]:
    """Sources set aside, or given a component: as they were, unless somebody else changed them too."""
    for kept in sorted(path for path in (BEFORE / "apt").rglob("*") if path.is_file()):
        path = Path(f"{PREFIX}/etc/apt") / kept.relative_to(BEFORE / "apt")
        aside = path.with_name(f"{path.name}.disabled")
        if not path.exists() and aside.exists():
            yield f"set aside: {path} comes back", lambda path=path, aside=aside: aside.rename(path)
        elif path.exists() and path.read_text() != kept.read_text():
            ours = re.sub(r"(?m)^# set aside by enginehouse: ", "", path.read_text()).replace("main contrib", "main")
            if ours == kept.read_text().replace("main contrib", "main"):
                yield f"our changes in {path}", lambda path=path, kept=kept: shutil.copy2(kept, path)


def disk() -> Iterator[Step]:
    """The data disk is no longer mounted; its file system stays, because what is on it may be somebody's by now."""
    table, mount = Path(f"{PREFIX}/etc/fstab"), "/var/lib/enginehouse"
    # As adopt-disk wrote it, and nobody changed it since: the same options for another mount are somebody else's.
    written = rf"UUID=[^ ]+ {re.escape(mount)} (ext4|xfs) defaults,noatime,(x-systemd[^ ]+,)?{FSTAB_END}\n?"
    lines = table.read_bytes().splitlines(keepends=True) if table.exists() else []
    ours = [line for line in lines if re.fullmatch(written.encode(), line)]
    if ours:

        def leave() -> None:
            empty(f"{DATA}/docker", f"{DATA}/containerd", DATA)
            run("umount", mount)
            new = table.with_name("fstab.enginehouse-new")
            shutil.copy2(table, new)
            new.write_bytes(b"".join(line for line in table.read_bytes().splitlines(keepends=True) if line not in ours))
            new.rename(table)

        yield f"disk: {mount} is emptied of ours and unmounted; its file system stays", leave


def files() -> Iterator[Step]:
    """Programs, units, apt's and other programs' files of ours."""
    found = sorted(path for pattern in FILES for path in glob.glob(pattern))
    if not found:
        return

    def remove() -> None:
        for path in found:
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        known = recorded("paths")
        for name in EMPTIED:
            folder = os.path.normpath(f"{SYSTEMD}/{name}")
            if folder.removeprefix(PREFIX) not in known:
                remove_empty(Path(folder))
        run("systemctl", "daemon-reload")
        run("systemctl", "reset-failed", *UNITS)
        if any("journald" in path for path in found):
            run("systemctl", "try-restart", "systemd-journald.service")
        if any("modprobe.d" in path for path in found):
            run("update-initramfs", "-u")

    yield f"files: {', '.join(found)}", remove


def packages(docker_roots: list[str], is_ours: bool) -> Iterator[Step]:
    """What the project installed, family by family; holds it set on what stays are lifted."""
    if not BEFORE.exists() or (BEFORE / "late").exists():
        if is_ours:
            yield "stays: every package; what was here before the first deploy is not recorded", lambda: None
        return
    before = recorded("packages")
    held = sorted(set(run("apt-mark", "showhold").split()) - recorded("holds"))
    if held:
        yield f"holds: {', '.join(held)}", lambda: run("apt-mark", "unhold", *held)
    going, staying = chosen(before)
    yield from ((f"stays: {why}", lambda: None) for why in staying)
    if going:
        told = "; ".join(f"{family}: {' '.join(names)}" for family, names in going.items())
        names = [name for family in going.values() for name in family]
        yield f"packages (what is loaded of them stays until the next boot): {told}", lambda: purge(names, before)
    if "Docker" in going:
        yield from after_docker(docker_roots)
    if "the driver" in going:
        yield from account("nvidia-persistenced", "users", "userdel")


def chosen(before: set[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Packages that go, by family, and what stays with the reason."""
    now = installed() - before
    new = {family: sorted(name for name in now if re.fullmatch(each, name)) for family, each in FAMILIES.items()}
    new, staying = {family: names for family, names in new.items() if names}, []
    if not new:
        return {}, []
    if "Docker" in new and (others := foreign_containers()):
        staying.append(f"Docker ({', '.join(new.pop('Docker'))}), because of {', '.join(others)}")
    if who_needs([name for names in new.values() for name in names], before):
        for family, names in list(new.items()):
            if others := who_needs(names, before):
                staying.append(f"{family} ({', '.join(new.pop(family))}), because of {', '.join(others)}")
    return new, staying


def after_docker(roots: list[str]) -> Iterator[Step]:
    """What its packages leave behind."""
    known = recorded("paths")
    left = [path for path in roots if path.removeprefix(PREFIX) not in known and contents(path)]
    if left:
        yield f"images and containers: {', '.join(left)}", lambda: empty(*left)
    yield from account("docker", "groups", "groupdel")
    specification = Path(f"{PREFIX}/var/run/cdi/nvidia.yaml")
    if specification.exists():
        yield f"file: {specification}", specification.unlink


def account(name: str, kind: str, program: str) -> Iterator[Step]:
    if name not in recorded(kind):
        yield f"{kind}: {name}", lambda: run(program, name)


def roots_of_docker() -> list[str]:
    """Where it keeps images."""
    try:
        root = json.loads(Path(f"{PREFIX}/etc/docker/daemon.json").read_text()).get("data-root", "")
    except (OSError, ValueError):
        root = ""
    return [f"{PREFIX}{root or '/var/lib/docker'}", f"{PREFIX}/var/lib/containerd"]


def who_needs(names: list[str], before: set[str]) -> list[str]:
    """Packages of others that would go too: there before, or installed by hand since and none of our families."""
    told = run("apt-get", "--simulate", "--allow-change-held-packages", "purge", *names)
    gone = set(re.findall(r"(?m)^(?:Remv|Purg) (\S+)", told)) - set(names)
    automatic = set(run("apt-mark", "showauto").split())
    ours = {name for name in gone if any(re.fullmatch(each, name) for each in FAMILIES.values())}
    return sorted((gone & before) | (gone - automatic - ours))


def purge(names: list[str], before: set[str]) -> None:
    """The packages are gone, and what was installed with them and nobody needs any more."""
    idle = unneeded()
    shipped = re.findall(r"(?m)/systemd/system/([^/\n]+\.(?:service|socket|path|timer))$", run("dpkg", "-L", *names))
    run("systemctl", "disable", *shipped)  # not every package takes back the links it made
    apt("purge", "--allow-change-held-packages", *names)
    for _ in range(5):
        spare = sorted((unneeded() - idle) - before)
        if not spare:
            return
        apt("purge", "--allow-change-held-packages", *spare)


def unneeded() -> set[str]:
    """Installed with something that is gone. Not kept for a mere suggestion: nobody had asked for them before us."""
    without = [f"-oAPT::AutoRemove::{each}Important=false" for each in ("Suggests", "Recommends")]
    return set(re.findall(r"(?m)^Remv (\S+)", run("apt-get", "--simulate", *without, "autoremove")))


def foreign_containers() -> list[str]:
    """Names of containers that are not ours."""
    listed = docker("ps", "--all", "--format", "{{.Names}}\t{{.Labels}}")
    return [f"container {line.split()[0]}" for line in listed if not any(label in line for label in LABELS)]


def installed() -> set[str]:
    told = run("dpkg-query", "-W", "-f=${db:Status-Abbrev} ${Package}\n")
    return {line[3:].strip() for line in told.splitlines() if fnmatch.fnmatch(line[:2], "[hi]i")}


def recorded(name: str) -> set[str]:
    """A list of the record; empty without one."""
    path = BEFORE / name
    return set(path.read_text().split()) if path.exists() else set()


def apt(*words: str) -> None:
    """apt-get that waits for its lock and asks nothing; what it says is shown where it fails."""
    options = ["-y", "-q", "-o", "DPkg::Lock::Timeout=600", "-o", "Dpkg::Options::=--force-confold"]
    ran = subprocess.run(["apt-get", *options, *words], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"apt-get {' '.join(words)}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")


ENVIRONMENT = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C.UTF-8"}


def docker(*words: str) -> list[str]:
    """The engine's lines; none where there is no engine."""
    return run("docker", *words).splitlines()


def run(*command: str) -> str:
    """Standard output; a program that is not there, or says no, says nothing."""
    try:
        return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def empty(*paths: str) -> None:
    """The directories are gone; of one that is a mount point the content."""
    for path in paths:
        if path == DATA and os.path.isdir(path):
            set_aside(Path(path))
        if os.path.ismount(path):
            for each in Path(path).iterdir():
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)


def set_aside(data: Path) -> None:
    """Nothing of it has its name any more: a deploy after a removal that was cut takes nothing half for whole."""
    for each in [path for path in data.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] != "."]:
        gone = each.with_name(f".{each.name}.removing")
        shutil.rmtree(gone, ignore_errors=True)
        with contextlib.suppress(OSError):  # one that is mounted there has to keep its name
            each.rename(gone)
    os.sync()


def remove_empty(*folders: Path) -> None:
    for folder in folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def gib(path: str) -> float:
    """Disk a directory takes."""
    told = run("du", "-s", "--block-size=1M", path).split()
    return round(int(told[0]) / 1024, 1) if told else 0.0


def contents(path: str) -> str:
    """Names in a directory; nothing where there is none."""
    return ", ".join(sorted(os.listdir(path))) if os.path.isdir(path) else ""


if __name__ == "__main__":
    sys.exit(main())
