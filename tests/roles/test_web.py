"""The web server of the roles' tests."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.roles.web import Answer, Request, serving


def test_a_client_that_gave_up_prints_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    gone = threading.Event()

    def answer(_: Request) -> Answer:
        gone.wait(300)
        return 200, {}, bytes(8 << 20)

    with serving(answer) as web:
        with socket.create_connection(("127.0.0.1", int(web.address.rpartition(":")[2]))) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while not web.requests:
                pass
        gone.set()
    assert capsys.readouterr().err == ""
