"""Follows the hints of refusals: the text after `try` is applied to the inventory as an operator would type it.

A hint is split into its alternatives (`…; or …`). An alternative is an edit if it begins with Python, or with a fixed
phrase of this project (`leave … out`, ``did you mean `…`?``); any other text is advice to a person, and is not
followed. More than 300 lines, because reading and typing share the same few forms.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import deploy.spec
from deploy.refusals.errors import Refusal
from tests.unit.samples import OWN, Source

OPENING, CLOSING = "([{", ")]}"
SPEC = {name: getattr(deploy.spec, name) for name in deploy.spec.__all__}
MARKS = re.compile(r'\["([^"]*)"\]|\[(\d+)\]|\.?([A-Za-z_]\w*)')
LEAVE_OUT = re.compile(r"leave (?P<names>[\w.]+(?:(?:, | and )[\w.]+)*) out")
TAKE_OUT = re.compile(r'(?:take|remove) "?(?P<names>\w+)"?(?:: "[^"]*")?(?: out| off|;|:| and write|$)')
OFFERED = re.compile(r"did you mean `(?P<word>[^`]+)`\?")
KNOWN = re.compile(r"known: (?P<word>[\w.-]+)")
PLACEHOLDER = re.compile(r"\b(?:NAME|USER|HOST|OWNER|ITS OWN|THAT ADDRESS)\b")
APART = re.compile(r"; or, |; or |; (?!this )|, or | or ")
WITHIN = re.compile(r"(?P<field>\w+=.+) in (?P<type>[A-Z]\w+)\(…\)")
BETWEEN = re.compile(r", and |, |; | and (?![\w.]+ out)| with | beside ")

Steps = list[str | int]
Data = dict[str, Any]
KEYS = frozenset({"release", "servers", "peer_address", "pool", "firewall", "gateway", "data_disk"})
"""Keys of the data that a hint may write as `key=value`."""


def ways_out(hint: str) -> list[str]:
    """The alternatives in a hint: split at `;` and at `or`, outside brackets and quotes."""
    return _split(hint, APART)


def _split(hint: str, separator: re.Pattern[str]) -> list[str]:
    parts, depth, quoted, start = [], 0, False, 0
    for place, letter in enumerate(hint):
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in OPENING) - (letter in CLOSING)
        if not quoted and depth == 0 and place >= start and (match := separator.match(hint, place)):
            parts.append(hint[start:place])
            start = match.end()
    return [part.strip() for part in [*parts, hint[start:]] if part.strip()]


@dataclass(frozen=True)
class Piece:
    """A part of an alternative: a field with its value, a data key with its value, an object, or a removal."""

    name: str = ""
    value: ast.expr | None = None
    key: bool = False
    gone: tuple[str, ...] = ()
    word: str = ""


def pieces_of(way: str) -> list[Piece]:
    """The typed parts, without words for a person in between; none if the text begins with words for a person."""
    pieces = [
        _piece(text.strip().removeprefix("then ").removeprefix("add ").removeprefix("write "))
        for text in _split(way, BETWEEN)
    ]
    return [piece for piece in pieces if piece] if pieces[0] else []


def _piece(text: str) -> Piece | None:
    if match := LEAVE_OUT.match(text) or TAKE_OUT.match(text):
        return Piece(gone=tuple(re.split(", | and ", match["names"])))
    if match := WITHIN.fullmatch(text):
        text = f"{match['type']}(…, {match['field']})"
    if match := OFFERED.match(text) or KNOWN.match(text):
        return Piece(word=match["word"])
    for end in [len(text), *(along.start() for along in reversed(list(re.finditer(r"[:. ]", text))))]:
        for wrapped in ("f({})", "{{{}}}", "{}"):
            try:
                node = ast.parse(wrapped.format(_as_python(text[:end])), mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if piece := _meaning(node, wrapped == "f({})"):
                return piece
    return None


def _as_python(text: str) -> str:
    """The text with `...` for `…`; after a named argument as its own argument, `_=...`."""
    return re.sub(r"(?<=\w=)…", "...", text.replace(", …", ", _=…")).replace("…", "...").replace("(_=", "(")


def _meaning(node: ast.expr, call: bool) -> Piece | None:
    if any(isinstance(part, ast.Compare | ast.BoolOp) for part in ast.walk(node)):
        return None
    if call:
        assert isinstance(node, ast.Call)
        return Piece(node.keywords[0].arg or "", node.keywords[0].value) if node.keywords and not node.args else None
    if isinstance(node, ast.Dict) and len(node.keys) == 1 and isinstance(node.keys[0], ast.Constant):
        return Piece(str(node.keys[0].value), node.values[0], key=True)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Piece(word=node.value)
    if (isinstance(node, ast.Call) and _name(node.func) in SPEC) or (isinstance(node, ast.Tuple) and node.elts):
        return Piece(value=node)
    return None


def _name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def steps_of(where: str) -> tuple[str, Steps]:
    """The host in a place, and the steps of its path inside that host's data."""
    host, colon, path = where.rpartition(": ")
    steps: Steps = []
    for text, number, name in MARKS.findall(path if colon else where):
        steps.append(int(number) if number else text or name)
    return host.partition(" and ")[0], steps


