"""What the role settles itself; an inventory overrides it with `mutual_settings = {…}`.

roles/_shipping/certificates.py reads it, for this role and for gateways.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploy.io.authority import FOLDER


@dataclass(frozen=True)
class Defaults:
    """Where the fleet's authority is kept."""

    authority: str = FOLDER
    """Folder of the control machine with the key that signs certificates; keep a copy, and out of the clone."""
