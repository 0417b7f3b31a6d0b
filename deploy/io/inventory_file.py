"""Checks that a file can be an inventory: it is read and compiled, never run. Refusals name line and column."""

import codecs
import os
import re
import shlex
import sys
import unicodedata
import warnings
from pathlib import Path

from deploy.catalog import CHECKPOINTS
from deploy.catalog.names import nearest
from deploy.io.inventory_slips import silent_slips
from deploy.refusals import Refusal, refuse, refuse_all
from deploy.refusals.quoting import LOOKALIKES
from deploy.spec.sources import HUB_NAME

OTHER_FORMATS = {".yml": "YAML", ".yaml": "YAML", ".ini": "INI", ".cfg": "INI", ".toml": "TOML", ".json": "JSON"}
FIRST_LINE_OF_INI = re.compile(r"\[[\w.:-]+\]$")
FIRST_LINE_OF_YAML = re.compile(r"---|[\w.-]+:$")
HOSTS = re.compile(
    r"@\w+(?:/\S*)?|localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[\w.-]+@[\w.-]+|[\w.@-]+(?:,[\w.@-]+)+", re.ASCII
)
"""Hosts instead of an inventory: a connector, an address, a login, or names with commas."""
EXAMPLE = "inventories/h100.py"
PROGRAMS_AT = Path(__file__).resolve().parents[2]
PROGRAMS = ("build.py", "cells.py", "config.py", "deploy.py", "doctor.py", "remove.py", "rollback.py")
"""Programs of pyinfra beside `inventories/`."""


def confirm_is_python(file: str) -> None:
    """Raises: a Refusal if `file` is missing, a directory, not a text or not Python."""
    path = Path(file)
    if file == "-":
        raise _stream()
    if path.is_file() and path.resolve().parent == PROGRAMS_AT and path.name in PROGRAMS:
        raise _program(path)
    if path.is_dir():
        raise _directory(path)
    if not path.is_file() or file.endswith("/"):
        raise missing(file)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from None
    if text.startswith("\ufeff"):
        raise _marked(file)
    first = next((line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] not in "#;"), "")
    if path.suffix.lower() in OTHER_FORMATS or FIRST_LINE_OF_INI.match(first):
        raise _other_format(file, OTHER_FORMATS.get(path.suffix.lower(), "INI"), first)
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte, before Python 3.12
        if FIRST_LINE_OF_YAML.match(first) and getattr(error, "lineno", 1) == text.splitlines().index(first) + 1:
            raise _other_format(file, "YAML", first) from None
        raise syntax_refusal(error, file) from None
    refuse_all(silent_slips(text, file))


def _stream() -> Refusal:
    return refuse(
        "no-inventory",
        "an inventory is a file, because the files that it names are looked for beside it",
        where="-",
        seen="standard input",
        wanted="a Python file with hosts, such as inventories/h100.py",
        attempt="cat > inventories/mine.py, then enginehouse plan inventories/mine.py",
    )


def _program(path: Path) -> Refusal:
    return refuse(
        "program-as-inventory",
        f"{path.name} is a program of pyinfra, and an inventory lists hosts",
        where=str(path),
        seen=path.name,
        wanted="a Python file with hosts, such as inventories/h100.py",
        attempt=f"enginehouse plan {EXAMPLE}; then pyinfra {EXAMPLE} {path.name} --dry",
    )


def syntax_refusal(error: SyntaxError | ValueError, file: str, inventory: str = "") -> Refusal:
    """The refusal of a file that Python cannot compile, with line and column if Python names them.

    `inventory` is the inventory that reads the file, if the file is another one.
    """
    message = getattr(error, "msg", "") or str(error)
    line, column = getattr(error, "lineno", None) or 0, getattr(error, "offset", None) or 0
    return refuse(
        "inventory-syntax",
        f"{file} is not Python: {message}" + (f", line {line}, column {column}" if line else ""),
        where=f"{file}:{line}:{column}" if line else file,
        seen=(getattr(error, "text", "") or "").strip() or message,
        wanted="a line Python can read",
        attempt=_corrected(error, file)
        or (f"correct line {line}, then: enginehouse plan {shlex.quote(inventory or file)}" if line else "")
        or f"cp {EXAMPLE} {shlex.quote(file)}",
    )


