"""Reads the containers out of a compose file or a Kubernetes manifest: image, command, and every other setting.

PyYAML reads the text; placeholders of a template (`{{ … }}`) and elisions (`...`) are replaced before and restored
after. Fragments are read too: the services or containers alone, or a single one of them.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from deploy.catalog.containers import CONTAINER_KEYS, SERVICE_KEYS
from deploy.linter.fields import Fields, custom_container, custom_resource, fields_of, of_ansible, services_of, shown

COMPOSE, POD = "compose", "pod"
BEGINS = re.compile(r"\A(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:---|\{\{|\{\s*\"|(?:- )?[\w.-]+:(?:\s|$))")
"""The first line with text begins a mapping, a list of mappings or a document."""
MENTIONS = re.compile(
    r"(?:^|[\s{,\[])\"?(?:image|command|args|entrypoint|containers|services|predictor|uri|repository)\"?:", re.MULTILINE
)
HOLE = re.compile(r"\{\{[^{}\n]*\}\}")
HOLES_ALONE = re.compile(r"^[ \t]*(?:\{\{[^\n]*\}\}|\.\.\.|…)[ \t]*$", re.MULTILINE)
KEPT = re.compile("\ue000([0-9]+)\ue001")
LINE_END = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\?\n\s*""", re.DOTALL)
OF_PODS = frozenset(["args", "resources", "volumeMounts", "imagePullPolicy", "livenessProbe", "readinessProbe"])
OF_CONTAINERS = SERVICE_KEYS | CONTAINER_KEYS
OF_JOBS = frozenset(["script", "steps", "stage", "uses", "runs-on"])
"""Keys of CI jobs, which have an image too."""
MOST_NODES = 50_000
LONG = 2**16
"""Characters from which libyaml reads a text, ten times as fast as the reader in Python with its better messages."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container; `words` is its command as a shell would read it, empty if the image's default command runs."""

    line: int
    image: str
    words: str
    kind: str = COMPOSE
    name: str = ""
    settings: Fields = field(default_factory=Fields)
    pod: Mapping[str, Any] = field(default_factory=dict)
    """The pod's specification."""
    owner: Mapping[str, Any] = field(default_factory=dict)
    """The object or the compose file that holds the container."""

    @property
    def title(self) -> str:
        """The container's name in a report."""
        noun = "service" if self.kind == COMPOSE else "container"
        return f"{noun} {self.name}" if self.name else noun

    def line_of(self, key: str) -> int:
        return self.settings.lines.get(key, self.line)


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """The place and the reason for which a manifest is not YAML."""

    line: int
    reason: str


def is_manifest(text: str) -> bool:
    return any(True for _ in containers(text))


def unreadable(text: str) -> Unreadable | None:
    """The reason why text that begins like a manifest cannot be read; None for any other text."""
    if not (BEGINS.match(text) and re.search(r"^\s*(?:- )?(?:services|apiVersion|containers):", text, re.MULTILINE)):
        return None
    result = _documents(text)
    return result if isinstance(result, Unreadable) else None


def containers(text: str) -> Iterator[Container]:
    """Every container, in the order of the text; the image is empty if it is built beside the file."""
    documents = _documents(text) if BEGINS.match(text) and MENTIONS.search(text) else ()
    if isinstance(documents, Unreadable):
        return
    every = [container for document in documents for container in _of_document(document)]
    yield from sorted(every, key=lambda container: container.line)


def documents_of(text: str) -> tuple[object, ...]:
    """The documents of a YAML file as plain values; none if it cannot be read."""
    documents = _documents(text)
    return () if isinstance(documents, Unreadable) else documents


