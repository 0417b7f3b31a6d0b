"""Keeps an image as in its registry: index, manifest, config and layers, byte for byte, each named by its sha256.

Docker forgets digests when it loads an archive (moby#22011, #43570). So hosts share these blobs, and Docker pulls them
by the pinned digest (host.loopback). Of an index only linux/amd64 is kept. A complete directory has manifest.sha256 and
is published by rename; earlier partial downloads are resumed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from host import disk, fetch, hub

TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
PLATFORM = {"os": "linux", "architecture": "amd64"}
TOKEN_HOSTS = {
    "nvcr.io": {"authn.nvidia.com"},
    "registry-1.docker.io": {"auth.docker.io"},
    "registry.gitlab.com": {"gitlab.com"},
}
"""Hosts of the same operator that make tokens for a registry, as on the control machine (deploy/io/registry.py)."""
LARGEST = 1 << 24
"""Bytes of an index or a manifest; registries accept at most 4 MiB."""


class NotGiven(Exception):
    """The registry refuses, or sends content that differs from the digest."""


class Origin:
    """A repository of the registry with the image; the key is sent if the registry requires one."""

    def __init__(self, reference: str, username: str, key: str, ca_file: str = "") -> None:
        name = reference.partition("@")[0]
        host, _, path = name.partition("/")
        if not path or not ("." in host or ":" in host or host == "localhost"):
            host, path = "docker.io", name
        if host == "docker.io":
            host, path = "registry-1.docker.io", path.removeprefix("docker.io/")
            path = path if "/" in path else f"library/{path}"
        # As in Docker, only a registry on loopback may be without TLS.
        self.scheme = "http" if host.partition(":")[0] in ("127.0.0.1", "localhost") else "https"
        self.root, self.path = f"{self.scheme}://{host}/v2/{path}", path
        self.basic = f"Basic {base64.b64encode(f'{username}:{key}'.encode()).decode()}" if key else ""
        self.login = ""
        context = ssl.create_default_context()
        if ca_file and Path(ca_file).exists():
            context.load_verify_locations(ca_file)
        self.opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def manifest(self, name: str) -> bytes:
        with self._open(f"/manifests/sha256:{name}") as answer:
            return bytes(answer.read(LARGEST))

    def file(self, name: str, start: int) -> Any:
        return self._open(f"/blobs/sha256:{name}", start)

    def _open(self, path: str, start: int = 0) -> Any:
        """An open answer; a missing or expired login is renewed once."""
        try:
            return self._ask(path, start)
        except urllib.error.HTTPError as error:
            login = self._renewed(error.headers.get_all("WWW-Authenticate") or []) if error.code == 401 else ""
            if not login:
                raise self._problem_of(error) from None
        self.login = login
        try:
            return self._ask(path, start)
        except urllib.error.HTTPError as error:
            raise self._problem_of(error) from None

    def _ask(self, path: str, start: int) -> Any:
        request = urllib.request.Request(self.root + path, headers={"Accept": ", ".join(TYPES)})
        if self.login:
            request.add_unredirected_header("Authorization", self.login)  # not sent to the host of a redirect
        if start:
            request.add_header("Range", f"bytes={start}-")
        return self.opener.open(request, timeout=60)

    def _renewed(self, challenges: list[str]) -> str:
        """The header that answers a challenge; empty without an answer."""
        kinds = {kind.lower(): rest for kind, _, rest in (entry.partition(" ") for entry in challenges)}
        if "bearer" not in kinds:
            return self.basic if "basic" in kinds else ""
        challenge = dict(re.findall(r'\b(\w{1,64})="([^"]*)"', kinds["bearer"]))
        if not self._may_have_login(challenge.get("realm", "")):
            return ""
        query = {"service": challenge.get("service", ""), "scope": f"repository:{self.path}:pull"}
        request = urllib.request.Request(f"{challenge['realm']}?{urllib.parse.urlencode(query)}")
        if self.basic:
            request.add_unredirected_header("Authorization", self.basic)
        try:
            with self.opener.open(request, timeout=60) as answer:
                made = json.loads(answer.read(LARGEST))
            token = str(made.get("token") or made["access_token"])
        except urllib.error.HTTPError as error:
            raise self._problem_of(error) from None
        except (ValueError, LookupError, AttributeError, RecursionError):
            token = ""
        return f"Bearer {token}" if re.fullmatch(r"[!-~]+", token) else ""

    def _may_have_login(self, realm: str) -> bool:
        """True for the registry's own host, or one of its operator's, over TLS; any host if there is no key to send."""
        try:
            place, registry = urllib.parse.urlsplit(realm), urllib.parse.urlsplit(self.root).hostname or ""
        except ValueError:
            return False
        if place.scheme not in {"https", self.scheme} or not place.hostname or "@" in place.netloc:
            return False
        return not self.basic or place.hostname == registry or place.hostname in TOKEN_HOSTS.get(registry, ())

    def _problem_of(self, error: urllib.error.HTTPError) -> Exception:
        """The exception for the registry's answer: a temporary failure is returned unchanged, so that it is retried."""
        if error.code >= 500 or error.code in fetch.ASK_AGAIN:
            return error
        words = {401: "unauthorized", 403: "denied"}.get(error.code, "the registry does not have this content")
        return NotGiven(f"{words} (HTTP {error.code} of {urllib.parse.urlsplit(error.url).netloc})")


