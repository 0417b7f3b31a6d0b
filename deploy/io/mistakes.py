"""Mistakes in an inventory file in Python, explained: a misspelt keyword, an exception, a connector."""

import ast
import inspect
import re
import shlex
import traceback
from dataclasses import fields, is_dataclass
from pathlib import Path

from deploy import spec
from deploy.catalog import CHECKPOINTS, KnownCheckpoint
from deploy.catalog.names import nearest, offer
from deploy.catalog.synonyms import CLASSES, setting_meant
from deploy.io.inventory_slips import correction, raising_line
from deploy.refusals import Refusal, refuse, renamed

KEYWORD = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")
IMPORTED = re.compile(r"cannot import name '(\w+)' from 'deploy\b")
MISSING = re.compile(
    r"(?P<call>\w+(?:\.(?!__init__)\w+)?)(?:\.__init__)?\(\) missing \d+ required [\w-]+ arguments?: (?P<names>.+)"
)
POSITIONAL = re.compile(
    r"(?P<name>\w+)\.__init__\(\) takes (?P<taken>1|from 1 to 2) positional arguments? but (?P<count>\d+) were given"
)
BUILT = re.compile(r"(?P<name>\w+)\.(?P<way>(?!__init__)\w+)\(\) got an unexpected keyword argument '(?P<word>\w+)'")
SECRET = re.compile(r"(Secret(?:\.vault|\.env)?)(?:\.__init__)?\(\) missing")
UNDEFINED = re.compile(r"name '(\w+)' is not defined")
NO_MODULE = re.compile(r"No module named '(enginehouse|spec|deploy\.spec\.\w+)'")
CALLED = re.compile(r"\b(Secret|Weights)(\.)(?!env|vault|command|hub|local)(\w+)\(")
NO_ATTRIBUTE = re.compile(r"(?:type object '(\w+)'|module '(deploy\.spec)') has no attribute '(\w+)'")
CONNECTORS = ("docker", "dockerssh", "local", "ssh", "terraform", "vagrant")
"""Connectors of pyinfra that an inventory may use by mistake."""


FORMS = {
    "Secret.vault": 'Secret.vault("FILE", "KEY")',
    "Secret.env": 'Secret.env("NAME")',
    "Secret.command": 'Secret.command("PROGRAM", "ARGUMENT")',
    "Weights.hub": 'Weights.hub("OWNER/NAME", "COMMIT")',
    "Weights.local": 'Weights.local("DIRECTORY")',
}
"""Functions of the spec with their arguments, for calls that Python refuses."""


def explained(error: BaseException, file: str) -> Refusal:
    """The refusal with the reason why running the file ended with `error`."""
    place = f"{file}{_line_of(error, file)}"
    if problem := _of_a_name(error, place, file):
        return problem
    if problem := _of_a_call(error, place) or _of_the_environment(error, place):
        return problem
    match = KEYWORD.search(str(error))
    kind = getattr(spec, match.group(1), None) if match else None
    if not match or not is_dataclass(kind):
        return refuse(
            "inventory-error",
            f"{file} is Python, and it ended with {type(error).__name__}",
            where=place,
            seen=str(error) or type(error).__name__,
            wanted="a file Python can run",
            attempt=next((form for name, form in FORMS.items() if f"{name}()" in str(error)), "")
            or correction(error, file)
            or f"python {shlex.quote(file)}",
        )
    keyword, name = match.group(2), match.group(1)
    if problem := renamed(keyword, f"{place}: {name}({keyword}=…)", file):
        return problem
    return refuse(
        "unknown-setting",
        f"{name} has no setting `{keyword}`",
        where=f"{place}: {name}({keyword}=…)",
        seen=keyword,
        wanted="a setting of a class in deploy/spec/",
        attempt=setting_meant(keyword, name) or offer(keyword, [field.name for field in fields(kind)]),
    )