def at(value: Any, step: str | int) -> Any:
    """Returns the item or field of `value` that `step` names; raises KeyError if `value` has none of that name."""
    if isinstance(value, dict):
        return value[step]
    if isinstance(value, tuple | list):
        return value[_index(value, step)]
    if is_dataclass(value) and isinstance(step, str) and step in {field.name for field in fields(value)}:
        return getattr(value, step)
    raise KeyError(step)


def _index(items: tuple[Any, ...] | list[Any], step: str | int) -> int:
    if isinstance(step, int):
        return step
    for number, item in enumerate(items):
        if isinstance(item, tuple) and item and item[0] == step:
            return number
        if step in (getattr(item, "name", None) or getattr(item, "checkpoint", None), getattr(item, "pool", None)):
            return number
    raise KeyError(step)


def put(value: Any, steps: Steps, item: Any) -> Any:
    """The value with `item` at the end of the steps."""
    if not steps:
        return item
    step, *rest = steps
    if isinstance(value, dict):
        return {**value, step: put(value.get(step), rest, item)}
    if isinstance(value, tuple | list):
        number = _index(value, step)
        return type(value)([*value[:number], put(value[number], rest, item), *value[number + 1 :]])
    assert isinstance(step, str)
    return replace(value, **{step: put(getattr(value, step), rest, item)})


def without(value: Any, steps: Steps) -> Any:
    """The value without the item at the end of the steps: without a key, an item, or with the field's default."""
    *parents, last = steps
    parent = value
    for step in parents:
        parent = at(parent, step)
    if isinstance(parent, dict):
        return put(value, parents, {key: item for key, item in parent.items() if key != last})
    if isinstance(parent, tuple | list):
        number = _index(parent, last)
        return put(value, parents, type(parent)([*parent[:number], *parent[number + 1 :]]))
    kept = {field.name: getattr(parent, field.name) for field in fields(parent) if field.init and field.name != last}
    return put(value, parents, type(parent)(**kept))


def values_along(data: dict[str, Any], steps: Steps) -> Iterator[tuple[Steps, Any]]:
    """Each value on the path to a place, the deepest first, with its own steps."""
    along: list[tuple[Steps, Any]] = [([], data)]
    for number, step in enumerate(steps):
        try:
            along.append((steps[: number + 1], at(along[-1][1], step)))
        except (KeyError, IndexError, TypeError, StopIteration):
            break
    yield from reversed(along)


def everything(value: Any, steps: Steps) -> Iterator[tuple[Steps, Any]]:
    """A value and every value nested in it, each with the steps that lead to it."""
    yield steps, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from everything(item, [*steps, key])
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from everything(item, [*steps, number])
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from everything(getattr(value, field.name), [*steps, field.name])


FILLED = {"weights": OWN}
"""Stands for `…` if the inventory has nothing to keep."""


class NotTyped(Exception):
    """An alternative with a place that only the operator can fill."""


