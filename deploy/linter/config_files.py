"""Files that start commands in a form of their own, as scripts: units, supervisord, HCL, CI, Makefiles, notebooks.

Forms are those of supervisord's, Nomad's and Terraform's pages and of public files; seen 2026-11-28. Every command
keeps its line. Ansible's tasks and compose files are read by `deploy.linter.manifests`.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Iterator
from itertools import islice

from deploy.linter.ci_jobs import with_commands, with_images
from deploy.linter.systemd import is_unit, unit_as_script

CONTINUED = re.compile(r"^([^`\n]*)[ \t](?:`|\^)[ \t]*$", re.MULTILINE)
"""A line that PowerShell or CMD continues."""
SECTION = re.compile(r"^\[(?:program|eventlistener|fcgi-program):", re.MULTILINE)
IMAGE = re.compile(r'(?:^|[{,])[ \t]*(?:image[ \t]*=|"image"[ \t]*[:=])[ \t]*"([^"\n]+)"', re.MULTILINE)
IN_CODE = re.compile(r"^(?:const|export|let) \w", re.MULTILINE)
OF_PULUMI = re.compile(r"(^[ \t]*|[{,][ \t]*)(image|args|command|env|limits):", re.MULTILINE)
"""A line of TypeScript, and its keys without quotes."""
STEP = re.compile(
    r"^([ \t]*)(?:- +)?"
    r"(?:(?:run|script|before_script|shell|cmds?|commands|content|(?:ansible\.builtin\.)?(?:shell|command)):[ \t]*)?"
    r"(?:[|>][-+]?)?[ \t]*"
)
STEPS = re.compile(
    r"^[ \t]*(?:- +)?"
    r"(?:run|runs-on|runcmd|write_files|script|before_script|cmds|commands|(?:ansible\.builtin\.)?shell):",
    re.MULTILINE,
)
# Values of Ansible's and Task's `vars`, and of a justfile, and the places that they fill.
VARS = re.compile(r"^[ \t]*(?:- )?vars:[ \t]*\n((?:[ \t]+[^\n]*\n|[ \t]*\n)+)", re.MULTILINE)
PAIRED = re.compile(r"^[ \t]+(\w+):[ \t]+([^\n{}\[\]#]{1,300}?)[ \t]*(?:#.*)?$", re.MULTILINE)
JUST = re.compile(r"^(\w+) *:= *['\"]([^'\"\n]*)['\"][ \t]*$", re.MULTILINE)
PARAMETER = re.compile(r"\bname: *([\w-]+) *\n *value: *['\"]?([^'\"\n{}]{1,300}?)['\"]? *$", re.MULTILINE)
"""A parameter of Argo's workflows; or of a justfile's recipe, with its default."""
OF_RECIPE = re.compile(r"^@?[\w-]+ [^:\n]{0,120}?\b(\w+)=['\"]([^'\"\n]*)['\"][^:\n]{0,120}:[ \t]*$", re.MULTILINE)
PLACED = re.compile(r"\{\{-?[ \t]*(?:(?:workflow|inputs)\.parameters\.|\.)?([\w-]+)[ \t]*-?\}\}")
BLOCK = re.compile(r"^[ \t]*(?:envs?|variables|environment):[ \t]*$")
OF_BLOCK = re.compile(r"^[ \t]+(?:- +)?([A-Za-z_]\w*)(?:=|:[ \t]+)([^\n#]{0,300}?)[ \t]*(?:#.*)?$")
"""The head of a block of variables, and one of its lines."""
OTHER_KEY = re.compile(r"[ \t]*(?:- )?[A-Za-z_][\w.-]*:(?:[ \t]|$)")
"""A key of a CI job that holds no command."""
COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*[^*]*\*/|,(?=\s*[\]}])')
"""A text, which is kept, or an extension of JSON that editors accept: a comment, or a comma before a bracket."""
TEXT = re.compile(r'"((?:\\.|[^"\\\n])*)"')
PAIR = re.compile(r'"?([A-Za-z_]\w*)"?[ \t]*=[ \t]*"((?:\\.|[^"\\\n])*)"')
GPUS = re.compile(
    r'"nvidia\.com/gpu"[ \t]*[:=][ \t]*"?(?P<limit>\d+)|gpus[ \t]*=[ \t]*"(?P<gpus>[^"\n]+)"'
    r'|device "nvidia/gpu"(?:[^{}]*\{\s*count\s*=\s*(?P<count>\d+))?'
    r'|\{(?=[^{}]*"GPU")[^{}]*\bvalue"?\s*[:=]\s*"?(?P<value>\d+)'
)
NAMED = re.compile(r'\bname"?\s*[:=]\s*"((?:\\.|[^"\\\n])*)"[\s,]*"?value"?\s*[:=]\s*"((?:\\.|[^"\\\n])*)"')
"""A variable of a container of ECS, as an object with a name and a value."""
PORT = re.compile(r'\bcontainerPort"?\s*[:=]\s*(\d{1,5})(?:[\s,]*"?hostPort"?\s*[:=]\s*(\d{1,5}))?')
MAGIC = re.compile(r"^([ \t]*)(?:!(?=[\w./$])|%%(?:bash|sh|script)\b[^\n]*)", re.MULTILINE)
"""The sign of a notebook before a command, and the head of a cell for a shell."""
RECIPE = re.compile(r"^[\w./%${}() -]{1,80}:(?!=)[^=\n]*\n(?:[ \t]*\n)*\t", re.MULTILINE)
"""A target of a Makefile with its first command."""
OF_MAKE = re.compile(r"^(?:export |override )?([A-Za-z_]\w*)[ \t]*(?:[?:+]|::)?=[ \t]*([^\n#]{0,999}?)[ \t]*(?:#.*)?$")
DRIVER = re.compile(
    r'driver[ \t]*=[ \t]*"(?:docker|podman)|"docker_container"|\bcontainers?[ \t=:]{0,20}[\[{]'
    r"|\bcontainer_definitions\b|\bprimary_container\b"
)
SWAPPED = re.compile(r"^models:[ \t]*\n(?:(?:[ \t#][^\n]*)?\n)*?[ \t]+cmd:", re.MULTILINE)
"""The models of llama-swap, each with the command that serves it."""
MOST_SIGNS, MOST_IMAGES = 20_000, 40
"""Limits: characters that are read of a block, and blocks with an image."""


def as_script(text: str) -> tuple[str, tuple[str, ...]]:
    """The commands of a file on their lines, and settings that are no command; a shell's text stays as it is."""
    text = MAGIC.sub(r"\1", CONTINUED.sub(r"\1 \\", text))
    if is_unit(text):
        return unit_as_script(text)
    if SECTION.search(text):
        return _of_supervisor(text), ()
    if "{" in text and DRIVER.search(text):
        text = OF_PULUMI.sub(r'\1"\2":', text) if IN_CODE.search(text) else text
        if IMAGE.search(text):
            return _of_hcl(text), ()
    if RECIPE.search(text) and not text.startswith("#!"):
        return "\n".join(map(_of_make, text.split("\n"))), ()
    if SWAPPED.search(text):
        return with_commands(text), ()
    if STEPS.search(text):
        return "\n".join(with_images(text, [*_of_steps(text.split("\n"))])), ()
    if text.lstrip().startswith("{") and isinstance(content := json_of(text), dict):
        return _of_dev_container(content) or "\n".join(filter(None, map(_of_task, _tasks(content)))) or text, ()
    return text, ()


