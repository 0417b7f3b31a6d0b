"""Checks that a file can be an inventory: it is read and compiled, never run. Refusals name line and column."""

import codecs
import re
import warnings
from pathlib import Path

from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse
from deploy.spec.sources import HUB_NAME

OTHER_FORMATS = {
    ".yml": "YAML",
    ".yaml": "YAML",
    ".ini": "INI",
    ".cfg": "INI",
    ".toml": "TOML",
    ".json": "JSON",
}
FIRST_LINE_OF_INI = re.compile(r"\[[\w.:-]+\]$")
FIRST_LINE_OF_YAML = re.compile(r"---|[\w.-]+:$")
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


def syntax_refusal(error: SyntaxError | ValueError, file: str) -> Refusal:
    """The refusal of a file that Python cannot compile, with line and column if Python names them."""
    message = getattr(error, "msg", "") or str(error)
    line, column = getattr(error, "lineno", None) or 0, getattr(error, "offset", None) or 0
    return refuse(
        "inventory-syntax",
        f"{file} is not Python: {message}" + (f", line {line}, column {column}" if line else ""),
        where=f"{file}:{line}:{column}" if line else file,
        seen=(getattr(error, "text", "") or "").strip() or message,
        wanted="a line Python can read",
        attempt=f"correct line {line}, then: enginehouse plan {file}" if line else f"cp {EXAMPLE} {file}",
    )


def missing(file: str) -> Refusal:
    """The refusal of an inventory that is not there; the name of a model gets the command that writes one."""
    if HUB_NAME.fullmatch(file) and not file.endswith(".py"):
        return refuse(
            "no-inventory",
            f"{file} is the name of a model, and an inventory is a file that names models",
            where=file,
            seen="no such file",
            wanted=f"a Python file with hosts, such as {EXAMPLE}",
            attempt=f"enginehouse migrate 'vllm serve {file}' --to inventories/mine.py writes one",
        )
    return refuse(
        "no-inventory",
        f"there is no inventory {file}",
        where=file,
        seen="no such file",
        wanted=f"a Python file with hosts, such as {EXAMPLE}",
        attempt=f"enginehouse plan {bare if Path(bare := file.rstrip('/')).is_file() else EXAMPLE}",
    )


def _directory(path: Path) -> Refusal:
    files = sorted(path.glob("*.py"))
    return refuse(
        "inventory-is-a-directory",
        f"{path} is a directory, and an inventory is one file",
        where=str(path),
        seen="a directory" + (f" that holds {', '.join(file.name for file in files[:3])}" if files else ""),
        wanted=f"one Python file with hosts, such as {EXAMPLE}",
        attempt=f"enginehouse plan {files[0] if files else EXAMPLE}",
    )


def _unreadable(file: str, error: Exception) -> Refusal:
    return refuse(
        "inventory-unreadable",
        f"{file} cannot be read as text",
        where=file,
        seen=error.strerror or str(error) if isinstance(error, OSError) else "bytes that are not UTF-8",
        wanted="a Python file in UTF-8 that you may read",
        attempt=f"ls -l {file}" if isinstance(error, OSError) else _converted(file),
    )


def _converted(file: str) -> str:
    """The command that rewrites a file in UTF-8; an example if the bytes are no text in any encoding."""
    head = Path(file).read_bytes()[:4096]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return f"iconv -f UTF-16 -t UTF-8 {file} > new.py"
    is_text = b"\0" not in head and sum(byte < 9 for byte in head) == 0
    return f"iconv -f ISO-8859-1 -t UTF-8 {file} > new.py" if is_text else f"enginehouse plan {EXAMPLE}"


def _marked(file: str) -> Refusal:
    return refuse(
        "inventory-unreadable",
        f"{file} begins with a byte order mark, and pyinfra reads it as a part of the first line",
        where=f"{file}:1:1",
        seen="U+FEFF, as editors of Windows write it",
        wanted="UTF-8 without a byte order mark",
        attempt=f"sed -i '1s/^\\xEF\\xBB\\xBF//' {file}",
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
        attempt=f"cp {EXAMPLE} {copy}, and write your hosts there",
    )
