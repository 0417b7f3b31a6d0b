"""Commands that configure the host's programs for the proxy. Pure except for the password.

A password is read when the files are compared, and sent on standard input, in the two environment files and in apt's
file, which only root can then read. It is in no argument, no unit and no output of systemctl or Docker.
"""

import ipaddress
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from shlex import quote
from urllib.parse import quote as percent

from pyinfra.api.command import PyinfraCommand, StringCommand

from deploy.slices.proxy import ProxySlice
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping import secrets
from roles._shipping.proxy_files import (
    APT,
    DIRECTORY,
    DOCKER_DROP_IN,
    DOCKER_ENVIRONMENT,
    DROP_INS,
    ENVIRONMENT,
    FILES,
    WANTED,
)
from roles._shipping.secrets import described, read

END = "end of what enginehouse wrote"
"""Last line of a file that may hold a password: without this line, a receiver keeps the former file."""


class WithLogin:
    """A file's text with the password in it, as pyinfra's `_stdin`: made when it is sent, shown as its source."""

    def __init__(self, proxy: ProxySlice, path: str) -> None:
        self.proxy, self.path = proxy, path

    def __repr__(self) -> str:
        source = described(self.proxy.password) if self.proxy.password else "no password"
        return f"WithLogin({self.path}, {source})"

    def readlines(self) -> list[str]:
        return texts(self.proxy)[self.path].splitlines(keepends=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self.readlines())


@dataclass(frozen=True)
class Kept:
    """Files without secrets: path and content."""

    wanted: str
    drop_ins: Mapping[str, str]


def kept(proxy: ProxySlice) -> Kept:
    """The files without a password in them."""
    shown = {"url": proxy.url, "username": proxy.username, "direct": proxy.direct, "fleet": proxy.fleet}
    environments = dict.fromkeys(DROP_INS, ENVIRONMENT) | {DOCKER_DROP_IN: DOCKER_ENVIRONMENT}
    return Kept(
        json.dumps(shown, indent=2) + "\n",
        {path: f"[Service]\nEnvironmentFile=-{environment}\n" for path, environment in environments.items()},
    )


def texts(proxy: ProxySlice) -> dict[str, str]:
    """The files with the login, if there is one: both environments and apt's settings."""
    url = with_login(proxy)
    return {
        ENVIRONMENT: _environment(url, (*proxy.direct, *proxy.fleet)),
        DOCKER_ENVIRONMENT: _environment(url, proxy.direct),
        APT: _settings_of_apt(url, (*proxy.direct, *proxy.fleet)),
    }


def with_login(proxy: ProxySlice) -> str:
    """The proxy's URL, with user and password, if declared. Raises: a Refusal if the password cannot be read."""
    if proxy.password is None:
        return proxy.url
    login = f"{percent(proxy.username, safe='')}:{percent(read(proxy.password), safe='')}"
    return proxy.url.replace("http://", f"http://{login}@", 1)


def missing(facts: HostFacts, proxy: ProxySlice) -> Iterator[Command]:
    """Commands after which programs of the host use the proxy; no command if the files are already right.

    If the password is unavailable, a host whose proxy matches otherwise is not changed.
    """
    plain = kept(proxy)
    is_known = facts.holds(WANTED, plain.wanted) and all(path in facts.files for path in FILES)
    problem = secrets.missing(proxy.password)
    if problem is not None and not is_known:
        yield Refuse(problem)
        return
    wanted = {} if problem is not None else texts(proxy)
    for path, content in wanted.items():
        if not facts.holds(path, content):
            yield _placed(proxy, path)
    drop_ins = {path: content for path, content in plain.drop_ins.items() if not facts.holds(path, content)}
    for path, content in drop_ins.items():
        yield write(path, content, then="systemctl daemon-reload")
    if not facts.holds(WANTED, plain.wanted):
        yield write(WANTED, plain.wanted)


def _placed(proxy: ProxySlice, path: str) -> PyinfraCommand:
    """The command that puts a file with a login in its place, readable only by root from its first byte on."""
    mode, new = "0600" if proxy.password else "0644", f"{path}.enginehouse-new"
    directory = f"install -d -m 0755 {DIRECTORY} && " if path.startswith(DIRECTORY) else ""
    return StringCommand(
        f"umask 077 && {directory}cat > {new} && tail -n 1 {new} | grep -q {quote(END)} && chmod {mode} {new}"
        f" && sync {new} && mv -T {new} {path}",
        _stdin=WithLogin(proxy, path),
    )


def _environment(url: str, direct: tuple[str, ...]) -> str:
    values = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), url)
    values |= dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(direct))
    return "".join(f"{name}={value}\n" for name, value in values.items()) + f"# {END}\n"


def _settings_of_apt(url: str, direct: tuple[str, ...]) -> str:
    """apt's settings: single hosts are reached without the proxy, domains and networks through it."""
    lines = [f'Acquire::{scheme}::Proxy "{url}";\n' for scheme in ("http", "https")]
    hosts = [place for place in direct if not place.startswith(".") and not _is_network(place) and ":" not in place]
    lines += [f'Acquire::{scheme}::Proxy::{place} "DIRECT";\n' for place in hosts for scheme in ("http", "https")]
    return "".join(lines) + f"// {END}\n"


def _is_network(place: str) -> bool:
    try:
        return "/" in place and bool(ipaddress.ip_network(place))
    except ValueError:
        return False
