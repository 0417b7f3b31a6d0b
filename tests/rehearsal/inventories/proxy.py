"""The rehearsal's machines behind an HTTP proxy with a login; PROXY=none without it.

The proxy is tests/rehearsal/forward_proxy.py, and proxy_password in the rehearsal's state has its password.
"""

import ipaddress as _ipaddress
import os as _os
from dataclasses import replace as _replace
from pathlib import Path as _Path
from typing import Any as _Any

from deploy.spec import Proxy as _Proxy
from deploy.spec import Secret as _Secret
from tests.rehearsal.forward_proxy import PORT as _PORT
from tests.rehearsal.forward_proxy import USERNAME as _USERNAME
from tests.rehearsal.variants import hosts as _hosts


def _data(data: dict[str, _Any], state: _Path) -> dict[str, _Any]:
    server = data["servers"][0]
    bridge = _ipaddress.ip_interface(f"{server.address}/24").network[1]
    password = _Secret.command("cat", str(state / "proxy_password"))
    proxy = _Proxy(url=f"http://{bridge}:{_PORT}", username=_USERNAME, password=password)
    return {
        "servers": (_replace(server, models=tuple(model for model in server.models if model.name == "minilm")),),
        "proxy": proxy if _os.environ.get("PROXY") != "none" else None,
    }


rehearsal = _hosts(_data)
