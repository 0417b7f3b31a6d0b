"""Tells which chat templates are so simple that they need no separate process.

A template is judged by its syntax tree, before any of it is executed. A harmless one has only nodes of the tables here.
Every other template is doubtful, and `renderer` runs it in a separate process. The nodes of a harmless template have
these limits:

- Its loops together have a limited number of turns; the renderer counts them, and stops at the limit.
- Texts grow only by joining, and a loop's turn does not get the result of the turn before: a namespace has only
  numbers, booleans and constants. So no value is larger than `MOST_WEIGHT` times the request and the template.
- Of Python's attributes only the methods of texts listed here exist. No name begins with an underscore.

So its work is at most that of `MOST_NODES` a turn, `MOST_HEAVY` of which read a whole value at Python's speed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from jinja2 import nodes

MOST_NODES = 1500
MOST_DEPTH = 40
MOST_WEIGHT = 64
MOST_HEAVY = 12
"""Nodes within loops that read a whole value in Python's pace: JSON is written, a text split."""
HEAVY = frozenset({"tojson", "string", "split"})

FILTERS = frozenset({"trim", "length", "count", "first", "last", "lower", "upper", "capitalize", "string", "tojson"})
TESTS = frozenset({"defined", "undefined", "true", "false", "none", "string", "mapping", "iterable", "number"})
METHODS = frozenset(["startswith", "endswith", "strip", "lstrip", "rstrip", "split", "lower", "upper", "items"])
LOOP = frozenset(["index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"])
COUNTS = frozenset(["index", "index0", "revindex", "revindex0", "length"])
FUNCTIONS = frozenset({"raise_exception", "strftime_now", "namespace"})
GLOBALS = FUNCTIONS | {"range", "dict", "lipsum", "cycler", "joiner", "self", "super", "caller", "varargs", "kwargs"}
DATE = re.compile(r"(?:[^%]|%[A-Za-z]){0,64}")
"""A date format; glibc would pad a field to any width in it."""
MOST_INDENT = 8
ANY, NUMBER, NAMESPACE = "any", "number", "namespace"


class Doubt(Exception):
    """The template may do more than the bounds here allow."""


class Value(NamedTuple):
    """Kind of an expression, and its `weight`: the most parts of the request or the template that it consists of."""

    kind: str = ANY
    weight: int = 1


def is_harmless(template: nodes.Template) -> bool:
    """True if the template's work is bounded by its input."""
    with contextlib.suppress(Doubt):
        Inspection().body(template.body, 0)
        return True
    return False


def count_turns(template: nodes.Template, name: str) -> None:
    for loop in template.find_all(nodes.For):
        loop.iter = nodes.Filter(loop.iter, name, [], [], None, None, lineno=loop.lineno)