def _of_a_name(error: BaseException, place: str, file: str) -> Refusal | None:
    """The refusal of an undefined name: a class that is not imported, a module, or a wrong way to build an object."""
    text = str(error)
    if isinstance(error, NameError) and (match := UNDEFINED.search(text)):
        return renamed(match[1], place, file) or _unknown_class(match[1], place, f"{match[1]} is not defined")
    if isinstance(error, ImportError) and (match := IMPORTED.search(text)):
        return renamed(match[1], place, file) or _unknown_class(match[1], place, f"import of {match[1]}")
    if isinstance(error, ImportError) and (match := NO_MODULE.search(text)):
        return refuse(
            "unknown-module",
            f"{match[1]} is not a module: the objects of an inventory are in deploy.spec",
            where=place,
            seen=f"import of {match[1]}",
            wanted="the module deploy.spec",
            attempt="from deploy.spec import LLM, Machine, Server",
        )
    match = NO_ATTRIBUTE.search(text) if isinstance(error, AttributeError) else None
    if isinstance(error, TypeError) and text.endswith("object is not callable"):  # a field, called as a function
        match = CALLED.search(raising_line(error, file))
    if match and match[2] == "deploy.spec":
        return _unknown_class(match[3], place, f"deploy.spec.{match[3]}")
    kind = getattr(spec, match[1] or "", None) if match else None
    if match and isinstance(kind, type) and is_dataclass(kind):
        known = [name for name, value in vars(kind).items() if isinstance(value, classmethod)]
        built = [f"{kind.__name__}.{name}(…)" for name in sorted(known)] or [f"{kind.__name__}(…)"]
        return refuse(
            "unknown-setting",
            f"{kind.__name__} has no `{match[3]}`",
            where=place,
            seen=f"{kind.__name__}.{match[3]}",
            wanted=" or ".join(built),
            attempt='Secret.command("cat", "FILE")'
            if kind.__name__ == "Secret" and match[3] in ("file", "path", "read")
            else 'Weights.local("DIRECTORY")'
            if kind.__name__ == "Weights" and match[3] in ("path", "directory", "file", "folder", "dir")
            else offer(match[3], known)
            if known
            else built[0],
        )
    return None


def _unknown_class(name: str, place: str, seen: str) -> Refusal | None:
    """The refusal of a class that is not imported or does not exist; None for a name that resembles no class."""
    known = [word for word in spec.__all__ if isinstance(getattr(spec, word), type)]
    same = next((word for word in known if word.lower() == name.lower()), "")
    meant = same or (nearest(name, known) if name[:1].isupper() else "")
    instead = CLASSES.get(name, "")
    if not meant and not instead:
        return None
    is_known = name in known
    return refuse(
        "unknown-class",
        f"{name} is not imported" if is_known else f"deploy.spec has no class {name}",
        where=place,
        seen=seen,
        wanted="the classes of deploy.spec",
        attempt=instead or (f"from deploy.spec import {name}" if is_known else offer(name, known)),
    )


def _of_a_call(error: BaseException, place: str) -> Refusal | None:
    """The refusal of an object built without a required setting, or with positional settings."""
    if isinstance(error, TypeError) and "Weights.hub()" in str(error) and "'revision'" in str(error):
        return refuse(
            "missing-setting",
            "Weights.hub(…) lacks the commit: without one the weights may change",
            where=place,
            seen="only a repository",
            wanted="the repository, then 40 hex digits of one of its commits",
            attempt='Weights.hub("OWNER/NAME", "COMMIT"), as the hub shows it under Files, History; of the catalog: '
            + ", ".join(f'Weights.hub("{row.repository}", "{row.revision}")' for row in _wanted_here(error)),
        )
    if isinstance(error, TypeError) and (match := SECRET.match(str(error))):
        return refuse(
            "missing-setting",
            "a secret is named by the kind of its place",
            where=place,
            seen="Secret(…)" if match[1] == "Secret" else f"{match[1]}(…) with a word too few",
            wanted="a variable of the environment, a file of ansible-vault and its key, or a command that prints it",
            attempt='Secret.env("NAME"), Secret.vault("secrets.yml", "KEY"), or Secret.command("cat", "FILE")',
        )
    if match := MISSING.search(str(error)):
        fields_named = re.findall(r"'(\w+)'", match["names"])
        return refuse(
            "missing-setting",
            f"{match['call']} lacks {' and '.join(fields_named)}",
            where=place,
            seen=f"{match['call']}(…) without {', '.join(fields_named)}",
            wanted="every setting that has no default",
            attempt=f"{match['call']}({', '.join(f'{name}=…' for name in fields_named)}, …)",
        )
    if (match := BUILT.search(str(error))) and isinstance(kind := getattr(spec, match["name"], None), type):
        names = list(inspect.signature(getattr(kind, match["way"])).parameters)
        return refuse(
            "unknown-setting",
            f"{match['name']}.{match['way']} has no setting `{match['word']}`",
            where=place,
            seen=match["word"],
            wanted=f"{match['name']}.{match['way']}({', '.join(names)})",
            attempt=offer(match["word"], names),
        )
    frames = traceback.extract_tb(getattr(error, "_traceback", None) or error.__traceback__)
    is_of_gpus = any(frame.name == "one_per_gpu" for frame in frames) or "one_per_gpu()" in str(error)
    if isinstance(error, TypeError) and is_of_gpus:
        return refuse(
            "wrong-type",
            "one_per_gpu takes a Server and the number of its GPUs",
            where=place,
            seen=str(error),
            wanted="a Server, then a whole number",
            attempt='"servers": one_per_gpu(Server(…), 2), with Machine(gpus=2)',
        )
    match = POSITIONAL.search(str(error))
    kind = getattr(spec, match["name"], None) if match else None
    if not match or not isinstance(kind, type) or not is_dataclass(kind):
        return None
    known = [field for field in fields(kind) if field.name != "_"]
    named = ", ".join(f"{field.name}=…" for field in known[: max(1, int(match["count"]) - 1)])
    if match["taken"] != "1":
        named = '"OWNER/NAME@REVISION", ' + f"{known[1].name}=…"
    return refuse(
        "settings-without-names",
        f"{match['name']} takes its settings by their names",
        where=place,
        seen=f"{int(match['count']) - 1} values without a name",
        wanted=f"{match['name']}(NAME=VALUE, …)",
        attempt=f"{match['name']}({named})",
    )


