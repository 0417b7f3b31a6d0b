"""Tool calls of LLMs behind a gateway, whose parser the catalog or the inventory names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args, get_type_hints

from deploy.catalog import CHECKPOINTS
from deploy.spec import LLM, Host


def tool_notices(host: Host) -> Iterator[str]:
    """A sentence for each LLM behind a gateway whose format of tool calls is unknown to inventory and catalog."""
    *names, last = [name for name in get_args(get_type_hints(LLM)["tool_parser"]) if name not in ("auto", "none")]
    for model in host.llms if host.gateway else ():
        is_known = isinstance(model.checkpoint, str) and model.checkpoint in CHECKPOINTS
        if model.tool_parser == "auto" and not is_known:
            yield (
                f"{model.name}: the gateway refuses chats with tools, because the catalog has no row that says how "
                f"this model writes calls; tool_parser= takes {', '.join(names)} or {last}, and none without this note"
            )
