"""Slips in an inventory that Python accepts in silence, such as a repeated key, and corrections of its exceptions."""

import ast
import io
import re
import shlex
import sys
import tokenize
import traceback
from collections.abc import Iterator
from pathlib import Path

from deploy.refusals import Refusal, refuse

WORD = re.compile(r"[A-Za-z0-9](?:[\w.:/@-]*\w)?")
"""A name, an address or a network, which is no part of a longer text."""
DIGITS = re.compile(r"[0-9a-f]{8,}")
"""A part of a digest, which may be written in two texts."""


def silent_slips(text: str, file: str) -> Iterator[Refusal]:
    """A refusal for each slip in this text, which is read as Python and not run."""
    tree = ast.parse(text, file)
    yield from _lost_groups(tree, file)
    yield from _no_assignments(tree, file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from _repeated_keys(node, file)
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            yield from _joined_texts(node.elts, text, file)


def _lost_groups(tree: ast.Module, file: str) -> Iterator[Refusal]:
    """A refusal for each group whose name a later line gives to another value, before any line reads the group."""
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    first_lines: dict[str, int] = {}
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            if not isinstance(target, ast.Name) or target.id in read or target.id.startswith("_"):
                continue
            if target.id in first_lines:
                yield refuse(
                    "group-twice",
                    f"`{target.id}` is assigned twice, and the hosts of line {first_lines[target.id]} are lost",
                    where=f"{file}:{statement.lineno}",
                    seen=f"`{target.id}` in line {first_lines[target.id]} and in line {statement.lineno}",
                    wanted="a name for each group",
                    attempt=f"{target.id}_2 = … in line {statement.lineno}",
                )
            if isinstance(statement, ast.Assign) and _may_be_group(statement.value):
                first_lines.setdefault(target.id, statement.lineno)


def _may_be_group(value: ast.expr) -> bool:
    is_pair = isinstance(value, ast.Tuple) and len(value.elts) == 2
    hosts = value.elts[0] if isinstance(value, ast.Tuple) and is_pair else value
    return isinstance(hosts, ast.List) and all(isinstance(host, ast.Constant | ast.Tuple) for host in hosts.elts)


def _no_assignments(tree: ast.Module, file: str) -> Iterator[Refusal]:
    """A refusal for each line with another sign than `=` behind a group's name."""
    for statement in tree.body:
        sign = ""
        name: ast.expr | None = None
        value: ast.expr | None = None
        if isinstance(statement, ast.AnnAssign) and statement.value is None:
            sign, name, value = ":", statement.target, statement.annotation
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Compare):
            compared = statement.value
            sign, name, value = "==", compared.left, compared.comparators[0]
        if isinstance(name, ast.Name) and isinstance(value, ast.Tuple | ast.List | ast.Dict):
            yield refuse(
                "no-assignment",
                f"line {statement.lineno} gives `{name.id}` no value",
                where=f"{file}:{statement.lineno}",
                seen=f"{name.id} {sign} …",
                wanted="one = behind the name of a group",
                attempt=f"{name.id} = …",
            )


def _repeated_keys(node: ast.Dict, file: str) -> Iterator[Refusal]:
    """A refusal for each text that is a key twice, with different values: Python keeps the last."""
    first: dict[str, ast.expr] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            continue
        known = first.setdefault(key.value, value)
        if ast.dump(known) != ast.dump(value):
            places = sorted({known.lineno, key.lineno})
            yield refuse(
                "key-twice",
                f'"{key.value}" stands twice in one dictionary, and Python keeps the last',
                where=f"{file}:{key.lineno}",
                seen=f'"{key.value}" in line {" and ".join(map(str, places))}',
                wanted="each key once",
                attempt=f'take one "{key.value}" out of line {" or ".join(map(str, places))}',
            )


def _joined_texts(items: list[ast.expr], text: str, file: str) -> Iterator[Refusal]:
    """A refusal for each item that Python joined of two words, because a comma is missing between them."""
    for item in items:
        if not isinstance(item, ast.Constant) or not isinstance(item.value, str):
            continue
        width = (item.end_col_offset or 0) - item.col_offset
        if item.lineno == item.end_lineno and width < len(item.value.encode()) + 4:
            continue
        parts = _parts(ast.get_source_segment(text, item) or "")
        if len(parts) > 1 and all(WORD.fullmatch(part) and not DIGITS.fullmatch(part) for part in parts):
            yield refuse(
                "joined-texts",
                f"a comma is missing between {' and '.join(map(repr, parts))}: Python reads one text",
                where=f"{file}:{item.lineno}",
                seen=item.value,
                wanted="a comma behind each text of a list",
                attempt=", ".join(f'"{part}"' for part in parts),
            )


def _parts(segment: str) -> list[str]:
    """The adjacent texts that Python joins."""
    tokens = tokenize.generate_tokens(io.StringIO(f"({segment})").readline)
    return [str(ast.literal_eval(token.string)) for token in tokens if token.type == tokenize.STRING]


WORDS_OF_JSON = {"true": "True", "false": "False", "null": "None", "yes": "True", "no": "False", "none": "None"}
VARIABLE = re.compile(r"""(?:environ\.get|getenv)\(\s*["'](\w+)["']\s*\)""")


def correction(error: BaseException, file: str) -> str:
    """The code or command by which an inventory that ended with this exception runs; empty for other exceptions."""
    text, line = str(error), raising_line(error, file)
    if match := re.fullmatch(r"name '(\w+)' is not defined.*", text):
        later = re.search(rf"(?m)^{match[1]}\s*=(?!=)", Path(file).read_text("utf-8"))
        return WORDS_OF_JSON.get(match[1], "") or (
            f"move `{match[1]} = …` above the line that uses it" if later else ""
        )
    if match := re.fullmatch(r"cannot assign to field '(\w+)'", text):
        name = (re.match(r"\s*(\w+)\.", line) or ["", "OBJECT"])[1]
        return f"{name} = replace({name}, {match[1]}=…), with `from dataclasses import replace` above it"
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        return f"ls -l {error.filename}: a relative path begins at {Path.cwd()}"
    if match := VARIABLE.search(line):
        return f"export {match[1]}=…, then the same command"
    if re.fullmatch(r"'(?:tuple|str|dict|list)' object is not callable", text):
        return "a comma between the two values: a bracket behind a value is a call"
    if match := re.fullmatch(r"No module named '(\w+)'", text):
        beside = Path(file).with_name(f"{match[1]}.py")
        is_below = beside.is_file() and not beside.is_absolute()
        return (
            f"from {'.'.join(beside.with_suffix('').parts)} import …"
            if is_below
            else f"install its package: {shlex.quote(sys.executable)} -m pip; or {match[1]}.py in {Path.cwd()}"
        )
    if match := re.match(r"cannot import name '(\w+)' from partially initialized module", text):
        return f"two files import each other: put `{match[1]}` into a third file, which imports neither"
    if re.match(r"\s*from \.", line):
        return f"from {'.'.join((*Path(file).parent.parts, 'MODULE'))} import …, without a dot in front"
    return ""


def raising_line(error: BaseException, file: str) -> str:
    """The line of the file that raised the exception."""
    frames = traceback.extract_tb(getattr(error, "_traceback", None) or error.__traceback__)
    return next((frame.line or "" for frame in reversed(frames) if frame.filename == file), "")
