"""Refusals of sources: the hub, mirrors of apt repositories, Docker's data directory."""

import os.path
import re
from collections.abc import Iterator

from deploy.refusals import Refusal, refuse
from deploy.spec import Host
from deploy.validation.paths import path_problems
from deploy.validation.urls import url_in, url_problems

URL = re.compile(r"https?://[\w.~%+@:=,\[\]-]+([/?][\w.~%+@:=,&?#/-]*)?", re.ASCII)
DATA_ROOT = re.compile(r"/[\w.@+/-]*", re.ASCII)
TAKEN = re.compile(
    r"/+|/(?:bin|boot|dev|etc|home|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)"
    r"|/(?:boot|dev|etc|proc|run|sys|tmp|var/run|var/tmp)/.*|/var/(?:lib|tmp|run|log|cache)"
)
"""Directories of the system, and directories with all content that a boot empties or that hold no data."""
USERNAME = re.compile(r"[\w$][\w.$@+=/-]*", re.ASCII)
"""A registry's user name. It has no colon, because a colon begins the password of a login (RFC 7617)."""


def source_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for every address or path of one host that cannot be valid."""
    mirrors = {name: mirror for name, mirror in vars(host.mirrors).items() if mirror}
    urls = {"hub.endpoint": host.hub.endpoint} | {f"mirrors.{name}.url": mirror.url for name, mirror in mirrors.items()}
    for where, url in urls.items():
        if not URL.fullmatch(url):
            yield refuse(
                "bad-url",
                f"{url!r} is not a URL",
                where=where,
                seen=repr(url),
                wanted="http:// or https://, a host, and the path of the mirror's copy",
                attempt=_url_meant(url),
            )
    yield from url_problems(host)
    yield from path_problems(host)
    for name, mirror in mirrors.items():
        if not mirror.key_file:
            yield refuse(
                "unsigned-mirror",
                f"the mirror of {name} has no signing key, and unsigned packages are not installed",
                where=f"mirrors.{name}.key_file",
                seen="''",
                wanted="the file with its public key on this machine",
                attempt=f'AptMirror(url="{mirror.url}", key_file="keys/{name}.asc")',
            )
    name, colon, _ = host.registry.username.partition(":")
    hidden = name if colon and USERNAME.fullmatch(name) else ""
    if not USERNAME.fullmatch(host.registry.username):
        yield refuse(
            "registry-username",
            f"{hidden!r} with a colon cannot be a user name of a registry"
            if hidden
            else f"{host.registry.username!r} cannot be a user name of a registry",
            where="registry.username",
            seen=repr(host.registry.username) if not hidden else f"{hidden!r}, a colon and more, not shown",
            wanted="letters, digits and . _ $ @ + = / -; what follows a colon is a password",
            attempt=f'Registry(username="{hidden}", key=Secret.env("REGISTRY_KEY"))'
            if hidden
            else "Registry(key=…), without a username, for nvcr.io; else as `docker login` takes it",
        )
    yield from _data_root(host)


def _url_meant(text: str) -> str:
    """The URL in a line for apt, or the text as a URL; else the form of a URL."""
    if re.search(r"\.(?:asc|gpg|pem|key|crt)$", text) and "://" not in text:
        return f'url="https://HOST/PATH", key_file="{text}"'
    url = url_in(text)
    url = url if "://" in url else f"https://{url.strip().removeprefix('//')}"
    return f'"{url}"' if URL.fullmatch(url) else '"https://HOST/PATH"'


def _data_root(host: Host) -> Iterator[Refusal]:
    """A refusal for a data directory of Docker that is invalid, is lost at a boot, or belongs to another program."""
    wanted = os.path.normpath(host.docker.data_root or "/var/lib/docker")
    if host.docker.data_root and DATA_ROOT.fullmatch(host.docker.data_root) and TAKEN.fullmatch(wanted):
        yield refuse(
            "data-root-of-others",
            f"Docker's data in {wanted} would be lost at a reboot, or mix with files of other programs",
            where="docker.data_root",
            seen=repr(host.docker.data_root),
            wanted="a directory only for Docker, on a disk that stays",
            attempt='Docker(data_root="/var/lib/enginehouse/docker")',
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