def _of_steps(lines: list[str]) -> Iterator[str]:
    """The commands of a CI job, a cloud's job or a first boot; a block of variables becomes assignments."""
    depth = -1
    for line in lines:
        indent = len(line) - len(line.lstrip(" -"))
        depth = -1 if line.strip() and indent <= depth else depth
        pair = OF_BLOCK.match(line) if depth >= 0 else None
        if pair and "$" not in pair[2] and "{{" not in pair[2]:
            yield f"{pair[1]}={shlex.quote(pair[2].strip(chr(34) + chr(39)))}"
            continue
        depth = len(line) - len(line.lstrip()) if BLOCK.match(line) else depth
        step = STEP.sub(r"\1", line, count=1)
        if (words := re.fullmatch(r"[ \t]*\[([^\[\]]+)\][ \t]*", step)) and "," in words[1]:  # a first boot's command
            step = shlex.join(word.strip(" '") for word in next(csv.reader([words[1]], skipinitialspace=True)))
        is_no_command = OTHER_KEY.match(step) or re.fullmatch(r"[ \t]*\[\w+\]", step) or (depth >= 0 and not pair)
        yield "" if is_no_command else re.sub(r"^[ \t]*ExecStart=", "", step)


def with_values(text: str) -> str:
    """The text with each place `{{ name }}` filled by the text's own `vars` (Ansible, Task), if they have the name."""
    values = {name: value.strip("'\"") for block in VARS.findall(text) for name, value in PAIRED.findall(block)}
    values |= dict(JUST.findall(text)) | dict(OF_RECIPE.findall(text))
    values |= dict(PARAMETER.findall(text)) if ".parameters." in text else {}
    return PLACED.sub(lambda match: values.get(match[1], match[0]), text) if values else text


