"""Makes a bundle: sizes first, then every part fetched once, then the signed list. The next run resumes an
interrupted one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from deploy.bundle.armour import armour
from deploy.bundle.contents import Contents, Part
from deploy.io.bundle_apt import Apt, Need, united
from deploy.io.bundle_store import MIB, Store, sha256_of, write_list
from deploy.io.bundle_verify import opened, write_verified
from deploy.io.local_paths import local_path
from deploy.io.secrets import read
from deploy.models.files import TOKENIZER_FILES
from deploy.refusals import Refusal
from deploy.slices.host import Slice, WeightsSlice
from deploy.slices.image import ImageSlice
from deploy.spec import EngineTrust

DOWNLOAD = Path(__file__).with_name("bundle_download.py")
STATE = "no bundle was made; what was fetched before is kept"


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request for a bundle: its parts, and the options."""

    slices: tuple[Slice, ...]
    needs: tuple[Need, ...]
    directory: Path
    trust: EngineTrust
    report: Callable[[str], None]
    control: Mapping[str, Path] = field(default_factory=dict)
    """Files for the control machine, by their path below `control/`."""
    base: Path | None = None
    split_mib: int = 0
    today: date


@dataclass(frozen=True)
class Download:
    """An image or a model: the request to the program that fetches it, and its folder in the bundle."""

    folder: str
    source: str
    request: dict[str, Any]
    secret: str

    def ask(self, *, sizes_only: bool) -> dict[str, int]:
        """Bytes of each file. Raises: a Refusal with the answer of the registry or hub."""
        request = self.request | {"secret": self.secret, "sizes_only": sizes_only}
        words = [sys.executable, "-B", str(DOWNLOAD)]
        done = subprocess.run(words, input=json.dumps(request), capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines() or done.stderr.strip().splitlines()
        answer: dict[str, Any] = (
            json.loads(lines[-1]) if done.returncode == 0 else {"problem": (lines or ["no word"])[-1]}
        )
        if "problem" in answer:
            raise Refusal(
                f"{self.source} cannot be bundled",
                facts={"seen": answer["problem"], "wanted": "every file, whole"},
                attempt="correct what it reports (registry.key, hub.token, the network), then type the same "
                "command again",
                state=STATE,
                kind="bundle-not-fetched",
            )
        return dict(answer["files"])

    def files(self) -> dict[str, Path]:
        """The path of each fetched file, by its name."""
        target = Path(self.request["target"])
        if self.request["kind"] == "weights":
            target = target.with_name(f".{target.name}.partial")
        return {str(path.relative_to(target)): path for path in target.rglob("*") if path.is_file()}


def make(order: Order) -> Contents:
    """The finished bundle's list. Raises: a Refusal; fetched parts are kept."""
    confirm_pinned(order.slices)
    store, work = Store(order.directory), order.directory / ".work"
    base = opened(order.base, order.trust) if order.base else Contents(parts=())
    known = known_parts(order, base)
    work.mkdir(parents=True, exist_ok=True)
    apts = [Apt(need, work / f"apt-{number}-{need.os}") for number, need in enumerate(order.needs)]
    for apt in apts:
        order.report(f"{apt.need.os}: reading the lists of {len(apt.need.repositories)} repositories")
        apt.prepare()
    pending = [download for download in downloads(order, work) if not below(known, download.folder)]
    sizes = {download.folder: sum(download.ask(sizes_only=True).values()) for download in pending}
    sizes |= {f"packages for {apt.need.os}": sum(size for *_, size in apt.packages()) for apt in apts}
    confirm_room(order, sizes)
    gathering, stores = _Gathering(order, store, base), [store, *([Store(order.base)] if order.base else [])]
    for apt in apts:
        order.report(f"{apt.need.os}: fetching packages")
        seed(apt, known, stores)
        apt.fetch()
        for fetched in apt.files():
            gathering.take(fetched.path, fetched.file, fetched.source)
        for name, key in apt.keys.items():
            gathering.write(f"keys/{apt.need.os}-{name}.asc", armour(key.read_bytes()).encode(), "the publisher's key")
    for download in downloads(order, work):
        if parts := below(known, download.folder):
            gathering.parts |= {part.path: part for part in parts}
            continue
        order.report(f"fetching {download.source}")
        wanted = download.ask(sizes_only=False)
        for name, file in download.files().items():
            if name in wanted:
                gathering.take(f"{download.folder}/{name}", file, download.source)
    for path, file in order.control.items():
        gathering.take(f"control/{path}", file, "this machine")
    return finish(order, store, gathering, base)


def finish(order: Order, store: Store, gathering: _Gathering, base: Contents) -> Contents:
    """Writes and signs the list; files that no list names are removed."""
    digest = sha256_of(order.base / "bundle.json") if order.base else ""
    contents = Contents(
        parts=tuple(gathering.parts.values()), packages=united(order.needs), made=order.today.isoformat(), base=digest
    )
    write_list(store, contents, order.trust)
    store.forget_others(set(contents.objects) - set(base.objects))
    shutil.rmtree(order.directory / ".work")
    return contents


class _Gathering:
    """Parts that are in the bundle, by their path."""

    def __init__(self, order: Order, store: Store, base: Contents) -> None:
        self.order, self.store, self.base = order, store, base
        self.parts = dict[str, Part]()

    def take(self, path: str, file: Path, source: str) -> None:
        """Adds a file as a part; its object is written unless the base has it."""
        sha256, size = sha256_of(file), file.stat().st_size
        if sha256 not in self.base.objects:
            self.store.keep(file, sha256, size, self.order.split_mib)
        self.parts[path] = Part(path=path, sha256=sha256, size=size, source=source)

    def write(self, path: str, content: bytes, source: str) -> None:
        """Adds a text as a part. Texts are in every bundle, differences included, because keys are beside the list."""
        sha256, size = self.store.write(content)
        self.parts[path] = Part(path=path, sha256=sha256, size=size, source=source)


def known_parts(order: Order, base: Contents) -> dict[str, Part]:
    """Parts that need no fetching: the base's parts, and whole parts of a bundle in this directory."""
    known = dict(base.by_path)
    if (order.directory / "bundle.json").is_file():
        try:
            earlier = opened(order.directory, order.trust)
        except Refusal:
            return known
        store = Store(order.directory)
        here = {part.path: part for part in earlier.parts if store.has(part.sha256, part.size)}
        counts, wanted = Counter(map(folder_of, here)), Counter(folder_of(part.path) for part in earlier.parts)
        known |= {path: part for path, part in here.items() if counts[folder_of(path)] == wanted[folder_of(path)]}
    return known


def seed(apt: Apt, known: Mapping[str, Part], stores: Iterable[Store]) -> None:
    for uri, name, size in apt.packages():
        part, target = known.get(apt.path_of(uri)), apt.archive_of(name)
        store = next((store for store in stores if part and store.has(part.sha256, size)), None)
        if part and store and not target.exists():
            write_verified(store, part.sha256, target)


def folder_of(path: str) -> str:
    """The folder that one download fills: a model's commit, or the first two parts of any other path."""
    return "/".join(path.split("/")[: 4 if path.startswith("weights/") else 2])


def below(parts: Mapping[str, Part], folder: str) -> list[Part]:
    return [part for path, part in parts.items() if path.startswith(f"{folder}/")]


def downloads(order: Order, work: Path) -> Iterator[Download]:
    """The download of each image and of each hub model, once for all hosts that need it."""
    seen = set[str]()
    for mine in order.slices:
        for image in dict.fromkeys((mine.image, *mine.runtime_images)):
            download = image_download(mine, image, work)
            if download.folder not in seen:
                seen.add(download.folder)
                yield download
    weighed = ((mine, weights) for mine in order.slices for weights in mine.weights if weights.repository)
    # A commit has one folder, so the whole files of one host come before another host's tokenizer.
    for mine, weights in sorted(weighed, key=lambda pair: pair[1].files == TOKENIZER_FILES):
        if (download := weights_download(mine, weights, work)).folder not in seen:
            seen.add(download.folder)
            yield download


def image_download(mine: Slice, image: ImageSlice, work: Path) -> Download:
    """The download of an image, with the login of its registry."""
    registry, name = mine.registry_of(image.reference), image.digest.removeprefix("sha256:")
    request = {
        "kind": "image",
        "reference": image.origin_reference,
        "digest": image.digest,
        "username": registry.username,
        "ca_file": str(local_path(registry.ca_file)) if registry.ca_file else "",
        "target": str((work / "images" / name).resolve()),
    }
    return Download(f"images/{name}", image.origin_reference, request, read(registry.key) if registry.key else "")


def weights_download(mine: Slice, weights: WeightsSlice, work: Path) -> Download:
    """The download of a model, with the token of its hub."""
    folder = f"weights/{weights.repository}/{weights.revision}"
    request = {
        "kind": "weights",
        "endpoint": mine.hub.endpoint,
        "repository": weights.repository,
        "revision": weights.revision,
        "files": list(weights.files),
        "ca_file": str(local_path(mine.hub.ca_file)) if mine.hub.ca_file else "",
        "target": str((work / folder).resolve()),
    }
    source = f"{weights.repository} at {weights.revision[:12]}"
    return Download(folder, source, request, read(mine.hub.token) if mine.hub.token else "")


def confirm_pinned(slices: Iterable[Slice]) -> None:
    """Confirms that every image has a digest. Raises: a Refusal for an image without a digest."""
    images = {image.reference: mine for mine in slices for image in (mine.image, *mine.runtime_images)
              if not image.digest}  # fmt: skip
    if images:
        raise Refusal(
            f"{', '.join(sorted(images))} is not pinned, and a bundle holds images by their digest",
            facts={"seen": "only a tag", "wanted": "image_digest, or Release(…, digest=…)"},
            attempt="enginehouse pin INVENTORY",
            state=STATE,
            kind="bundle-unpinned-image",
        )


def confirm_room(order: Order, sizes: Mapping[str, int]) -> None:
    """Prints the sizes. Raises: a Refusal if the disk has no room for the missing parts."""
    for name, size in sizes.items():
        order.report(f"  {size / MIB:>12,.1f} MiB  {name}")
    total, free = sum(sizes.values()), shutil.disk_usage(order.directory).free
    here = sum(file.stat().st_size for file in (order.directory / ".work").rglob("*") if file.is_file())
    order.report(f"  {total / MIB:>12,.1f} MiB  to fetch at most; {free / MIB:,.0f} MiB are free")
    if total - here > free:
        raise Refusal(
            f"{order.directory} has too little room for the bundle",
            facts={"seen": f"{free // MIB:,} MiB free", "wanted": f"{-(-(total - here) // MIB):,} MiB more"},
            attempt="name a directory on a larger disk; or --base BUNDLE for only the difference",
            state=STATE,
            kind="bundle-no-room",
        )


def totals(contents: Contents, names: Sequence[str] = ("apt", "images", "weights", "control")) -> Iterator[str]:
    for name in names:
        yield f"  {contents.size_of(name) / MIB:>12,.1f} MiB  {name}: {len(contents.below(name))} files"