def _corrected(error: SyntaxError | ValueError, file: str) -> str:
    """The line as it was probably meant, or the command that mends it; empty for other faults."""
    text = (getattr(error, "text", "") or "").strip()
    if re.match(r"[<>=|]{7}", text):
        return f"git diff {shlex.quote(file)}, and keep one of the two versions of the merge"
    if sign := re.search(r"character (?:'.' \()?U\+([0-9A-F]+)", str(error)):
        strange = chr(int(sign[1], 16))
        if strange in LOOKALIKES:
            likes = [like for like in LOOKALIKES if like in text and not like.isalpha()]
            signs = "".join(f"s/{like}/{LOOKALIKES[like]}/g;".replace("'", "\\x27") for like in likes)
            return f"sed -i '{signs}' {shlex.quote(file)}"
        plain = unicodedata.normalize("NFKC", strange)
        plain = plain if plain.isascii() and plain.isprintable() else ""
        meant = re.sub("['/&]", lambda match: f"\\x{ord(match[0]):x}", plain)
        return f"sed -i 's/\\x{strange.encode().hex(' ').replace(' ', chr(92) + 'x')}/{meant}/g' {shlex.quote(file)}"
    if isinstance(error, TabError):
        return f"sed -i 's/\\t/    /g' {shlex.quote(file)}"
    if exported := re.match(r"export (\w+)=", text):
        return f'that line in the shell; here os.environ["{exported[1]}"], and Secret.env("{exported[1]}") for a secret'
    if keyword := re.search(r"[(,]\s*(\"\w+\")\s*=(?!=)", text) if "cannot contain assignment" in str(error) else None:
        return f"{{{keyword[1]}: …}} in braces: dict() takes names alone"
    if "positional argument follows keyword" in str(error):
        return "NAME=VALUE for each value: objects take their settings by name"
    if "f-string" in str(error) and sys.version_info < (3, 12):
        return "single quotes inside the braces of an f-string, as Python before 3.12 wants them"
    if "'return' outside function" in str(error):
        return "h100 = …: pyinfra reads the variables of the file"
    name = re.match(r"([A-Za-z]\w*(?:-\w+)+)\s*=(?!=)", text)
    if name:
        return f"{name[1].replace('-', '_')} = …"
    key = re.search(r"\{[^{}=]*?(\"\w+\")\s*=(?!=)", text)
    return f"{key[1]}: …, with a colon" if key and "assign" in str(error) else ""


def missing(file: str) -> Refusal:
    """The refusal of an inventory that is not there; the name of a model gets the command that writes one."""
    suffix, wanted = Path(file).suffix.lower(), f"a Python file with hosts, such as {EXAMPLE}"
    is_model = HUB_NAME.fullmatch(file) and suffix not in (".py", *OTHER_FORMATS) and not Path(file).parent.is_dir()
    if is_model or file in CHECKPOINTS:
        return refuse(
            "no-inventory",
            f"{file} is the name of a model, and an inventory is a file that names models",
            where=file,
            seen="no such file",
            wanted=wanted,
            attempt=f"enginehouse migrate 'vllm serve {file}' --to inventories/mine.py writes one",
        )
    if file.startswith(("http://", "https://")):
        return refuse(
            "no-inventory",
            f"{file} is an address, and an inventory is a file that names hosts",
            where=file,
            seen="a URL",
            wanted=wanted,
            attempt=f"curl {(base := shlex.quote(re.sub('(?:/v1(?:/.*)?)?/?$', '', file)))}/v1/models asks the address "
            f"itself; enginehouse bench {EXAMPLE} --url {base} loads it",
        )
    nearest_file = _meant(file)
    if not nearest_file and HOSTS.fullmatch(file) and suffix not in (".py", *OTHER_FORMATS):
        return host_as_inventory(file)
    is_of_clone = not nearest_file and (PROGRAMS_AT / file).is_file()
    example = EXAMPLE if Path(EXAMPLE).is_file() else str(PROGRAMS_AT / EXAMPLE)
    copied = f"cp {example} {shlex.quote(str(Path(file).with_suffix('.py')))}, and write your hosts there"
    return refuse(
        "no-inventory",
        f"there is no inventory {file}",
        where=file,
        seen=f"no such file in {Path.cwd()}",
        wanted=wanted,
        attempt=f"cd {PROGRAMS_AT} && enginehouse plan {shlex.quote(file)}"
        if is_of_clone
        else copied
        if suffix in OTHER_FORMATS and not nearest_file
        else f"enginehouse plan {shlex.quote(nearest_file or example)}",
    )


