"""Templates are rendered in the tests' own process, because starting one takes longer than most of these tests.

test_renderer.py tests the separate process; the gateway's processes of test_server.py have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gateway.templates import Template


class Here:
    """A renderer that runs in the tests' own process."""

    def __init__(self, source: str, constants: Mapping[str, str]) -> None:
        self._template = Template(source, constants)
        self.source, self.names = source, self._template.names

    async def render(self, variables: Mapping[str, Any]) -> str:
        return self._template.render(variables)


@pytest.fixture(autouse=True, scope="session")
def _renders_here() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.prompts.Renderer", Here)
        yield