def checks_of(container: Container) -> Iterator[tuple[int, str]]:
    """The health-check commands of a container, as a shell would read them, with their line."""
    check = container.settings.get("healthcheck")
    test = check.get("test") if isinstance(check, Fields) else None
    if isinstance(test, str):
        yield container.line_of("healthcheck"), test
    elif isinstance(test, list) and test[:1] == ["CMD-SHELL"]:
        yield container.line_of("healthcheck"), " ".join(shown(word) for word in test[1:])
    elif isinstance(test, list) and test[:1] == ["CMD"]:
        yield container.line_of("healthcheck"), _words(test[1:])
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.settings.get(key)
        run = probe.get("exec") if isinstance(probe, Fields) else None
        if isinstance(run, Fields) and isinstance(run.get("command"), list):
            yield container.line_of(key), _words(run["command"])


def _of_document(document: object) -> Iterator[Container]:
    """The containers of a document: a compose file, an object, or a fragment of either."""
    if isinstance(document, Fields) and isinstance(document.get("services"), Fields):
        for name, service in services_of(document):
            yield _container(service, COMPOSE, name, owner=document)
        return
    if isinstance(document, Fields) and (custom := custom_resource(document)):
        name = str(custom[0].get("name") or document.get("kind"))
        yield _container(custom[0], POD, name, pod=custom[1], owner=document)
        return
    whole = list(_of_pods(document, document))
    yield from whole
    if whole:
        return
    if isinstance(document, list):
        for row in document:
            if isinstance(row, Fields) and _names_a_program(row):
                yield _container(row, POD, str(row.get("name", "")), owner=row)
    elif isinstance(document, Fields) and _names_a_program(document) and len(document.keys() - OF_CONTAINERS) < 2:
        kind = POD if OF_PODS & set(document) else COMPOSE
        yield _container(document, kind, str(document.get("name", "")), owner=document)
    elif isinstance(document, Fields):
        for name, service in document.items():
            if isinstance(service, Fields) and _names_a_program(service) and not OF_JOBS & set(service):
                yield _container(service, COMPOSE, name, owner=document)


def _of_pods(value: object, owner: object) -> Iterator[Container]:
    """The containers of every pod inside an object, at any depth, and the models of KServe."""
    if isinstance(value, list):
        for row in value:
            yield from _of_pods(row, row if value is owner else owner)
    if not isinstance(value, Fields):
        return
    for key, inner in value.items():
        if key in ("containers", "initContainers") and isinstance(inner, list):
            for row in inner:
                if isinstance(row, Fields):
                    yield _container(row, POD, str(row.get("name", "")), pod=value, owner=owner)
        elif key.rpartition(".")[2] == "docker_container" and isinstance(inner, Fields):
            yield _container(of_ansible(inner), COMPOSE, str(inner.get("name", "")), owner=Fields())
        elif isinstance(inner, Fields) and (custom := custom_container(key, inner, value, fields_of(owner))):
            yield _container(custom, POD, str(inner.get("name", "")), pod=value, owner=owner)
        elif key == "model" and isinstance(inner, Fields) and {"modelFormat", "storageUri"} & set(inner):
            yield _container(inner, POD, str(inner.get("name", "model")), pod=value, owner=owner)
        else:
            is_owner = isinstance(inner, list) if key == "items" else "extraPodSpec" in fields_of(inner)
            yield from _of_pods(inner, inner if is_owner else owner)


def _names_a_program(fields: Fields) -> bool:
    return isinstance(fields.get("image"), str) or (
        "command" in fields and not OF_JOBS & set(fields) and isinstance(fields["command"], str | list)
    )


def _container(fields: Fields, kind: str, name: str, *, pod: object = None, owner: object = None) -> Container:
    keys = [key for key in ("image", "entrypoint", "command", "args") if key in fields]
    image = fields.get("image")
    return Container(
        line=min((fields.lines[key] for key in keys if key in fields.lines), default=_first_line(fields)),
        image=image if isinstance(image, str) else "",
        words=" ".join(filter(None, (_words(fields[key]) for key in keys if key != "image"))),
        kind=kind,
        name=name,
        settings=fields,
        pod=pod if isinstance(pod, Fields) else Fields(),
        owner=owner if isinstance(owner, Fields) else Fields(),
    )


