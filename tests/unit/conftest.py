"""Keeps the test run's own ssl, sockets and threads, because pyinfra's command line replaces them at its import."""

from __future__ import annotations

from unittest import mock

with mock.patch("gevent.monkey.patch_all"):
    import pyinfra_cli  # noqa: F401  (only its inventory loader is used, which needs none of that)
