"""Slips in an inventory that Python accepts in silence, such as a repeated key, and corrections of its exceptions."""

import ast
import io
import re
import shlex
import subprocess
import sys
import tokenize
import traceback
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from deploy import spec
from deploy.catalog.names import offer
from deploy.refusals import Refusal, refuse, secret_in

WORD = re.compile(r"[A-Za-z0-9](?:[\w.:/@-]*\w)?")
"""A name, an address or a network, which is no part of a longer text."""
DIGITS = re.compile(r"[0-9a-f]{8,}")
"""A part of a digest, which may be written in two texts."""


def silent_slips(text: str, file: str) -> Iterator[Refusal]:
    """A refusal for each slip in this text, which is read as Python and not run."""
    tree = ast.parse(text, file)
    yield from _lost_groups(tree, file)
    yield from _no_assignments(tree, file)
    yield from _guarded(tree, file)
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


def _guarded(tree: ast.Module, file: str) -> Iterator[Refusal]:
    """A refusal for groups below `if __name__ == "__main__"`, which pyinfra does not run."""
    for statement in tree.body:
        if isinstance(statement, ast.If) and re.search(r"__name__.*__main__", ast.unparse(statement.test)):
            lines = [
                line for line in statement.body if isinstance(line, ast.Assign) and isinstance(line.value, ast.Tuple)
            ]
            for line in (line for line in lines if _may_be_group(line.value)):
                yield refuse(
                    "never-run",
                    'the lines below `if __name__ == "__main__"` do not run, because pyinfra runs the file',
                    where=f"{file}:{line.lineno}",
                    seen=f"{ast.unparse(line.targets[0])} = … below it",
                    wanted="groups at the left margin",
                    attempt=f"{ast.unparse(line.targets[0])} = …, without the `if` above it",
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
DECODERS = {"JSONDecodeError": "JSON", "TOMLDecodeError": "TOML"}
OPENED = re.compile(r"""(?:open|Path)\(\s*["']([\w./~-]+)["']""")
COPIES = ("_replace", "replace", "model_copy", "copy", "update", "evolve", "merge", "with_")
"""Methods of other libraries' objects that return a changed copy."""
VARIABLE = re.compile(r"""(?:environ\.get|getenv)\(\s*["'](\w+)["']\s*\)""")


def correction(error: BaseException, file: str) -> str:
    """The code or command by which an inventory that ended with this exception runs; empty for other exceptions."""
    text, line = str(error), raising_line(error, file)
    if match := re.fullmatch(r"name '(\w+)' is not defined.*", text):
        return WORDS_OF_JSON.get(match[1], "") or _defined(match[1], line, Path(file).read_text("utf-8"))
    if isinstance(error, KeyError) and "[" in line:
        return _known_keys(error, file, line)
    if match := re.fullmatch(r"cannot assign to field '(\w+)'", text):
        name = (re.match(r"\s*(\w+)\.", line) or ["", "OBJECT"])[1]
        return f"{name} = replace({name}, {match[1]}=…), with `from dataclasses import replace` above it"
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        is_program = any(frame.filename.endswith("subprocess.py") for frame in _frames(error))
        return (
            f"install {error.filename}, or write what it prints into a file: no such program is here"
            if is_program
            else f"ls -l {shlex.quote(error.filename)}: a relative path begins at {Path.cwd()}"
        )
    if isinstance(error, subprocess.CalledProcessError):
        return (
            f"{error.cmd if isinstance(error.cmd, str) else shlex.join(map(str, error.cmd))}: the program itself failed"
        )
    if isinstance(error, ValueError) and type(error).__name__ in DECODERS:
        opened = OPENED.search(line) or (OPENED.search(Path(file).read_text("utf-8")))
        return f"head {shlex.quote(opened[1] if opened else 'FILE')}: it is no {DECODERS[type(error).__name__]}"
    if isinstance(error, EOFError):
        return 'os.environ["NAME"] in its place, or Secret.env("NAME"): nobody may be there to answer'
    if "sys.argv" in line:
        return 'os.environ["NAME"] in its place: the words of the command line belong to the verb'
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
    return _of_objects(text, line)


def _defined(name: str, line: str, text: str) -> str:
    """The line that gives an undefined name its value: a text in quotes, an assignment above, or each branch."""
    if re.fullmatch(rf"\s*\w+\s*=\s*{name}\s*", line):
        return f'"{name}" in quotes, if a text is meant'
    if not (assigned := re.search(rf"(?m)^(\s*){name}\s*=(?!=)", text)):
        return ""
    is_in_branch = assigned[1].strip("\n")
    return f"else: with {name} = …" if is_in_branch else f"move `{name} = …` above the line that uses it"


def _known_keys(error: KeyError, file: str, line: str) -> str:
    """The near key of the dictionary that the line names, or the way to see its keys."""
    step, variables = getattr(error, "_traceback", None) or error.__traceback__, dict[str, object]()
    while step:
        if step.tb_frame.f_code.co_filename == file:
            variables = step.tb_frame.f_globals | step.tb_frame.f_locals
        step = step.tb_next
    key, values = str(error.args[0]), [variables.get(name) for name in re.findall(r"(\w+)\[", line)]
    known = next((list(value) for value in values if isinstance(value, dict) and key not in value), [])
    is_plain = all(isinstance(name, str) and WORD.fullmatch(name) and not secret_in(name) for name in known)
    return offer(key, known) if known and is_plain and len(known) < 100 else "print(sorted(DICTIONARY)) shows its keys"


def _of_objects(text: str, line: str) -> str:
    """The code meant by an operation that the objects of an inventory do not have."""
    if match := re.fullmatch(r"'(\w+)' object has no attribute '(\w+)'", text):
        kind = getattr(spec, match[1], None)
        names = [field.name for field in fields(kind)] if isinstance(kind, type) and is_dataclass(kind) else []
        changed = (re.search(rf"(\w+)\.{match[2]}\b", line) or ["", "OBJECT"])[1]
        if match[1] == "Secret":
            return "the Secret itself, without a dot behind it: its value is read when it is sent"
        copied = f"replace({changed}, {names[0]}=…), with `from dataclasses import replace` above it" if names else ""
        return copied if match[2] in COPIES else offer(match[2], names) if names else ""
    if match := re.fullmatch(r"can only concatenate (tuple|list) \(not \"(\w+)\"\) to \1", text):
        added = (re.search(r"\+\s*(\w+)", line) or ["", "VALUE"])[1]
        return (
            f"+ {match[1]}({added})" if match[2] in ("tuple", "list") else f"+ ({added},)   the comma makes it a tuple"
        )
    if re.fullmatch(r"Value after \* must be an iterable, not \w+", text):
        return "take the star out: it spreads a tuple, and this is one object"
    if re.fullmatch(r"unsupported operand type\(s\) for \*: 'Server' and 'int'", text):
        return "one_per_gpu(SERVER, 2): a server for each GPU"
    if re.fullmatch(r"unsupported operand type\(s\) for \|=?: '(?:dict|set)' and '(?:dict|set)'", text):
        return "{…} with a colon behind each key: without colons it is a set"
    if re.fullmatch(r"'(?:method|function)' object is not subscriptable|type '\w+' is not subscriptable", text):
        called = re.search(r"(\w+(?:\.\w+)?)\[(\"[\w./-]+\")\]", line)
        return (
            f"{called[1]}({called[2]})   in round brackets" if called else "round brackets in place of the square ones"
        )
    if re.fullmatch(r'can only concatenate str \(not "(?:int|float)"\) to str', text):
        return 'f"…{NUMBER}": an f-string takes numbers'
    if match := re.fullmatch(r"unsupported operand type\(s\) for [+|&]=?: '(\w+)' and '(\w+)'", text):
        return "(FIRST, SECOND): a tuple of both" if isinstance(getattr(spec, match[1], None), type) else ""
    if re.fullmatch(r"unhashable type: '(dict|list|set)'", text) and "{{" in line:
        return "one pair of braces: {{…}} is a set that holds a dictionary"
    if "'NoneType'" in text and re.search(r"\.(?:update|append|extend|sort|add|insert)\(", line):
        return "on a line of its own: it changes its object and returns None"
    return ""


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(getattr(error, "_traceback", None) or error.__traceback__)


def raising_line(error: BaseException, file: str) -> str:
    """The line of the file that raised the exception."""
    return next((frame.line or "" for frame in reversed(_frames(error)) if frame.filename == file), "")
