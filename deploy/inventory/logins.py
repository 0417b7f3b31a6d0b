"""Logins to hosts: names and SSH settings, which become words of ssh commands and lines of ssh_config."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deploy.catalog.connection_keys import (
    DICTIONARIES,
    NUMBERS,
    OPERATION_KEYS,
    OUT_OF_STEP,
    PASSWORDS,
    SSH_KEYS,
    SWITCHES,
    TEXTS,
)
from deploy.catalog.names import nearest, offer
from deploy.inventory.login_files import login_file_problems
from deploy.inventory.login_texts import filled, hosts_in, is_placeholder, parts_of, setting_meant
from deploy.inventory.misplaced_keys import elsewhere
from deploy.inventory.reach import is_address, is_name
from deploy.refusals import Refusal, described, kind_of, refuse, shortened, typed_out

HOST = re.compile(r"@?[A-Za-z0-9_:][\w.:%/@+-]*", re.ASCII)
_USER = (re.compile(r"[A-Za-z0-9_][\w.@\\-]*\$?", re.ASCII), "the name of a user")
USERS = ("ssh_user", "_sudo_user", "_su_user", "_doas_user", "_dzdo_user")
LOGIN = {
    **dict.fromkeys(USERS, _USER),
    "ssh_strict_host_key_checking": (re.compile(r"accept-new|yes|no|off|ask"), "yes, accept-new, no, off or ask"),
    **dict.fromkeys(
        ("ssh_key", "ssh_config_file", "ssh_known_hosts_file"), (re.compile(r"[^-\"'][^\"']*"), "the path of a file")
    ),
}
"""Host data that becomes words of ssh's command line and lines of its configuration, with the form of each value."""
READ = (*SSH_KEYS, *OPERATION_KEYS)


def login_problems(name: str, data: Mapping[str, Any]) -> list[Refusal]:
    """A refusal for a host's name, and for each of its connection settings, that would not reach the intended host."""
    problems = [] if name.startswith("@") and HOST.fullmatch(name) else list(_address("name", name))
    if data.get("ssh_hostname") is not None:
        problems += _address("ssh_hostname", data["ssh_hostname"])
    problems += [*_port(data.get("ssh_port")), *_words(data), *_switches(data), *_numbers(data), *_kinds(data)]
    problems += [*_users(name, data), *login_file_problems(data)]
    return [*problems, *_out_of_step(data), *_unread(data), *_passwords(data), *_secret_name(name)]


def _secret_name(name: str) -> Iterator[Refusal]:
    for _where, kind in typed_out(name, "name"):
        yield refuse(
            "literal-secret",
            "the name of a host is a secret",
            where="name",
            seen=f"{kind}, not shown",
            wanted="the host's name or address",
            attempt="write the name of the variable; the value is in a file now, so make a new one",
        )


def _address(key: str, value: object) -> Iterator[Refusal]:
    """A refusal for a host's name or address with other parts in it; the refusal names the key of each part."""
    if isinstance(value, str) and (is_name(value) or is_address(value)) and not is_placeholder(value):
        return
    text = value if isinstance(value, str) else ""
    user, address, port = parts_of(text, LOGIN["ssh_user"][0])
    extra = [f'"ssh_user": "{user}"'] if user else []
    extra += [f'"ssh_port": {port}'] if port else []
    is_usable = (is_name(address) or is_address(address)) and address != text
    host = f'("{address}", {{{", ".join(extra)}}})' if key == "name" and extra else f'"{address}"'
    several = hosts_in(text) if key == "name" else []
    plain = f'"ssh_hostname": "{address}"' + "".join(f", {pair}" for pair in extra)
    yield refuse(
        "unsafe-login",
        f"`{key}` of a host is not a usable name or address",
        where=key,
        seen=shortened(text) if isinstance(value, str) else described(value),
        wanted="letters, digits and . _ -, or the IP address of one host; user and port have their own settings",
        attempt=(host if key == "name" else plain)
        if is_usable
        else f"{', '.join(several[:4])}{', …' if len(several) > 4 else ''}   each host is an entry of the list"
        if several
        else f'"{key}": {filled(text)}'.removeprefix('"name": ')
        if filled(text)
        else "the host's name or address; options for ssh belong in the file that ssh_config_file names",
    )


def _port(value: object) -> Iterator[Refusal]:
    is_port = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65_535
    if value is None or is_port:
        return
    digits = re.search(r"[0-9]{1,5}", value) if isinstance(value, str) else None
    number = int(digits[0]) if digits and 1 <= int(digits[0]) <= 65_535 else 22
    yield refuse(
        "unsafe-login",
        "`ssh_port` of a host is not a port",
        where="ssh_port",
        seen=shortened(value)
        if isinstance(value, str)
        else f"{value:,}"
        if type(value) is int and abs(value) < 1e9
        else described(value),
        wanted="a whole number, 1 to 65535",
        attempt=f'"ssh_port": {number}' + (", or leave it out" if number == 22 else ""),
    )


