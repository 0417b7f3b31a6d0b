"""The digest of a plan: equal digests mean an equal wanted state of every host."""

import hashlib
import json
from collections.abc import Iterable

from deploy.slices.host import Slice
from deploy.slices.monitor import MonitorSlice
from deploy.slices.traffic import BalancerSlice

PREFIX = "plan-"
"""Prefix of a digest, because pyinfra would read `--data expect=123` as a number."""


def digest(slices: Iterable[Slice | BalancerSlice | MonitorSlice]) -> str:
    """`plan-` and 16 hex digits over all slices; their order does not matter."""
    content = sorted((slice_.host, slice_.to_json()) for slice_ in slices)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]
