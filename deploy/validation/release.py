"""Release, image and driver of one host: known, still maintained, and able to run together."""

import re
from collections.abc import Iterator
from datetime import date, timedelta

from deploy.catalog import (
    ARCHITECTURES,
    BRANCH_WARNING_DAYS,
    CHECKPOINTS,
    DEFAULT_RELEASE,
    DRIVER_BRANCHES,
    RELEASES,
    TOOLKIT_FLOOR,
)
from deploy.catalog.names import offer
from deploy.catalog.releases import FLOOR_CUDA_12, LAST_WITH_CUDA_12
from deploy.catalog.versions import at_least, version
from deploy.models.paths import choose_path
from deploy.models.resolve import release_row
from deploy.refusals import Refusal, refuse
from deploy.spec import Driver, Host, Release

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
VERSION = re.compile(r"[0-9][\w.+~:-]*", re.ASCII)
DRIVER_VERSION = re.compile(r"[0-9]{3}\.[0-9]{2,3}\.[0-9]{2}(?![0-9.])", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,63}", re.ASCII)
IMAGE = re.compile(r"[A-Za-z0-9][\w.-]*(:[0-9]+)?(/[\w.-]+)+(:[\w.-]+)?", re.ASCII)
STANDS = "Driver(manage=False), without a branch: preflight then reads the installed driver"
OFFERED = [row.name for row in RELEASES.values() if row.offered]


def release_problems(host: Host, today: date) -> Iterator[Refusal]:
    """A refusal for each mistake in a host's release, digest, driver or toolkit."""
    yield from _release(host.release)
    yield from _digests(host)
    yield from driver_problems(host, today)
    for where, text in (("toolkit.version", host.toolkit.version), ("driver.version", host.driver.version)):
        if text and not VERSION.fullmatch(text):
            yield refuse(
                "no-version",
                f"{text!r} is not a version",
                where=where,
                seen=repr(text),
                wanted="digits first, then letters, digits and . _ + ~ : -, as apt shows them",
                attempt=_version_meant(where, text),
            )
    is_version = not host.toolkit.version or VERSION.fullmatch(host.toolkit.version)
    if is_version and not at_least(host.toolkit.version, TOOLKIT_FLOOR):
        yield refuse(
            "toolkit-too-old",
            f"container toolkit {host.toolkit.version or '(no version)'} is below {TOOLKIT_FLOOR}",
            where="toolkit.version",
            seen=f"{host.toolkit.version!r}",
            wanted=f"{TOOLKIT_FLOOR} or newer: CVE-2026-24260 lets a container reach the host's files",
            attempt='Toolkit(version="1.20.0-1"), or leave it out',
        )


def _version_meant(where: str, text: str) -> str:
    """The version behind a `v` or a sign in front of it; the command that lists versions if the text has no version."""
    bare = re.sub(r"^[vV=><~^ ]+|\s+$", "", text)
    if bare != text and VERSION.fullmatch(bare):
        cls = "Driver" if where.startswith("driver") else "Toolkit"
        return f'{cls}(version="{bare}")' if cls == "Driver" or "-" in bare else f'{cls}(version="{bare}-1")'
    return "apt-cache policy on a host lists versions; or leave it out"