def _first_line(fields: Fields) -> int:
    return min(fields.lines.values(), default=1)


def _words(value: object) -> str:
    """The words of a command: the entries of a list, or a text split as a shell would split it."""
    if isinstance(value, list):
        return _listed([shown(entry) for entry in value])
    text = shown(value).strip()
    return LINE_END.sub(lambda match: match[0] if match[0][0] in "'\"" else " ", text)


def _listed(entries: list[str]) -> str:
    """The entries of a list as words; `$VAR` and `$(VAR)` are kept unquoted, so that they count as variables."""
    words = [entry.strip() for entry in entries if entry.strip()]
    return " ".join(word if "$" in word and " " not in word else shlex.quote(word) for word in words)


OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")
"""Characters that end a line only for YAML, whose line numbers would then differ from the text's."""


class _Loader(yaml.composer.Composer, getattr(yaml, "CSafeLoader", object)):  # type: ignore[misc]  # untyped
    """libyaml's parser under Python's composer, because libyaml's own composer crashes Python on a deep text."""

    def __init__(self, stream: str) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        yaml.composer.Composer.__init__(self)


@lru_cache(maxsize=16)
def _documents(text: str) -> tuple[object, ...] | Unreadable:
    """The documents of a text as plain values, or the reason why it cannot be read."""
    lines = OTHER_BREAKS.sub(" ", text.replace("\r\n", "\n")).split("\n")
    indent = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip(" \t")), default=0)
    held: list[str] = []

    def _set_aside(match: re.Match[str]) -> str:
        held.append(match[0])
        return f"\ue000{len(held) - 1}\ue001"

    plain = HOLE.sub(_set_aside, HOLES_ALONE.sub("", "\n".join(line[indent:] for line in lines)))
    try:
        reader = _Reader(held)
        loader: Any = _Loader if len(plain) > LONG and yaml.__with_libyaml__ else yaml.SafeLoader
        return tuple(reader.value(node) for node in yaml.compose_all(plain, Loader=loader) if node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return Unreadable(line=mark.line + 1 if mark else 1, reason=error.problem or "it is not YAML")
    except (yaml.YAMLError, RecursionError):
        return Unreadable(line=1, reason="it is not YAML")


class _Reader:
    """Turns nodes into plain values, at most `MOST_NODES` of them, because aliases can multiply without end."""

    def __init__(self, held: list[str]) -> None:
        self.held = held
        self.nodes = 0

    def value(self, node: Any) -> Any:
        """The plain value of a node."""
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise yaml.YAMLError
        if isinstance(node, yaml.SequenceNode):
            return [self.value(entry) for entry in node.value]
        if isinstance(node, yaml.MappingNode):
            return self._fields(node)
        return self._scalar(node)

    def _fields(self, node: yaml.MappingNode) -> Fields:
        fields, merged = Fields(), list[Fields]()
        for key, inner in node.value:
            name = self._restored(key.value) if isinstance(key, yaml.ScalarNode) else ""
            value = self.value(inner)
            if name == "<<":
                merged += [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, Fields)]
                continue
            fields[name] = value
            fields.lines[name] = key.start_mark.line + 1
        for row in merged:
            for name in [name for name in row if name not in fields]:
                fields[name] = row[name]
                fields.lines[name] = row.lines[name]
        return fields

    def _scalar(self, node: Any) -> str | int | bool | None:
        """Keeps texts as texts; of plain scalars, reads only whole numbers, `true` and null."""
        text = self._restored(node.value)
        if node.style is not None:
            return text
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if text in ("", "~") or text.lower() == "null":
            return None
        return int(text) if re.fullmatch(r"-?(?:0|[1-9][0-9]{0,17})", text) else text

    def _restored(self, text: str) -> str:
        return KEPT.sub(lambda match: self.held[int(match[1])] if int(match[1]) < len(self.held) else match[0], text)
