"""Unexpected objects, numbers, texts and keys for an inventory; `tests.unit.random_inventories` inserts them."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import types
import unittest.mock
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from deploy import spec

SECRET = "canary4711canary"
"""A text of unexpected values that no message may show."""


class Ambiguous:
    """An object like a numpy array, whose comparison has no truth value."""

    __hash__ = None

    def __eq__(self, value: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


class Mute:
    """An object that cannot be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no words for this")


class Empty:
    """An object all of whose attributes raise."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} yet")


class Text(str):
    """A subclass of str."""


class Number(enum.IntEnum):
    """A number of a subclass."""

    MANY = 7


@dataclass(frozen=True)
class Foreign:
    """A dataclass outside the spec."""

    name: str = "foreign"
    gpus: int = 1


def endless() -> list[Any]:
    """A list that contains itself."""
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> tuple[Any, ...]:
    """A tuple of five thousand levels."""
    value: tuple[Any, ...] = ()
    for _ in range(5000):
        value = (value,)
    return value


def numbers() -> Iterator[int]:
    """A generator, which can be iterated only once."""
    yield 1


# fmt: off
VALUES: tuple[Any, ...] = (
    None, True, False, "", (), b"bytes", frozenset(), Ellipsis, NotImplemented,
    0, -1, 1, 2, 22, 80, 443, 99, 8000, 65_535, 65_536, 10**6, 2**31, 2**64, 10**400, -(10**400),
    0.0, 0.5, 0.9, 1.0, -0.5, 95.0, 8192.0, 1e300, 1e-9, float("nan"), float("inf"), -float("inf"), complex(1, 2),
    "x", "auto", "None", "0", "8000", "5m", "32k", "25%", "150%", "-1", " ", "~", "~x", "/", "..", "//", "a/b", "a/b@c",
    "https://x", "10.0.0.0/8", "::/0", "0.0.0.0", "::1", "fe80::1%eth0", "10.0.0.1", "gpu-1:22", "u@h", "é", "\n",
    "x" * 5000, "{{7*7}}", "$(id)", "-o", "\x00", "\ud800", f"hf_{SECRET * 2}", "26.07", "latest", "h100-80",
    "ubuntu-24.04", "²", "①", "gpt-oss-20b",
    object, int, spec.Machine, spec.Server, len, types, Number.MANY, Text("main"), Foreign(), pathlib.Path("x"),
    datetime.date(2026, 1, 1), decimal.Decimal("1.5"), decimal.Decimal("NaN"), range(3), slice(1),
    {1: 2}, {"a": 1}, {None: None}, {"": ""}, {"a": {"b": object()}}, {(): ()},
    [], [1], ["x"], {1}, (1,), ("x",), (None,), ("a", "a"), (("h", 5),),
)
MADE: tuple[Callable[[], Any], ...] = (
    object, Ambiguous, Mute, Empty, endless, deep, numbers, unittest.mock.MagicMock, types.SimpleNamespace,
    lambda: ValueError("an exception"), lambda: memoryview(b"x"), lambda: bytearray(b"x"), lambda: iter(()),
    lambda: spec.Secret.env("A"), lambda: spec.Secret.env(""), spec.Secret.command, lambda: spec.Secret.vault("", ""),
    lambda: spec.Machine(os="debian-12", gpu="l40s-48"), lambda: spec.Hub(endpoint="x"),
    spec.Gateway, spec.Firewall, spec.Rollout, spec.Traffic, spec.Replay, spec.KVCache, spec.Parallel,
    spec.Engine, lambda: spec.LoRA(adapters=()), spec.Docker, spec.Weights, lambda: spec.LLM("a/b"),
    lambda: spec.Embedder("./x"), lambda: lambda: 1,
)
KEYS: tuple[Any, ...] = (
    "ssh_user", "ssh_port", "ssh_hostname", "ssh_key", "ssh_config_file", "ssh_known_hosts_file", "ssh_usr", "_sudo",
    "ssh_strict_host_key_checking", "ssh_password", "_sudo_password", "_env", "_timeout", "_sudoo", "own_key", "sudo",
    "triton_settings", "docker_settings", "tritons_settings", "gateway_settings", "HF_TOKEN", "", "json", "expect",
    "remove", "run", "events", "report", "only", "balancer", "monitor", "rollout", "door", "name", "groups", "hosts",
    *(field.name for field in fields(spec.Host)), "servers ", "Machine", "__class__", "é", 5, None, (), 1.5,
)
# fmt: on


def unexpected_value(choose: Callable[[Sequence[Any]], Any]) -> Any:
    """A random value of both tables; mutable objects are made anew."""
    return choose(MADE)() if choose((False, True)) else choose(VALUES)
