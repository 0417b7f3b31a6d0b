"""The rehearsal's machines with HTTPS: from an ACME authority, HTTPS=file from a file, HTTPS=none without.

The authority is tests/rehearsal/acme.py; services/ca.crt has signed the certificate of its directory.
"""

import os as _os
from dataclasses import replace as _replace
from pathlib import Path as _Path
from typing import Any as _Any

from deploy.spec import Acme as _Acme
from deploy.spec import Firewall as _Firewall
from deploy.spec import Gateway as _Gateway
from deploy.spec import Https as _Https
from deploy.spec import Secret as _Secret
from tests.rehearsal.acme import DIRECTORY as _DIRECTORY
from tests.rehearsal.acme import NAME as _NAME
from tests.rehearsal.variants import hosts as _hosts


def _https(state: _Path) -> _Https | None:
    chosen = _os.environ.get("HTTPS", "acme")
    if chosen == "acme":
        acme = _Acme(
            names=(_NAME,),
            email="ops@rehearsal.internal",
            directory=_DIRECTORY,
            authority=str(state / "services/ca.crt"),
        )
        return _Https(acme=acme)
    key = _Secret.command("cat", str(state / "own.key"))
    return _Https(certificate=str(state / "own.pem"), certificate_key=key) if chosen == "file" else None


def _data(data: dict[str, _Any], state: _Path) -> dict[str, _Any]:
    server = data["servers"][0]
    models = tuple(model for model in server.models if model.name in ("minilm", "gpt-oss-tiny"))
    https = _https(state)
    return {
        "servers": (_replace(server, models=models, address="127.0.0.1", protection=""),),
        "gateway": _Gateway(https=https),
        "firewall": _Firewall(rest="closed", allow=() if https else ("10.213.0.0/16",)),
    }


rehearsal = _hosts(_data)
