"""The rehearsal's machine with HTTPS from a file, and an apt that reads only a mirror of Ubuntu."""

import os as _os
import runpy as _runpy
from dataclasses import replace as _replace
from typing import Any as _Any

from deploy.spec import AptMirror as _AptMirror
from rehearsal.ubuntu import keyring as _keyring


def _data(data: dict[str, _Any]) -> dict[str, _Any]:
    archive = _os.environ["ENGINEHOUSE_UBUNTU_MIRROR"].rstrip("/").removesuffix("/ubuntu")
    mirror = _AptMirror(url=archive, key_file=str(_keyring()))
    return data | {"mirrors": _replace(data["mirrors"], system=mirror)}


_https = _runpy.run_path("tests/rehearsal/inventories/https.py")
rehearsal = [(name, _data(data)) for name, data in _https["rehearsal"]]