def _meant(file: str) -> str:
    """The file that was probably meant: without a scheme, an editor's line or a second file, or of a near name."""
    plain = re.sub(r"(\.py)(?:[:,].*|~|\.bak|c)?$", r"\1", file.removeprefix("file://").replace("\\", "/").rstrip("/"))
    as_python = [str(Path(plain).with_suffix(".py"))] if Path(plain).suffix.lower() in OTHER_FORMATS else []
    for word in (plain, f"{plain}.py", os.path.expanduser(plain), *as_python):
        if word != file and Path(word).is_file():
            return word
    folder = Path(plain).parent
    beside = [path.name for path in folder.glob("*.py")] if folder.is_dir() and plain.endswith(".py") else []
    close = nearest(Path(plain).name, [name for name in beside if name not in PROGRAMS], 0.75)
    return str(folder / close) if close else ""


def host_as_inventory(word: str) -> Refusal:
    """The refusal of a host, or of hosts with commas, instead of an inventory."""
    hosts = [host for host in word.split(",") if host]
    return refuse(
        "no-inventory",
        f"{word} is no inventory, and only an inventory says what a host is to become",
        where=word,
        seen="a connector of pyinfra" if word.startswith("@") else "the name of a host",
        wanted=f"a Python file with hosts, such as {EXAMPLE}",
        attempt=f"cp {EXAMPLE} inventories/mine.py, with {word} as its host"
        if word.startswith("@")
        else f"enginehouse init {shlex.join(hosts)}",
    )


def _directory(path: Path) -> Refusal:
    files = sorted(path.glob("*.py"))
    return refuse(
        "inventory-is-a-directory",
        f"{path} is a directory, and an inventory is one file",
        where=str(path),
        seen="a directory" + (f" that holds {', '.join(file.name for file in files[:3])}" if files else ""),
        wanted=f"one Python file with hosts, such as {EXAMPLE}",
        attempt=f"enginehouse plan {shlex.quote(str(files[0]) if files else EXAMPLE)}",
    )


def _unreadable(file: str, error: Exception) -> Refusal:
    return refuse(
        "inventory-unreadable",
        f"{file} cannot be read as text",
        where=file,
        seen=error.strerror or str(error) if isinstance(error, OSError) else "bytes that are not UTF-8",
        wanted="a Python file in UTF-8 that you may read",
        attempt=f"ls -l {shlex.quote(file)}" if isinstance(error, OSError) else _converted(file),
    )


def _converted(file: str) -> str:
    """The command that rewrites a file in UTF-8; an example if the bytes are no text in any encoding."""
    head = Path(file).read_bytes()[:4096]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return f"iconv -f UTF-16 -t UTF-8 {shlex.quote(file)} > new.py"
    is_text = b"\0" not in head and sum(byte < 9 for byte in head) == 0
    return f"iconv -f ISO-8859-1 -t UTF-8 {shlex.quote(file)} > new.py" if is_text else f"enginehouse plan {EXAMPLE}"


def _marked(file: str) -> Refusal:
    return refuse(
        "inventory-unreadable",
        f"{file} begins with a byte order mark, and pyinfra reads it as a part of the first line",
        where=f"{file}:1:1",
        seen="U+FEFF, as editors of Windows write it",
        wanted="UTF-8 without a byte order mark",
        attempt=f"sed -i '1s/^\\xEF\\xBB\\xBF//' {shlex.quote(file)}",
    )


def _other_format(file: str, name: str, first: str) -> Refusal:
    path = Path(file)
    copy = path.with_name(f"{path.stem}_hosts.py") if path.suffix == ".py" else path.with_suffix(".py")
    return refuse(
        "inventory-format",
        f"{file} is {name}, and an inventory is Python",
        where=file,
        seen=first or "an empty file",
        wanted='h100 = (["h100-01.example.internal"], {"machine": Machine(…), "servers": (Server(…),)})',
        attempt=f"cp {EXAMPLE} {shlex.quote(str(copy))}, and write your hosts there",
    )
