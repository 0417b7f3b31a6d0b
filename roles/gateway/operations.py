"""Commands for the difference between the gateway's facts and the wanted state; pure except for the keys' file."""

from collections.abc import Iterator
from pathlib import Path

from deploy.inventory.gateway_keys import FILE, file_in
from deploy.inventory.key_budgets import check_budgets
from deploy.refusals import Refusal
from deploy.slices.gateway import GatewaySlice
from deploy.slices.host import Slice
from deploy.topology.mutual import common_name
from roles._pyinfra.facts import HostFacts
from roles._pyinfra.steps import Command, Refuse, write
from roles._shipping import apt
from roles._shipping.certificates import Certified
from roles._shipping.places import UNITS, command
from roles._shipping.texts import Text
from roles.gateway.defaults import (
    AUTHORITY,
    CERTIFICATE,
    ENVIRONMENTS,
    FOLDER,
    HOME,
    KEYS,
    SALT,
    SHARED,
    UNIT_PATH,
    USER,
    WANTED,
    Defaults,
)
from roles.gateway.facts import COMPLETE
from roles.gateway.programs import environment_path, publication, unit, version
from roles.gateway.settings import is_beside, rendered
from roles.gateway.wheels import SendWheels

KEYS_HERE = Path(FILE)
"""The control machine's file of `enginehouse key` with hashes of keys."""
NO_KEYS = '{"keys": []}\n'
FOLDER_SEEN = f"2750 root {USER}"
SALT_SEEN = f"640 root {USER}"
WHEELS = f"{HOME}/wheels"


def package(facts: HostFacts) -> Iterator[Command]:
    """Commands that install the packages for virtual environments, and for confining the reader of templates.

    systemd depends on libseccomp2 in Debian 12 (read 2026-11-25); elsewhere it may be missing.
    """
    yield from apt.install({"python3-venv": "", "libseccomp2": ""}, facts.packages)


def environment(facts: HostFacts, gateway: GatewaySlice, chosen: Defaults) -> Iterator[Command]:
    """Commands after which the lock's environment exists. It is named by its content, so it never changes."""
    if facts.value("environment"):
        return
    path = environment_path(gateway)
    yield f"install -d -m 0755 {HOME} {ENVIRONMENTS} {WHEELS}"
    yield SendWheels(gateway.python, WHEELS, chosen)
    pip = f"{path}/bin/python -m pip --isolated --quiet --disable-pip-version-check --no-cache-dir install"
    yield (
        f"set -e; umask 022; rm -rf {path}; /usr/bin/python3 -m venv {path};"
        f" {pip} --no-index --no-deps --find-links {WHEELS} --require-hashes --requirement {WHEELS}/requirements.txt;"
        f" sync -f {path}; rm -rf {WHEELS}; touch {path}/{COMPLETE}"
    )


def published(facts: HostFacts) -> Iterator[Command]:
    if facts.value("version").split()[:1] != [version()]:
        yield publication()


def user(facts: HostFacts) -> Iterator[Command]:
    """Commands that create the user, without a login, and a folder that only root and this user can read."""
    if not facts.value("user"):
        yield f"useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin {USER}"
    if facts.value("folder") != FOLDER_SEEN:
        # setgid, so that files renamed into the folder belong to the group too.
        yield f"install -d -m 2750 -o root -g {USER} {FOLDER}"


def first_keys(facts: HostFacts, gateway: GatewaySlice) -> Iterator[Command]:
    """The command that writes a file without keys if neither the host nor this machine has a file of keys.

    Raises: a Refusal for keys of this machine whose budgets the gateway could not enforce.
    """
    if gateway.keys and KEYS_HERE.exists():
        try:
            content = file_in(KEYS_HERE.read_text("utf-8"), str(KEYS_HERE))
            prices = {name: price.currency for name, price in gateway.prices}
            currencies = {model.name: prices.get(model.name, "") for model in gateway.models}
            aliases = {alias.name: (*alias.models, alias.fallback) for alias in gateway.aliases}
            check_budgets(content, gateway.usage_days, currencies, aliases)
        except Refusal as problem:
            yield Refuse(problem)
    elif gateway.keys and not facts.value("keys"):
        yield write(KEYS, NO_KEYS, "0640")


def salt(facts: HostFacts, mine: Slice, gateway: GatewaySlice) -> Iterator[Command]:
    """The command after which the host has a salt that only root and the gateway can read, made there and never shown.

    If the file is removed, the next run makes a new salt, and cached prefixes of all tenants become unusable.
    """
    if gateway.has_salt(is_beside(mine)) and facts.value("salt") != SALT_SEEN:
        yield (
            f"set -e; umask 077; [ -s {SALT} ] || {{ od -An -vtx1 -N32 /dev/urandom | tr -d ' \\n' > {SALT}.new;"
            f' test "$(wc -c < {SALT}.new)" -eq 64; sync {SALT}.new; mv -T {SALT}.new {SALT}; }};'
            f" chown root:{USER} {SALT}; chmod 0640 {SALT}; touch -c {WANTED}"
        )


def texts(mine: Slice, gateway: GatewaySlice) -> list[Text]:
    """The gateway's unit and settings, and its file of keys if the control machine has it."""
    wanted = [unit(gateway), Text(WANTED, rendered(mine, gateway), "0640")]
    if gateway.keys and KEYS_HERE.exists():
        wanted.append(Text(KEYS, KEYS_HERE.read_text("utf-8").rstrip("\n") + "\n", "0640"))
    return wanted


def certified(mine: Slice, folder: Path) -> Certified:
    """The gateway's certificate for servers of other hosts; running processes read it with the settings."""
    assert mine.mutual, "a gateway that sends to other hosts has an address for them"
    return Certified(
        path=CERTIFICATE,
        authority=AUTHORITY,
        use="client",
        name=common_name(mine.host),
        address=mine.mutual.address,
        folder=folder,
        then=f"touch -c {WANTED}",
        owner=f"root:{USER}",
        mode="0640",
    )


def in_force(differs: list[str]) -> Iterator[Command]:
    if differs:
        yield f"{command('gateway')} follow"


def restored(is_there: bool) -> Iterator[Command]:
    if is_there:
        yield f"{command('gateway')} restore"


def retired(is_left: bool) -> Iterator[Command]:
    if is_left:
        yield (
            f"systemctl stop 'enginehouse-gateway@*.service'; rm -rf {HOME} {FOLDER} {SHARED}"
            f" {UNITS}/multi-user.target.wants/enginehouse-gateway@*.service && rm -f {UNIT_PATH}"
            " && systemctl daemon-reload"
        )