def _release(release: str | Release) -> Iterator[Refusal]:
    own = isinstance(release, Release)
    name = release.derived_from if isinstance(release, Release) else release
    where = "release.derived_from" if own else "release"
    if isinstance(release, Release) and release.size_mib < 0:
        yield refuse(
            "image-size",
            f"an image of {release.size_mib} MiB is not possible",
            where="release.size_mib",
            seen=str(release.size_mib),
            wanted="MiB of the download, or 0 for the size in the row of derived_from",
            attempt="`docker manifest inspect IMAGE` lists the sizes of its layers; or leave size_mib out",
        )
    if isinstance(release, Release):
        yield from _own_words(release)
    row = RELEASES.get(name)
    if row is None:
        yield refuse(
            "unknown-release",
            f"release {name} is not in the catalog",
            where=where,
            seen=repr(name),
            wanted=f"one of {', '.join(OFFERED)}; {DEFAULT_RELEASE} unless there is a reason",
            attempt=f'release="{DEFAULT_RELEASE}", or --data release={DEFAULT_RELEASE}; without either it is that one'
            if not name
            else f'release="{known}"'
            if (known := _release_of_tag(name))
            else f"{offer(name, OFFERED)}; an image of your own: Release(name=…, derived_from=…)",
        )
    elif not row.offered:
        kind = "release-without-trtllm" if not row.trtllm else "release-not-offered"
        yield refuse(
            kind,
            f"release {name} is in the catalog and not served here",
            where=where,
            seen=f"{name}: Triton {row.triton_core}, TensorRT-LLM {row.trtllm or 'none'}, CUDA {row.cuda}",
            wanted=f"one of {', '.join(OFFERED)}",
            attempt=row.instead,
        )


def _own_words(release: Release) -> Iterator[Refusal]:
    """A refusal for each text of a custom release that does not fit its field."""
    versions = "a version: digits first, then letters, digits and . _ + ~ : -"
    rows = [
        ("name", release.name, NAME, "letters, digits and . _ + -", "mine"),
        ("image", release.image, IMAGE, "registry/path:tag; the digest is apart", "registry.example/triton:mine"),
        ("triton_core", release.triton_core, VERSION, versions, RELEASES[DEFAULT_RELEASE].triton_core),
        ("trtllm", release.trtllm, VERSION, versions, RELEASES[DEFAULT_RELEASE].trtllm),
        *(("repairs", repair, NAME, "names of repairs", release.name) for repair in release.repairs),
    ]
    for field, text, form, wanted, example in rows:
        if (text or field == "name") and not form.fullmatch(text):
            yield refuse(
                "release-word",
                f"{text!r} cannot be the {field} of a release",
                where=f"release.{field}",
                seen=repr(text),
                wanted=wanted,
                attempt=f'Release({field}="{example}", …)' if field != "repairs" else "Release(…), without repairs",
            )


def _digests(host: Host) -> Iterator[Refusal]:
    own = host.release if isinstance(host.release, Release) else None
    for where, digest in (("image_digest", host.image_digest), ("release.digest", own.digest if own else "")):
        if digest and not DIGEST.fullmatch(digest):
            yield refuse(
                "malformed-digest",
                f"`{where}` is not an image digest",
                where=where,
                seen=repr(digest),
                wanted="sha256: and 64 lower-case hex digits",
                attempt="enginehouse pin INVENTORY asks the registry and writes it",
            )
    if own and own.digest and host.image_digest and own.digest != host.image_digest:
        yield refuse(
            "two-digests",
            "the image has two digests",
            where="image_digest",
            seen=f"{host.image_digest[:19]}… here, {own.digest[:19]}… in release.digest",
            wanted="one of them",
            attempt="remove image_digest; the release's own digest is enforced",
        )


