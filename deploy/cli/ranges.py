"""Types of numeric options. Both ends of each range are declared, so that typing errors and NaN are refused.

A test walks every verb: a number without a range fails it.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from deploy.inventory.key_limits import day_meant
from deploy.inventory.slips import DAYS, meant_by


class Whole(click.IntRange):
    """A whole number between two ends. "10k" and "1,024" are refused; the refusal names the number that they mean."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, if it is in the range. Raises: click.BadParameter."""
        if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?[0-9_]+\s*", value):
            if several := re.match(r"\s*([0-9]+)\s*[,;]\s*[0-9]{1,2}(?:[,;]|$)", value):
                self.fail(f"{value!r} is more than one number, and this takes one. Write {several[1]}.", param, ctx)
            is_size = param and "MIB" in f"{getattr(param, 'metavar', '')} {param.name}".upper()
            unit = "x_mib" if is_size else "x" if self is TOKENS else "x_count"
            typed = meant_by(value, "int", unit).partition("=")[2]
            meant = f" Write {typed}." if typed else ""
            self.fail(f"{value!r} is not a whole number.{meant}", param, ctx)
        return super().convert(value, param, ctx)


TOKENS = Whole(1, 10_485_760)
"""Tokens of a context; the longest published one has 10,485,760 (Llama 4 Scout)."""
GPUS = Whole(1, 16)
"""GPUs of a host; no known host has more than 16."""
MIB = Whole(2048, 1_048_576)
"""Memory of one card, as in an inventory's `GPU`."""
ITEMS = Whole(1, 100_000)
"""Texts or passages of one request."""


class Number(click.FloatRange):
    """A number between two ends; `nan`, which compares as false with every number, is refused too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, if it is in the range. Raises: click.BadParameter."""
        share = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
        if share:
            self.fail(f"{value!r} is not a number. Write {share[1]}.", param, ctx)
        is_share = self.max == 100 and isinstance(value, str) and re.fullmatch(r"0?\.[0-9]{1,4}", value)
        if is_share and (self.min or 0) >= 1:
            self.fail(f"{value} would be less than one percent. Write {float(value) * 100:g}.", param, ctx)
        if isinstance(value, str) and param and re.fullmatch(r"[0-9.]+ *[a-z]+", value):
            unit = "x_ms" if f"{param.name}".endswith("ms") else "x_seconds"
            typed = meant_by(value, "int", unit).partition("=")[2]
            self.fail(f"{value!r} is not a number.{f' Write {typed}.' if typed else ''}", param, ctx)
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number in the range {self._describe_range()}.", param, ctx)
        return number


class Day(click.DateTime):
    """A day that has begun. "yesterday" and "7d" are refused; the refusal names the day that they mean."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The first moment of the day in UTC. Raises: click.BadParameter."""
        today = datetime.now(UTC).replace(tzinfo=None)
        if isinstance(value, str) and not re.fullmatch(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", value):
            words = {"today": 0, "yesterday": 1}
            number = re.match(r"([0-9]{1,3}) *(d|w|m|y)", value.lower())
            since = words.get(value.lower(), int(number[1]) * DAYS[number[2]] if number else 30)
            month = f"{value}-01" if re.fullmatch(r"[0-9]{4}-(?:0[1-9]|1[0-2])", value) else ""
            typed = month or day_meant(value) or f"{today - timedelta(days=since):%Y-%m-%d}"
            self.fail(f"{value!r} is no day. Write {typed}.", param, ctx)
        day = super().convert(value, param, ctx)
        if day > today:
            self.fail(f"{value!r} has not begun; today is {today:%Y-%m-%d}, UTC.", param, ctx)
        return day