def built(node: ast.expr, kept: Any = None, whole: bool = False) -> Any:
    """The object that the code builds; each `…` is replaced by the part of `kept` at that place."""
    if isinstance(node, ast.Constant) and node.value is ...:
        if kept is None:
            raise NotTyped
        return kept
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and ("..." in node.value or PLACEHOLDER.search(node.value)):
            raise NotTyped
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        items = [built(item, kept[n] if isinstance(kept, tuple) and n < len(kept) else None) for n, item in
                 enumerate(node.elts) if not _is_more(item)]  # fmt: skip
        if kept is None and any(map(_is_more, node.elts)):
            raise NotTyped
        more = tuple(kept) if kept and any(map(_is_more, node.elts)) else ()
        return (*more, *items) if isinstance(node, ast.Tuple) else [*more, *items]
    if isinstance(node, ast.Dict):
        return {built(key): built(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -built(node.operand)
    if isinstance(node, ast.Call):
        return _called(node, kept, whole)
    raise NotTyped


def _has_more(node: ast.Call) -> bool:
    return any(map(_is_more, node.args)) or any(word.arg == "_" for word in node.keywords)


def _is_more(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _field_of(word: ast.keyword, here: Data) -> Any:
    assert word.arg
    if word.arg == "reason" and isinstance(word.value, ast.Constant) and word.value.value == "...":
        return "an operator's own words"
    return built(word.value, here.get(word.arg, FILLED.get(word.arg)))


def _called(node: ast.Call, kept: Any, whole: bool) -> Any:
    kind: Any = SPEC.get(_name(node.func))
    if kind is None:
        raise NotTyped
    if isinstance(node.func, ast.Attribute):
        kind = getattr(kind, node.func.attr)
    here = {}
    if isinstance(kind, type) and isinstance(kept, _family(kind)) and not (whole and not _has_more(node)):
        here = {
            field.name: getattr(kept, field.name) for field in fields(kind) if field.init and hasattr(kept, field.name)
        }
    words = {word.arg: _field_of(word, here) for word in node.keywords if word.arg not in (None, "_")}
    positional = [built(item) for item in node.args if not _is_more(item)]
    if isinstance(node.func, ast.Attribute) and any(map(_is_more, node.args)):
        positional.append(getattr(kept, "revision", "") or OWN.revision)
    try:
        return kind(*positional, **words) if positional else kind(**(here | words))
    except TypeError as error:
        raise NotTyped from error


FAMILIES = (
    (deploy.spec.LLM, deploy.spec.Embedder, deploy.spec.Reranker),
    (deploy.spec.Draft, deploy.spec.Eagle, deploy.spec.Medusa, deploy.spec.ReDrafter, deploy.spec.Lookahead),
)
"""Classes whose objects may be in the same place."""


def _family(kind: Any) -> tuple[Any, ...]:
    return next((family for family in FAMILIES if kind in family), (kind,) if isinstance(kind, type) else ())


ALONE: dict[Any, str] = {
    deploy.spec.Rollout: "rollout",
    deploy.spec.Driver: "driver",
    deploy.spec.Docker: "docker",
    deploy.spec.Firewall: "firewall",
    deploy.spec.EngineTrust: "engine_trust",
    deploy.spec.Gateway: "gateway",
}
"""Objects of a host's data, by their key."""


def followed(way: str, problem: Refusal, hosts: list[Source]) -> list[list[Source]]:
    """The inventories that an operator may have after following an alternative; none for advice to a person.

    An object in a hint replaces the present one, or only its fields: an operator may type either.
    """
    results = []
    for whole in (False, True):
        changed = list(hosts)
        try:
            for piece in pieces_of(way):
                changed = _typed(piece, way, problem, changed, whole)
        except NotTyped:
            continue
        if changed != hosts and changed not in results:
            results.append(changed)
    return results


def _typed(piece: Piece, way: str, problem: Refusal, hosts: list[Source], whole: bool) -> list[Source]:
    if isinstance(piece.value, ast.Tuple) and not piece.name:
        return _host_data(piece.value, hosts)
    host, steps = steps_of(problem.facts["where"])
    named = [source for source in hosts if source.name == host]
    touched = named if named and " more: " not in problem.facts["where"] else hosts
    if isinstance(piece.value, ast.Call) and _name(piece.value.func) == "Rollout":
        touched = hosts
    if piece.key and re.search(r" in the data of the (?:hosts|pool)", way):
        touched = [source for source in hosts if "servers" in source.data]
    if match := re.search(r" (?:for|of) (?:server )?([\w.-]+)", way):
        steps = next((place for source in touched for place in _named(match[1], source.data)), steps)
    changed, hits = list(hosts), 0
    for source in touched:
        try:
            data = _data(piece, steps, source.data, problem, whole)
        except (KeyError, IndexError, TypeError, StopIteration):
            continue
        hits += 1
        changed[changed.index(source)] = replace(source, data=data)
    if not hits and isinstance(piece.value, ast.Call):
        return _elsewhere(piece.value, hosts)
    if not hits:
        raise NotTyped
    return changed


def _named(name: str, data: Data) -> Iterator[Steps]:
    for place, value in everything(data.get("servers", ()), ["servers"]):
        if getattr(value, "name", None) == name:
            yield place


def _data(piece: Piece, steps: Steps, data: Data, problem: Refusal, whole: bool) -> Data:
    if piece.gone:
        return _taken_out(piece.gone, steps, data)
    if piece.word:
        return _worded(piece.word, steps, data, problem, whole)
    assert piece.value
    if piece.key:
        parent = {tuple(place): value for place, value in values_along(data, steps)}.get(tuple(steps[:-1]))
        if len(steps) > 1 and isinstance(parent, dict):
            return put(data, [*steps[:-1], piece.name], built(piece.value))
        return {**data, piece.name: built(piece.value, data.get(piece.name))}
    if piece.name:
        return _field(piece.name, piece.value, steps, data)
    return _placed(piece.value, steps, data, whole)


def _taken_out(names: tuple[str, ...], steps: Steps, data: Data) -> Data:
    for name in names:
        path = name.split(".")
        if name == "it" or (steps and name == steps[-1]):
            data = without(data, steps)
            continue
        holder = next((place for place, value in values_along(data, steps) if _has(value, path[0])), None)
        if holder is None:
            raise KeyError(name)
        data = without(data, [*holder, *path])
    return data


def _has(value: Any, name: str) -> bool:
    if isinstance(value, dict):
        return name in value
    return is_dataclass(value) and name in {field.name for field in fields(value)}


def _worded(word: str, steps: Steps, data: Data, problem: Refusal, whole: bool) -> Data:
    *parents, last = steps
    places = {tuple(place): value for place, value in values_along(data, steps)}
    parent, value = places.get(tuple(parents)), places.get(tuple(steps))
    if isinstance(value, tuple):
        items = [item for item in value if str(item) not in problem.facts["seen"]]
        return put(data, steps, (word,) if whole else (*items, word))
    if isinstance(last, str) and isinstance(parent, tuple) and _has(value, "pool"):
        return put(data, [*steps, "pool"], word)
    if (
        isinstance(parent, dict)
        and str(value) not in problem.problem
        and str(last) in problem.problem
        and not problem.kind.startswith("alias")
    ):
        return put(data, parents, {word if key == last else key: item for key, item in parent.items()})
    for inside, item in everything(value, steps):
        if isinstance(item, str) and f'"{item}"' in problem.facts["seen"].replace("'", '"') and item != word:
            return put(data, inside, word)
    for inside, item in everything(value, steps):
        keys = [key for key in item if repr(key) in problem.facts["seen"]] if isinstance(item, dict) else []
        if keys:
            return put(data, inside, {word if key in keys else key: kept for key, kept in item.items()})
    if isinstance(value, dict):
        return put(data, steps, {word if key in problem.facts["seen"] else key: item for key, item in value.items()})
    return put(data, steps, word)


def _field(name: str, node: ast.expr, steps: Steps, data: Data) -> Data:
    for place, value in values_along(data, steps):
        if _has(value, name) or (place == [] and name in KEYS):
            kept = value.get(name) if isinstance(value, dict) else getattr(value, name)
            return put(data, [*place, name], built(node, kept))
    place = next(place for place, value in everything(data, []) if is_dataclass(value) and _has(value, name))
    return put(data, [*place, name], built(node))


def _placed(node: ast.expr, steps: Steps, data: Data, whole: bool) -> Data:
    kind: Any = SPEC.get(_name(node.func)) if isinstance(node, ast.Call) else None
    if kind is None:
        return put(data, steps, built(node))
    family = _family(kind)
    for place, value in values_along(data, steps):
        if isinstance(value, family):
            return put(data, place, built(node, value, whole))
        for inside, item in everything(value, place):
            if len(inside) == len(place) + 1 and isinstance(item, family):
                return put(data, inside, built(node, item, whole))
    if kind in ALONE:
        return {**data, ALONE[kind]: built(node, None, whole)}
    for place, value in everything(data, []):
        if isinstance(value, kind if isinstance(kind, type) else family):
            return put(data, place, built(node, value, whole))
    return put(data, steps, built(node, None, whole))


def _elsewhere(node: ast.Call, hosts: list[Source]) -> list[Source]:
    """A hint about an object of another host, for example a route of the balancer."""
    kind: Any = SPEC[_name(node.func)]
    words = {word.arg: word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)}
    for number, source in enumerate(hosts):
        for place, value in everything(source.data, []):
            if isinstance(value, kind) and ("pool" not in words or getattr(value, "pool", None) == words["pool"]):
                data = put(source.data, place, built(node, value))
                return [*hosts[:number], replace(source, data=data), *hosts[number + 1 :]]
    raise NotTyped


def _host_data(node: ast.Tuple, hosts: list[Source]) -> list[Source]:
    if len(node.elts) != 2 or not isinstance(node.elts[1], ast.Dict):
        raise NotTyped
    name, data = built(node)
    return [replace(source, data=source.data | data) if source.name == name else source for source in hosts]