def driver_problems(host: Host, today: date) -> Iterator[Refusal]:
    """A refusal for each mistake in the driver declared for one host."""
    driver, row = host.driver, release_row(host.release)
    branch = DRIVER_BRANCHES.get(driver.branch)
    if branch is None:
        yield refuse(
            "unknown-driver-branch",
            f"driver branch {driver.branch} is not in the catalog",
            where="driver.branch",
            seen=repr(driver.branch),
            wanted=f"one of {', '.join(_living(today))}",
            attempt=f'branch="{number}", version="{driver.branch}"'
            if (number := driver.branch.partition(".")[0]) in _living(today) and DRIVER_VERSION.fullmatch(driver.branch)
            else f'branch="{number}"'
            if number in _living(today)
            else offer(driver.branch, _living(today)),
        )
        return
    if branch.ends < today:
        yield refuse(
            "ended-driver-branch",
            f"driver branch {branch.name} ended on {branch.ends}",
            where="driver.branch",
            seen=f"{branch.name!r}, {branch.kind}: no security fixes for {(today - branch.ends).days} days",
            wanted=f"a living branch: {', '.join(_living(today))}",
            attempt='Driver(branch="580"), long-term support until 2028-08-31' if driver.manage else STANDS,
        )
    mistyped = bool(driver.version and not DRIVER_VERSION.fullmatch(driver.version))
    if mistyped and VERSION.fullmatch(driver.version):
        whole = DRIVER_VERSION.match(driver.version)
        yield refuse(
            "no-driver-version",
            f"{driver.version!r} is not a driver version: no package or kernel module has it",
            where="driver.version",
            seen=repr(driver.version),
            wanted="three numbers, as nvidia-smi shows them, without a package's revision: 580.178.04",
            attempt=f'Driver(version="{whole.group()}")' if whole else "leave version out, for the branch's newest",
        )
    elif driver.version and not mistyped and version(driver.version)[:1] != version(driver.branch)[:1]:
        yield refuse(
            "driver-version-of-another-branch",
            f"driver version {driver.version} is not of branch {driver.branch}",
            where="driver.version",
            seen=repr(driver.version),
            wanted=f"a version that starts with {driver.branch}.",
            attempt=f'Driver(branch="{driver.branch}"), without a version, takes the newest of the branch',
        )
    if row and not mistyped and not _reaches(driver, row.floor):
        yield refuse(
            "driver-below-floor",
            f"driver {driver.version or driver.branch} is too old for release {row.name}",
            where="driver.version" if driver.version else "driver.branch",
            seen=driver.version or f"branch {driver.branch}",
            wanted=f"{row.floor} or newer, the floor of CUDA {row.cuda}",
            attempt=('Driver(branch="580")' if driver.manage else STANDS) + _older(host),
        )


def _older(host: Host) -> str:
    """A release with a lower floor, if every model of the host is served by its TensorRT-LLM; else ""."""
    trtllm = RELEASES[LAST_WITH_CUDA_12].trtllm
    known = [
        ARCHITECTURES[CHECKPOINTS[model.checkpoint].shape.architecture]
        for model in host.llms
        if isinstance(model.checkpoint, str) and model.checkpoint in CHECKPOINTS
    ]
    if not all(choose_path("auto", architecture, trtllm).path for architecture in known):
        return ""
    return f', or release="{LAST_WITH_CUDA_12}", whose floor is {FLOOR_CUDA_12}'


def ending_soon(host: Host, today: date) -> str:
    """A sentence about a driver branch that ends within the warning time; empty otherwise."""
    branch = DRIVER_BRANCHES.get(host.driver.branch)
    if branch is None or not today <= branch.ends < today + timedelta(days=BRANCH_WARNING_DAYS):
        return ""
    return f"driver branch {branch.name} ends on {branch.ends}, in {(branch.ends - today).days} days; 580 lasts to 2028"


def _reaches(driver: Driver, floor: str) -> bool:
    """True if the driver is at least `floor`.

    A branch without a version installs its newest one, so only the branch's number counts.
    """
    return at_least(driver.version, floor) if driver.version else version(driver.branch) >= version(floor)[:1]


def _living(today: date) -> list[str]:
    return [branch.name for branch in DRIVER_BRANCHES.values() if branch.ends >= today]


def _release_of_tag(name: str) -> str:
    """The offered release of an image's tag or name: v26.07, 26.07-trtllm-python-py3; empty for anything else."""
    match = re.fullmatch(r"(?:[\w./-]+:)?v?([0-9]{2}).?([0-9]{1,2})(?:-[\w-]+)?", name)
    # `--data release=26.2` arrives as 26.20, because 25.10 arrives as 25.1.
    tags = [f"{match[1]}.{month}" for month in (match[2], f"0{match[2][0]}")] if match else []
    return next((tag for tag in tags if tag in OFFERED), "")
