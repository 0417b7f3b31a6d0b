"""Refusals of sources: the hub, mirrors of the apt repositories, Docker's data directory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.spec import Host

URL = re.compile(r"https?://[\w.~%+@:=,\[\]-]+([/?][\w.~%+@:=,&?#/-]*)?", re.ASCII)
DATA_ROOT = re.compile(r"/[\w.@+/-]*", re.ASCII)
USERNAME = re.compile(r"[\w$][\w.$@+:=/-]*", re.ASCII)


def source_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for every address or path of one host that cannot be valid."""
    mirrors = {name: mirror for name, mirror in vars(host.mirrors).items() if mirror}
    urls = {"hub.endpoint": host.hub.endpoint} | {f"mirrors.{name}.url": mirror.url for name, mirror in mirrors.items()}
    for where, url in urls.items():
        if not URL.fullmatch(url):
            yield refuse(
                "bad-url",
                f"{url!r} is no URL",
                where=where,
                seen=repr(url),
                wanted="http:// or https://, a host, and the path up to what the upstream repository has",
                attempt=f'"https://{url.removeprefix("//")}"',
            )
    for name, mirror in mirrors.items():
        if not mirror.key_file:
            yield refuse(
                "unsigned-mirror",
                f"the mirror of {name} names no signing key, and unsigned packages are not installed",
                where=f"mirrors.{name}.key_file",
                seen="''",
                wanted="the file of its public key on this machine",
                attempt=f'AptMirror(url="{mirror.url}", key_file="keys/{name}.asc")',
            )
    if not USERNAME.fullmatch(host.registry.username):
        yield refuse(
            "registry-username",
            f"{host.registry.username!r} is no user name of a registry",
            where="registry.username",
            seen=repr(host.registry.username),
            wanted="letters, digits and . _ $ @ + : = / -",
            attempt="Registry(key=…), without a username, for nvcr.io; else as `docker login` takes it",
        )
    if host.docker.data_root and not DATA_ROOT.fullmatch(host.docker.data_root):
        yield refuse(
            "relative-path",
            f"Docker's data cannot lie at {host.docker.data_root!r}",
            where="docker.data_root",
            seen=repr(host.docker.data_root),
            wanted="an absolute path of letters, digits and . _ @ + -, on the large disk",
            attempt='Docker(data_root="/var/lib/enginehouse/docker")',
        )
