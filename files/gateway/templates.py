"""Chat templates of the weights: jinja in a sandbox, as transformers renders them.

A template comes with the weights and is foreign code. It cannot reach Python's attributes, change its input, or repeat
a text or list into the millions, and its result is bounded. `renderer`, in whose process this runs, bounds its work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from gateway.harmless import count_turns, is_harmless

MOST_CHARACTERS = 2**25
BOUNDED = frozenset({"*", "**", "%", "+"})


class TemplateError(ValueError):
    """The template refused the messages, or exceeded its bounds. The message is the template's."""


class TooManyTurns(TemplateError):
    """The template's loops together exceeded their number of turns."""


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks a model's text for training; here it has no effect."""

    def __init__(self, environment: jinja2.Environment) -> None:
        super().__init__(environment)
        self.tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        """The block's own content."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja's sandbox, which bounds `range`; this one also bounds the results of operators."""

    intercepted_binops = BOUNDED

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """The operator's result, if it cannot be huge."""
        texts = [side for side in (left, right) if isinstance(side, (str, list, tuple))]
        if operator == "*" and texts:
            times = [side for side in (left, right) if isinstance(side, int)]
            too_large = any(len(text) * count > MOST_CHARACTERS for text in texts for count in times)
        elif operator == "+":
            too_large = sum(map(len, texts)) > MOST_CHARACTERS
        else:
            too_large = operator == "**" or (operator == "%" and isinstance(left, str))
        if too_large:
            raise TemplateError(f"the template's `{operator}` makes too large a value")
        return super().call_binop(context, operator, left, right)


class Template:
    """A compiled template. `names` are the variables that it reads and does not set."""

    def __init__(self, source: str, constants: Mapping[str, str], most_turns: int = 0) -> None:
        """`constants`: bos_token and similar. `most_turns`: limit for all loops of a rendering together; 0 is no limit.

        Raises: ValueError if the source is not a template.
        """
        self.source, self._constants = source, dict(constants)
        extensions: list[Any] = [Generation, jinja2.ext.loopcontrols]
        environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=extensions, cache_size=0)
        environment.filters["tojson"] = tojson
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        environment.filters["counted"] = self._counted
        self._most_turns = self._turns_left = most_turns
        try:
            tree = environment.parse(source)
            self.names = frozenset(jinja2.meta.find_undeclared_variables(tree))
            self.is_harmless = is_harmless(tree)
            """True if its work is bounded, so that it needs no separate process."""
            if most_turns:
                count_turns(tree, "counted")
            self._compiled = environment.from_string(tree)
        except jinja2.TemplateError as error:
            raise ValueError(f"the chat template cannot be read: {error}") from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables.

        Raises: TemplateError.
        """
        parts, size = [], 0
        self._turns_left = self._most_turns
        try:
            for part in self._compiled.generate({**self._constants, **variables}):
                parts.append(part)
                size += len(part)
                if size > MOST_CHARACTERS:
                    raise TemplateError("the template's output for these messages is too large, or takes too long")
        except (TemplateError, MemoryError):
            raise
        except jinja2.TemplateError as error:
            raise TemplateError(str(error)) from None
        except Exception as error:  # a template is foreign code, and may raise anything
            raise TemplateError(f"the template refuses these messages ({type(error).__name__})") from None
        return "".join(parts)

    def _counted(self, values: Any) -> Any:
        self._turns_left -= len(values)
        if self._turns_left < 0:
            raise TooManyTurns("the template's output for these messages is too large, or takes too long")
        return values


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without escapes for HTML, as templates expect it."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _now(form: str) -> str:
    return time.strftime(form)
