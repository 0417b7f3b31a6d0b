"""The literal an operator probably meant by a value of the wrong type: "32k" for 32768, 580 for "580"."""

from __future__ import annotations

import re

from deploy.catalog import SYSTEMS

NUMBER = re.compile(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*([a-zA-Z%]*)\s*")
SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
MIB = {"m": 1, "mb": 1, "mib": 1, "g": 1024, "gb": 1024, "gib": 1024, "t": 1024**2, "tb": 1024**2, "tib": 1024**2}
COUNT = {"k": 1024, "m": 1024**2}
MOST = 10**12


def meant_by(value: object, wanted: str, where: str) -> str:
    """`field=LITERAL` for the value in the type that is wanted; empty if nothing is likely."""
    field = re.sub(r"\[[^]]*\]", "", where).rpartition(".")[2]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    words = wanted.split(" or ")
    if "int" in words or "float" in words:
        typed = _number(value, field, "str" in words)
    else:
        typed = _text(value, field) if "str" in words else ""
    return typed.partition("=")[2] if where.endswith("]") else typed


def _number(value: str | float, field: str, is_share: bool) -> str:
    if isinstance(value, str):
        match = NUMBER.fullmatch(value)
        units = SECONDS if field.endswith("_seconds") else MIB if field.endswith("_mib") else COUNT
        factor = 1 if match and match[2] in ("", "%") else units.get(match[2].lower(), 0) if match else 0
        number = float(re.sub("[_,]", "", match[1])) * factor if match and len(value) < 20 else 0.0
    elif is_share and 0 < value < 1:
        return f'{field}="{round(value * 100)}%"'
    else:
        number = value * 100 if field.endswith("_percent") and 0 < value < 1 else value
    if not 0 < number < MOST:
        return ""
    return f"{field}={round(number)}"


def _text(value: str | float, field: str) -> str:
    if isinstance(value, str):
        return ""
    if field == "os":
        return next((f'os="{name}"' for name in SYSTEMS if name.endswith(f"-{value}")), "")
    if isinstance(value, float) or abs(value) >= MOST:
        return ""
    return f'{field}="{value}"' if field != "release" else ""