def json_of(text: str) -> object:
    """The content of a JSON file, also of one with comments; None if it cannot be read."""
    try:
        return json.loads(COMMENT.sub(lambda match: match[1] or "", text))
    except (ValueError, RecursionError):
        return None


def _of_dev_container(content: dict[str, object]) -> str:
    """The `docker run` of a dev container; empty for another file."""
    options, image = content.get("runArgs", []), content.get("image")
    if not isinstance(image, str) or not isinstance(options, list):
        return ""
    return " ".join(["docker run", *(shlex.quote(str(option)) for option in options), shlex.quote(image)])


def _tasks(content: dict[str, object]) -> list[dict[str, object]]:
    """The containers of an ECS task, or the pod of a rented host."""
    inside = content.get("taskDefinition")
    content = inside if isinstance(inside, dict) else content
    listed = content.get("containerDefinitions", [content])
    return [task for task in listed if isinstance(task, dict)] if isinstance(listed, list) else []


def _of_task(task: dict[str, object]) -> str:
    """The `docker run` of a container of ECS or RunPod; empty for another object."""
    image = task.get("image" if "command" in task or "portMappings" in task else "imageName")
    if not isinstance(image, str):
        return ""
    needs = [need for need in _listed(task.get("resourceRequirements")) if isinstance(need, dict)]
    gpus = next((need.get("value") for need in needs if need.get("type") == "GPU"), None)
    gpus = gpus or task.get("gpuCount", 1 if "imageName" in task else None)
    variables = task.get("environment", task.get("env"))
    named = [pair for pair in _listed(variables) if isinstance(pair, dict)]
    pairs = variables if isinstance(variables, dict) else {pair.get("name"): pair.get("value", "") for pair in named}
    options = [f"--gpus {shlex.quote(str(gpus))}"] if gpus else []
    options += [f"-e {shlex.quote(f'{name}={value}')}" for name, value in pairs.items()]
    for port in _listed(task.get("portMappings", task.get("ports"))):
        inside = port.get("containerPort", "") if isinstance(port, dict) else str(port).partition("/")[0]
        outside = port.get("hostPort", inside) if isinstance(port, dict) else inside
        options += [f"-p {shlex.quote(f'{outside}:{inside}')}"]
    entry = [str(word) for word in _listed(task.get("entryPoint"))]
    options += [f"--entrypoint {shlex.quote(entry[0])}"] if entry else []
    words = [*entry[1:], *_listed(task.get("command")), *_listed(task.get("dockerStartCmd"))]
    return " ".join(["docker run", *options, shlex.quote(image), *(shlex.quote(str(word)) for word in words)])


def _listed(value: object) -> list[object]:
    """The items of a list, or the words of a text."""
    if isinstance(value, list):
        return value
    return [*value.split()] if isinstance(value, str) else []


def cells_of(text: str) -> tuple[str, str] | None:
    """The commands of a notebook, each on a line of its own, and its code; None for any other text."""
    if '"cells"' not in text or not text.lstrip().startswith("{"):
        return None
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    commands, code = list[str](), list[str]()
    for source in sources:
        goes_on = is_shell = source.startswith("%%")
        for line in source.split("\n"):
            is_command = goes_on or line.lstrip().startswith("!")
            (commands if is_command else code).append(line if is_command or not line.startswith("%") else "")
            goes_on = is_shell or (is_command and line.endswith("\\"))
    return "\n".join(commands), "\n".join(code)


