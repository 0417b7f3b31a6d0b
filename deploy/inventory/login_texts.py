"""The parts of mistyped texts of a login: several hosts in one text, a URL, user@host:port."""

import re
import unicodedata

from deploy.inventory.reach import is_address, is_name
from deploy.refusals import ForeignObject, described

PLACEHOLDER = re.compile(r"(?i)(?:change[-_]?me|todo|fixme|tbd|your[-_]\w[\w-]*|<.*>|[x*]+(?:\.[x*]+){3}|.*\{\{.*)")
"""Texts of an example that wait for a name or an address."""


def is_placeholder(text: object) -> bool:
    return isinstance(text, str) and PLACEHOLDER.fullmatch(text.strip()) is not None


def filled(text: str) -> str:
    """The probable name: with its braces filled in, without a comment, or without zeros in front of numbers."""
    if is_placeholder(text):
        return '"203.0.113.7"   with the address of your machine'

    if re.fullmatch(r"[\w.-]*\{\w+(?::\w+)?\}[\w.-]*", text):
        return f'f"{text}"   the f in front fills the braces'
    if any(len(label) > 63 for label in text.split(".")) or len(text) > 253:
        return "a shorter name: 63 letters between two dots, 253 in all; or its address in ssh_hostname"
    if quoted := re.fullmatch(r"""(["'`])([\w.-]+)\1""", text):
        return f'"{quoted[2]}"   without the quotes inside it'
    numbers = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})", text)
    if numbers and any(int(number) > 255 for number in numbers.groups()):
        return "an address with four numbers of 0 to 255"
    address = ".".join(str(int(number)) for number in numbers.groups()) if numbers else ""
    bare = (
        "".join(letter for letter in text if letter.isprintable() and unicodedata.category(letter) != "So")
        .partition("#")[0]
        .strip()
        .partition(" ")[0]
    )
    meant = address if is_address(address) else bare if bare != text and (is_name(bare) or is_address(bare)) else ""
    return f'"{meant}"' if meant else ""


def setting_meant(key: str, form: re.Pattern[str], value: object) -> str:
    """The setting without blanks around it, or without the text after a colon; advice if no such setting is likely."""
    if is_placeholder(value):
        return f'"{key}": "ubuntu"   with your own in its place' if key.endswith("_user") else f'"{key}": "PATH"'
    if isinstance(value, str):
        for text in (value.strip(), value.partition(":")[0].strip()):
            if text != value and form.fullmatch(text):
                return f'"{key}": "{text}"'
    if isinstance(value, bool) and form.fullmatch("yes"):
        return f'"{key}": "{"yes" if value else "no"}"'
    if described(value).endswith("Path"):
        return f'"{key}": str(VALUE)'
    if isinstance(value, ForeignObject) and (value.is_choice or described(value) == "a bytes"):
        return f'"{key}": VALUE.{"value" if value.is_choice else "decode()"}'
    return "type it again; options for ssh belong in the file that ssh_config_file names"


def hosts_in(text: str) -> list[str]:
    """Hosts that were typed as one text, quoted: a list with commas or blanks, or one of Ansible's ranges."""
    if match := re.fullmatch(r"([\w.-]*)\[([0-9]{1,4})(?::|-|\.\.)([0-9]{1,4})\]([\w.-]*)", text, re.ASCII):
        first, last = int(match[2]), int(match[3])
        numbers = range(first, min(last, first + 9_999) + 1)
        names = [f"{match[1]}{number:0{len(match[2])}}{match[4]}" for number in numbers]
    else:
        names = [word for word in re.split(r"[,;\s]+", text) if word]
    usable = len(names) > 1 and all(is_name(name) or is_address(name) for name in names)
    return [f'"{name}"' for name in names] if usable else []


def parts_of(text: str, user_form: re.Pattern[str]) -> tuple[str, str, str]:
    """User, address and port in a typed host: a URL, user@host:port, a network."""
    rest = text.strip().partition("://")[2] or text.strip()
    user, _, rest = rest.rpartition("@")
    rest = rest.partition("/")[0]
    if match := re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]{1,5}))?", rest):
        address, port = match[1], match[2] or ""
    elif match := re.fullmatch(r"([^:]+):([0-9]{1,5})", rest):
        address, port = match[1], match[2]
    else:
        address, port = rest, ""
    is_user = user_form.fullmatch(user) is not None
    return user if is_user else "", address, port if port and 1 <= int(port) <= 65_535 else ""