def keep(origin: Origin, digest: str, directory: Path) -> None:
    """Fetches every blob of the image into the directory. Raises `NotGiven` or OSError; correct blobs are kept."""
    if (directory / fetch.MANIFEST).exists():
        return
    staging = directory.with_name(f".{directory.name}.partial")
    staging.mkdir(parents=True, exist_ok=True)
    texts, blobs = parts(digest, lambda name: _manifest(origin, name, staging))
    try:
        fetch.need_space(staging, blobs)
        progress = fetch.Progress(sum(blob.size for blob in blobs))
        with ThreadPoolExecutor(fetch.AT_ONCE) as pool:
            list(pool.map(lambda blob: fetch.download(origin.file, blob, staging, progress), blobs))
    except hub.Refused as problem:
        raise NotGiven(str(problem)) from None
    fetch.publish(staging, directory, {name: name for name in (*texts, *(blob.path for blob in blobs))})


def parts(digest: str, read: Callable[[str], bytes]) -> tuple[list[str], list[fetch.WantedFile]]:
    """Names of index and manifest, and the config and the layers behind them. Raises `NotGiven`."""
    texts, content = [digest.removeprefix("sha256:")], json.loads(read(digest.removeprefix("sha256:")))
    if "manifests" in content:
        ours = [
            manifest
            for manifest in content["manifests"]
            if PLATFORM.items() <= (manifest.get("platform") or {}).items()
        ]
        if not ours:
            raise NotGiven(f"{digest} has nothing for {PLATFORM['os']}/{PLATFORM['architecture']}")
        texts.append(hex_of(ours[0]["digest"]))
        content = json.loads(read(texts[-1]))
    named = {hex_of(blob["digest"]): int(blob["size"]) for blob in (content["config"], *content["layers"])}
    return texts, [fetch.WantedFile(name, size, name, "") for name, size in named.items()]


def hex_of(digest: str) -> str:
    """The hex digits of a sha256 digest, which name the blob here. Raises `NotGiven` for another digest."""
    if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        raise NotGiven(f"{digest} is not a sha256 digest")
    return digest.removeprefix("sha256:")


def _manifest(origin: Origin, name: str, staging: Path) -> bytes:
    """An index or manifest that matches its digest, from `staging` or else from the registry. Raises `NotGiven`."""
    path = staging / name
    if not path.is_file() or disk.sha256(path) != name:
        content = fetch.patiently(name, lambda: origin.manifest(name))
        if hashlib.sha256(content).hexdigest() != name:
            raise NotGiven(f"the content received as sha256:{name} has another digest")
        disk.write(path, content)
    return path.read_bytes()