class Inspection:
    """Single pass over the template; `names` maps each variable in scope to its known value."""

    def __init__(self) -> None:
        self.names: dict[str, Value] = {}
        self._nodes = self._heavy = self._loops = 0

    def body(self, statements: list[nodes.Node], depth: int) -> None:
        for node in statements:
            self._count(depth)
            if isinstance(node, nodes.Output):
                for part in node.nodes:
                    if not isinstance(part, nodes.TemplateData):
                        self.value(part, depth + 1)
            elif isinstance(node, nodes.Assign):
                self._assign(node, depth + 1)
            elif isinstance(node, nodes.If):
                self._if(node, depth + 1)
            elif isinstance(node, nodes.For):
                self._for(node, depth + 1)
            elif type(node).__name__ not in ("Break", "Continue"):
                raise Doubt

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES or depth > MOST_DEPTH:
            raise Doubt

    def _if(self, node: nodes.If, depth: int) -> None:
        self._count(depth)
        self.value(node.test, depth)
        self._branch(node.body, depth)
        for branch in node.elif_:
            self._if(branch, depth)
        self._branch(node.else_, depth)

    def _branch(self, statements: list[nodes.Node], depth: int) -> None:
        """Judges statements that may not run: afterwards a name has the larger of both values."""
        before = dict(self.names)
        self.body(statements, depth)
        for name, value in self.names.items():
            known = before.get(name, Value())
            kind = value.kind if value.kind == known.kind else ANY
            self.names[name] = Value(kind, max(value.weight, known.weight))

    def _for(self, node: nodes.For, depth: int) -> None:
        self.value(node.iter, depth)
        targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
        names = [target.name for target in targets if isinstance(target, nodes.Name)]
        if node.recursive or len(names) < len(targets):
            raise Doubt
        before = dict(self.names)
        self._loops += 1
        for name in names:
            self._name(name, Value())
        if node.test is not None:
            self.value(node.test, depth)
        self._branch(node.body, depth)
        self._loops -= 1
        self.names = before  # a loop's variables are local to it
        self._branch(node.else_, depth)

    def _assign(self, node: nodes.Assign, depth: int) -> None:
        value = self.value(node.node, depth)
        if isinstance(node.target, nodes.Name):
            self._name(node.target.name, value)
        elif isinstance(node.target, nodes.NSRef):
            if self.names.get(node.target.name, Value()).kind != NAMESPACE or not self._is_plain(node.node, value):
                raise Doubt
        else:
            raise Doubt

    def _name(self, name: str, value: Value) -> None:
        if name in GLOBALS or name == "loop" or name.startswith("_"):
            raise Doubt
        self.names[name] = value

    def _is_plain(self, node: nodes.Node, value: Value) -> bool:
        return value.kind == NUMBER or isinstance(node, (nodes.Const, nodes.Compare, nodes.Not, nodes.Test))

    def value(self, node: nodes.Node, depth: int) -> Value:
        """Kind and weight of an expression. Raises: Doubt."""
        self._count(depth)
        look = LOOKS.get(type(node))
        if look is None:
            raise Doubt
        value = look(self, node, depth + 1)
        if value.weight > MOST_WEIGHT:
            raise Doubt
        return value

    def sum(self, parts: list[nodes.Node], depth: int) -> Value:
        return Value(ANY, max(sum(self.value(part, depth).weight for part in parts), 1))

    def constant(self, node: nodes.Const, _depth: int) -> Value:
        return Value(NUMBER if isinstance(node.value, (int, float)) else ANY)

    def name(self, node: nodes.Name, _depth: int) -> Value:
        """The value of a variable; the sandbox's functions are called, not passed on."""
        if node.name in GLOBALS or node.name == "loop" or node.name.startswith("_"):
            raise Doubt
        return self.names.get(node.name, Value())

    def field(self, node: nodes.Getattr, depth: int) -> Value:
        """The value of a field of the request, by name."""
        if isinstance(node.node, nodes.Name) and node.node.name == "loop":
            if node.attr not in LOOP:
                raise Doubt
            return Value(NUMBER if node.attr in COUNTS else ANY)
        _known(node.attr)
        owner = self.value(node.node, depth)
        return Value(ANY, owner.weight)

    def item(self, node: nodes.Getitem, depth: int) -> Value:
        """The value of a field, an item, or a part of a list."""
        owner = self.value(node.node, depth)
        if isinstance(node.arg, nodes.Slice):
            edges = [node.arg.start, node.arg.stop, node.arg.step]
            if any(self.value(edge, depth).kind != NUMBER for edge in edges if edge is not None):
                raise Doubt
            return owner
        place = _constant(node.arg)
        if isinstance(place, str):
            _known(place)
        elif self.value(node.arg, depth).kind != NUMBER:
            raise Doubt
        return Value(ANY, owner.weight)

    def test(self, node: nodes.Test, depth: int) -> Value:
        """Checks a test of Jinja, whose value is a boolean."""
        if node.name not in TESTS or node.args or node.kwargs or node.dyn_args or node.dyn_kwargs:
            raise Doubt
        if not (isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS):
            self.value(node.node, depth)
        return Value()

    def filter(self, node: nodes.Filter, depth: int) -> Value:
        """The result of a Jinja filter that turns a value into a text or a number."""
        if node.name not in FILTERS or node.node is None or node.args or node.dyn_args or node.dyn_kwargs:
            raise Doubt
        for keyword in node.kwargs:
            argument = _constant(keyword.value)
            is_known = node.name == "tojson" and keyword.key in ("indent", "ensure_ascii")
            if not is_known or not isinstance(argument, int) or argument > MOST_INDENT:
                raise Doubt
        self._is_heavy(node.name)
        operand = self.value(node.node, depth)
        return Value(NUMBER) if node.name in ("length", "count") else Value(ANY, operand.weight)

    def _is_heavy(self, name: str) -> None:
        self._heavy += self._loops > 0 and name in HEAVY
        if self._heavy > MOST_HEAVY:
            raise Doubt

    def call(self, node: nodes.Call, depth: int) -> Value:
        """The value of a call: a method of a text, or one of the templates' functions."""
        is_plain = not node.dyn_args and not node.dyn_kwargs
        if is_plain and isinstance(node.node, nodes.Name) and node.node.name in FUNCTIONS:
            return self._function(node.node.name, node, depth)
        has_constants = all(isinstance(_constant(argument), (str, int)) for argument in node.args)
        if not isinstance(node.node, nodes.Getattr) or node.node.attr not in METHODS:
            raise Doubt
        if not is_plain or not has_constants or node.kwargs:
            raise Doubt
        self._is_heavy(node.node.attr)
        return Value(ANY, self.value(node.node.node, depth).weight)

    def _function(self, name: str, node: nodes.Call, depth: int) -> Value:
        if name == "namespace":
            values = [keyword.value for keyword in node.kwargs]
            if node.args or not all(self._is_plain(value, self.value(value, depth)) for value in values):
                raise Doubt
            return Value(NAMESPACE)
        if node.kwargs or len(node.args) != 1:
            raise Doubt
        form = _constant(node.args[0])
        if name == "strftime_now" and not (isinstance(form, str) and DATE.fullmatch(form)):
            raise Doubt
        return self.sum(list(node.args), depth)

    def joined(self, node: nodes.Concat | nodes.List | nodes.Tuple, depth: int) -> Value:
        return self.sum(list(node.iter_child_nodes()), depth)

    def added(self, node: nodes.Add, depth: int) -> Value:
        """The value of a sum: a number if one side is; else a text of both."""
        left, right = self.value(node.left, depth), self.value(node.right, depth)
        return Value(NUMBER if NUMBER in (left.kind, right.kind) else ANY, left.weight + right.weight)

    def number(self, node: nodes.Sub | nodes.Neg, depth: int) -> Value:
        """The value of a difference or product, which is a number, because texts have none."""
        self.sum(list(node.iter_child_nodes()), depth)
        return Value(NUMBER)

    def truth(self, node: nodes.Not | nodes.Compare, depth: int) -> Value:
        """Checks a negation or a comparison, whose value is a boolean."""
        parts = [part.expr if isinstance(part, nodes.Operand) else part for part in node.iter_child_nodes()]
        self.sum(parts, depth)
        return Value()

    def either(self, node: nodes.And | nodes.Or | nodes.CondExpr, depth: int) -> Value:
        return Value(ANY, max(self.value(part, depth).weight for part in node.iter_child_nodes()))


LOOKS: dict[type[nodes.Node], Callable[[Inspection, Any, int], Value]] = {
    nodes.Const: Inspection.constant,
    nodes.Name: Inspection.name,
    nodes.Add: Inspection.added,
    nodes.Getattr: Inspection.field,
    nodes.Getitem: Inspection.item,
    nodes.Test: Inspection.test,
    nodes.Filter: Inspection.filter,
    nodes.Call: Inspection.call,
    **dict.fromkeys((nodes.Concat, nodes.List, nodes.Tuple), Inspection.joined),
    **dict.fromkeys((nodes.Sub, nodes.Neg), Inspection.number),
    **dict.fromkeys((nodes.Not, nodes.Compare), Inspection.truth),
    **dict.fromkeys((nodes.And, nodes.Or, nodes.CondExpr), Inspection.either),
}


def _constant(node: object) -> object:
    return node.value if isinstance(node, nodes.Const) else None


def _known(name: str) -> None:
    """Raises: Doubt if Python's own values have an attribute of this name."""
    if name.startswith("_") or any(hasattr(kind, name) for kind in (str, dict, list, int, float, bool, type(None))):
        raise Doubt
