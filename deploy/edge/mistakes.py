"""Python mistakes of an inventory file, explained.

A misspelt keyword is a refusal, anything else keeps its own words.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass

from deploy import spec
from deploy.catalog.names import offer
from deploy.errors import Refusal
from deploy.refuse import refuse

KEYWORD = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")


def explained(error: Exception, file: str) -> Refusal:
    """Why the file could not be read."""
    found = KEYWORD.search(str(error))
    kind = getattr(spec, found.group(1), None) if found else None
    if not found or not is_dataclass(kind):
        return refuse(
            "inventory-error",
            f"{file} is Python, and it ended with {type(error).__name__}",
            where=file,
            seen=str(error) or type(error).__name__,
            wanted="a file Python can run",
            attempt=f"python {file}",
        )
    keyword, name = found.group(2), found.group(1)
    translated = " (a fraction bounds nothing here: tokens=…)" if "fraction" in keyword else ""
    return refuse(
        "unknown-setting",
        f"{name} has no setting `{keyword}`",
        where=f"{file}: {name}({keyword}=…)",
        seen=keyword,
        wanted="a setting of deploy/spec.py",
        attempt=offer(keyword, [field.name for field in fields(kind)]) + translated,
    )