def _words(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key, (form, words) in LOGIN.items():
        value = data.get(key)
        if value is None or value == "":
            continue
        if is_placeholder(value) or not isinstance(value, str) or not (form.fullmatch(value) and value.isprintable()):
            yield refuse(
                "unsafe-login",
                f"`{key}` of a host is not a valid value for ssh",
                where=key,
                seen=shortened(value) if isinstance(value, str) else described(value),
                wanted=words,
                attempt=setting_meant(key, form, value),
            )


def _users(name: str, data: Mapping[str, Any]) -> Iterator[Refusal]:
    """A refusal for each user with a host behind the @; only a directory service's users have a domain there."""
    for key in USERS:
        value = data.get(key)
        if not isinstance(value, str) or "@" not in value or not LOGIN[key][0].fullmatch(value):
            continue
        user, _, domain = value.partition("@")
        if user == "root" or "." not in domain or is_address(domain) or domain in (name, data.get("ssh_hostname")):
            yield refuse(
                "unsafe-login",
                f"`{key}` of a host takes a user without a host",
                where=key,
                seen=shortened(value),
                wanted="the name of a user, with a domain behind the @ only if a directory gave it one",
                attempt=f'"{key}": "{user}"',
            )


def _switches(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key in SWITCHES:
        if (value := data.get(key)) is not None and not isinstance(value, bool):
            yield refuse(
                "unsafe-login",
                f"`{key}` of a host takes True or False only",
                where=key,
                seen=described(value),
                wanted="True or False",
                attempt=f'"{key}": True',
            )


def _numbers(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key, (least, most, unit) in NUMBERS.items():
        value = data.get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (is_number and least <= value <= most):
            yield refuse(
                "unsafe-login",
                f"`{key}` of a host is not an accepted number of {unit}",
                where=key,
                seen=f"{value:g}" if is_number and abs(value) < 1e9 else described(value),
                wanted=f"{least:,} to {most:,} {unit}",
                attempt=f'"{key}": {max(least, 30)}, or leave it out',
            )


def _kinds(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key, kind in {**dict.fromkeys(TEXTS, str), **dict.fromkeys(DICTIONARIES, dict)}.items():
        value = data.get(key)
        is_text = kind is str and isinstance(value, str) and value.isprintable()
        if key == "_shell_executable" and isinstance(value, str) and is_text and " " in value.strip():
            yield refuse(
                "unsafe-login",
                f"`{key}` of a host is a program without options: pyinfra adds -c itself",
                where=key,
                seen=shortened(value),
                wanted="the name or path of a shell",
                attempt=f'"{key}": "{value.split()[0]}"',
            )
        if value is not None and not is_text and not (kind is dict and isinstance(value, dict)):
            yield refuse(
                "unsafe-login",
                f"`{key}` of a host has to be {kind_of(kind.__name__)}",
                where=key,
                seen=described(value),
                wanted=kind_of(kind.__name__) + (" of printable characters" if kind is str else ""),
                attempt=f"leave {key} out, or write {kind_of(kind.__name__)}",
            )


def _out_of_step(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key in OUT_OF_STEP:
        if data.get(key) not in (None, False):
            yield refuse(
                "out-of-step",
                f"`{key}` in a host's data holds for every step of a run: gates would open for hosts that failed",
                where=key,
                seen=f"`{key}`",
                wanted="arguments that say how commands run, such as _sudo, _env and _temp_dir",
                attempt=f"take {key} out",
            )


def _unread(data: Mapping[str, Any]) -> Iterator[Refusal]:
    for key in data:
        if key.startswith(("ssh_", "_")) and key not in READ:
            yield refuse(
                "unknown-key",
                f"nothing reads the data key `{key}`",
                where=key,
                seen=f"`{key}`",
                wanted="a setting of pyinfra's connection or operations; your own roles' keys begin with `own_`",
                attempt=_instead(key),
            )


def _instead(key: str) -> str:
    """The intended key; for a key like a password's, the setting to use instead of a password."""
    if attempt := elsewhere(key):
        return attempt
    if not difflib.get_close_matches(key, READ, n=1, cutoff=0.75):
        return f'"own_{key.lstrip("_")}"'
    near = nearest(key, READ)
    return PASSWORDS.get(near, offer(key, READ))


def _passwords(data: Mapping[str, Any]) -> Iterator[Refusal]:
    """A refusal for each password and other secret in the keys of pyinfra and of an operator's own roles."""
    for key, instead in PASSWORDS.items():
        if value := data.get(key):
            length = f"{len(value)} characters, " if isinstance(value, str) else ""
            yield refuse(
                "literal-secret",
                f"`{key}` holds a password, which pyinfra keeps as text and prints with a host's data",
                where=key,
                seen=f"{described(value)}, {length}not shown",
                wanted="a login without a typed password",
                attempt=instead,
            )
    strings = {key: value for key, value in data.items() if key.startswith(("ssh_", "_", "own_"))}
    for where, kind in typed_out({key: value for key, value in strings.items() if key not in PASSWORDS}, "data"):
        yield refuse(
            "literal-secret",
            "host data holds a secret, which pyinfra prints with a host's data",
            where=where.removeprefix('data["').replace('"]', "", 1),
            seen=f"{kind}, not shown",
            wanted="no secret in any text of an inventory",
            attempt='os.environ["NAME"] inside your own role, or Secret.env("NAME"); this one is in a file now, so '
            "make a new one",
        )


def one_machine_twice(places: Iterable[tuple[str, tuple[str, int, str]]]) -> list[Refusal]:
    """A refusal for each host with the address of a host before it: two plans would work on one machine."""
    first: dict[tuple[str, int, str], str] = {}
    twice = [(first.setdefault(place, name), name, place) for name, place in places]
    return [
        refuse(
            "one-machine-twice",
            f"{known} and {name} are one machine: both are reached at {address}, port {port}",
            where="ssh_hostname",
            seen=f"{address}, port {port}, under two names",
            wanted="one name for one machine",
            attempt=f"take {known} or {name} out, or correct its ssh_hostname or ssh_port",
        )
        for known, name, (address, port, _config) in twice
        if known != name
    ]