def _of_make(line: str) -> str:
    """The line of a Makefile as a shell's: an assignment, or a command without its marks."""
    if line.startswith("\t"):
        return re.sub(r"^\t[@+-]*", "", line).replace("$$", "$")
    assigned = OF_MAKE.match(line)
    if assigned:
        return f'{assigned[1]}="{assigned[2]}"' if "$" in assigned[2] else f"{assigned[1]}={shlex.quote(assigned[2])}"
    return line.strip() if line[:1] in " " else ""


def _of_supervisor(text: str) -> str:
    """The command of each program of a supervisord file, preceded by its environment variables."""
    lines = text.split("\n")
    place, pairs = -1, ""
    for number, line in enumerate(lines):
        key, _, value = line.partition("=")
        lines[number] = ""
        if line.startswith("["):
            place, pairs = -1, ""
        elif key.strip() == "command":
            place = number
            lines[number] = f"{pairs}{value.strip()}"
        elif key.strip() == "environment":
            pairs = re.sub(r",\s*(?=[A-Za-z_]\w*=)", " ", value.strip()) + " "
            lines[place] = f"{pairs}{lines[place]}" if place >= 0 else lines[place]
    return "\n".join(lines)


def _of_hcl(text: str) -> str:
    """The `docker run` of each block with an image, on the line of the image."""
    lines = [""] * (text.count("\n") + 1)
    for match in islice(IMAGE.finditer(text), MOST_IMAGES):
        block = _around(text, match.start())
        pairs = [f"-e {shlex.quote(f'{name}={value}')}" for name, value in _variables(block)]
        gpus = GPUS.search(block)
        options = [f"--gpus {gpus['limit'] or gpus['gpus'] or gpus['count'] or gpus['value'] or 'all'}"] if gpus else []
        options += ["--ipc=host"] if re.search(r'ipc_mode\s*=\s*"host"', block) else []
        options += [f"-p {outside or inside}:{inside}" for inside, outside in PORT.findall(block)]
        entry = _texts(block, "entrypoint") or _texts(block, "entryPoint")
        options += [f"--entrypoint {shlex.quote(entry[0])}"] if entry else []
        words = [*entry[1:], *_texts(block, "command"), *_texts(block, "args")]
        command = ["docker run", *options, *pairs, shlex.quote(match[1]), *map(shlex.quote, words)]
        lines[text.count("\n", 0, match.start(1))] = " ".join(command)
    return "\n".join(lines)


def _around(text: str, place: int) -> str:
    """The block around a place; the task's block, if the place is in its `config`."""
    start, depth = place, 0
    while start > max(place - MOST_SIGNS, 0):
        start -= 1
        depth += {"}": 1, "{": -1}.get(text[start], 0)
        if depth < 0:
            head = text[text.rfind("\n", 0, start) + 1 : start].strip()
            if head != "config":
                break
            depth = 0
    depth, end = 0, start
    while end < min(len(text), start + MOST_SIGNS):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
        if depth == 0:
            break
    return text[start:end]


def _texts(block: str, name: str) -> list[str]:
    """The texts of an attribute: of its list, or its only one."""
    value = r'(\[[^\]]*\]|"(?:\\.|[^"\\\n])*")'
    match = re.search(rf'(?:^|[{{,])[ \t]*"?{name}"?[ \t]*[:=][ \t]*{value}', block, re.MULTILINE)
    return TEXT.findall(match[1]) if match else []


def _variables(block: str) -> list[tuple[str, str]]:
    match = re.search(r'\benv(?:ironment)?"?[ \t]*[:=]?[ \t]*(?:\[(?=\s*\{)([^\]]*)|([\[{])([^\]}]*))', block)
    if not match:
        return []
    if match[1]:
        return NAMED.findall(match[1])
    if match[2] == "{":
        return PAIR.findall(match[3])
    return [(name, value) for name, _, value in (text.partition("=") for text in TEXT.findall(match[3]))]
