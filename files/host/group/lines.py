"""Lines of JSON between two members of a group, and connections that one member forwards to another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any

SILENCE_SECONDS = 10
Line = dict[str, Any]


class Connection:
    """Lines of JSON between two members."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def read(self) -> Line:
        """The next line. Raises OSError if the other side is gone or silent."""
        try:
            line = await asyncio.wait_for(self.reader.readline(), SILENCE_SECONDS)
            value = json.loads(line) if line else None
        except asyncio.TimeoutError:
            raise OSError(f"silent for {SILENCE_SECONDS} seconds") from None
        except (ValueError, RecursionError):
            raise OSError("not a line of a group's member") from None
        if not isinstance(value, dict):
            raise OSError("the connection ended")
        return value

    def send(self, line: Line) -> None:
        """Sends without waiting: a blocked link is noticed by its silence."""
        if not self.writer.is_closing():
            self.writer.write(json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        self.writer.close()


def relay(target: tuple[str, int], own: str, allowed: Collection[str]) -> Any:
    """A handler that forwards connections of the `allowed` addresses to `target`, from the address `own`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if str(writer.get_extra_info("peername")[0]) in allowed:
                there_reader, there_writer = await asyncio.open_connection(*target, local_addr=(own, 0))
                await asyncio.gather(pass_on(reader, there_writer), pass_on(there_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # the client sees its connection end
        finally:
            writer.close()

    return handle


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(65_536):
            writer.write(content)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