def _wanted_here(error: BaseException) -> list[KnownCheckpoint]:
    """The catalog's checkpoints that the inventory's line names; the first as an example if the line names no
    checkpoint."""
    frames = traceback.extract_tb(getattr(error, "_traceback", None) or error.__traceback__)
    lines = " ".join(frame.line or "" for frame in frames)
    return [row for row in CHECKPOINTS.values() if f'"{row.repository}"' in lines] or [*CHECKPOINTS.values()][:1]


def _of_the_environment(error: BaseException, place: str) -> Refusal | None:
    """The refusal of an environment variable that the inventory reads and the shell does not have."""
    frames = traceback.extract_tb(getattr(error, "_traceback", None) or error.__traceback__)
    if not isinstance(error, KeyError) or not frames or "os" not in re.findall(r"\w+", frames[-1].filename):
        return None
    name = str(error.args[0]) if error.args else ""
    return refuse(
        "unset-variable",
        f"the inventory reads the environment variable {name}, which is not set here",
        where=place,
        seen=f"no {name} in the environment of this command",
        wanted="a shell in which it is set",
        attempt=f"export {name}=…, then the same command",
    )


def ended_itself(error: SystemExit, file: str) -> Refusal:
    """The refusal of an inventory that ends the command, for example by sys.exit()."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return refuse(
        "inventory-ended-itself",
        f"{file} ends the command before anything of it is read",
        where=f"{file}:{lines[-1]}" if lines else file,
        seen=f"sys.exit({error.code!r})" if isinstance(error.code, int | None) else f"sys.exit: {error.code}",
        wanted="a file that only declares hosts",
        attempt="take the sys.exit() out; raise an exception to refuse: its words are shown",
    )


def _line_of(error: BaseException, file: str) -> str:
    """`:12` if the exception came from line 12 of `file`, also through a call in that line; else empty."""
    frames = traceback.extract_tb(getattr(error, "_traceback", None) or error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f":{lines[-1]}" if lines else ""


def connector_refusal(error: BaseException, file: str) -> Refusal:
    """The refusal of a host that begins with `@` and that its pyinfra connector could not read."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    unknown = re.fullmatch(r"Invalid connector: (.*)", lines[0] if lines else "")
    name, place = _connector_in(file, unknown[1] if unknown else "")
    if unknown:
        return refuse(
            "unknown-connector",
            f"pyinfra has no connector @{unknown[1]}",
            where=f"{file}{place}",
            seen=name or f"@{unknown[1]}",
            wanted="a host's name or address, or a connector pyinfra has",
            attempt=offer(unknown[1], [f"@{known}" for known in CONNECTORS]),
        )
    program = name.lstrip("@").partition("/")[0]
    return refuse(
        "connector-answer",
        f"{name or 'a connector'} names no hosts here",
        where=f"{file}{place}",
        seen=" · ".join(lines) or type(error).__name__,
        wanted="a connector whose program answers in this directory with hosts",
        attempt=_ATTEMPTS.get(program, "write the hosts' names or addresses into the inventory"),
    )


_ATTEMPTS = {
    "terraform": "terraform output -json, in this directory; then name one of its keys: @terraform/KEY.value",
    "vagrant": "vagrant status, in this directory",
    "dockerssh": "@dockerssh/HOST:IMAGE",
    "docker": "@docker/IMAGE",
}


def _connector_in(file: str, connector: str) -> tuple[str, str]:
    """The file's first text that begins with `@` and `connector`, and its place as `:line:column`."""
    for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"@{connector}"):
            return node.value, f":{node.lineno}:{node.col_offset + 1}"
    return "", ""
