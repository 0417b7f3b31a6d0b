"""Words of older inventories, each refused with its replacement.

TODO: remove after the release that follows 0.1.0, with `deploy/edge`.
"""

from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse

RENAMED = {
    "Door": "Gateway",
    "DoorLimits": "GatewayLimits",
    "door": "gateway",
    "door_port": "gateway_port",
    "doors_port": "gateways_port",
}
"""Today's word by the word of inventories until 2026-11: a class, a key of host data, or a setting of `Route` and
`Traffic`."""

REWRITE = (
    r"sed -i -E 's/\bDoor(Limits)?\b/Gateway\1/g; "
    r"""s/"door":/"gateway":/g; s/\bdoor(s?)_port\b/gateway\1_port/g' """
)
"""The command that rewrites all of RENAMED in the files that follow it, and no host's name."""


def renamed(word: str, where: str, file: str = "INVENTORY") -> Refusal | None:
    """The refusal of a former word, with the command that rewrites `file`; None for every other word."""
    if word not in RENAMED:
        return None
    return refuse(
        "renamed-word",
        f"`{word}` is now `{RENAMED[word]}`",
        where=where,
        seen=word,
        wanted=RENAMED[word],
        attempt=REWRITE + file,
    )
