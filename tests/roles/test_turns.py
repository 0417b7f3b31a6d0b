"""Hosts of one run, at the same time, on a control machine with an empty cache."""

from __future__ import annotations

from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import gevent
import pytest

from deploy.slices.host import WeightsSlice
from deploy.spec import Hub
from roles._shipping import repairs
from roles._shipping.repairs import Wheel, unpacked
from roles.model_store import operations
from roles.model_store.defaults import Defaults
from roles.model_store.operations import Send

WEIGHTS = WeightsSlice(
    model="m", repository="a/b", revision="1" * 40, directory="", fetch_on="control", files=("*.st",), size_mib=1
)


def test_a_wheel_two_hosts_want_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr("a.py", "")
    fetched: list[str] = []

    def fetch(wheel: Wheel, folder: Path) -> None:
        fetched.append(wheel.name)
        gevent.sleep(0.01)
        (folder / wheel.file).write_bytes(content.getvalue())

    monkeypatch.setattr(repairs, "_fetch", fetch)
    wheel = Wheel("a", "1", sha256(content.getvalue()).hexdigest())
    hosts = [gevent.spawn(unpacked, wheel, tmp_path) for _ in range(2)]
    gevent.joinall(hosts, raise_error=True)
    assert ([host.value for host in hosts], fetched) == ([{"python/a.py": b""}] * 2, ["a"])


def test_weights_two_hosts_want_are_fetched_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "CACHE", tmp_path)
    under_way: list[int] = [0]
    most: list[int] = []

    def download(*_: Any) -> dict[str, Any]:
        under_way[0] += 1
        most.append(under_way[0])
        gevent.sleep(0.01)
        under_way[0] -= 1
        return {}

    monkeypatch.setattr(Send, "_fetch", download)
    send = Send(WEIGHTS, Hub(), Defaults())
    gevent.joinall([gevent.spawn(send._source) for _ in range(2)], raise_error=True)
    assert most == [1, 1]
