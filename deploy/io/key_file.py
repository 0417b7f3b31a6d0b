"""Makes, lists and revokes API keys in the file beside the inventory. Concurrent commands wait for each other."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy.inventory.gateway_keys import FILE, GatewayKey, KeyFile, file_in, gateway_key, key_text, text_of, without
from deploy.inventory.key_change import changed_key
from deploy.inventory.key_limits import TenantLimits
from deploy.io.local_paths import turn
from deploy.refusals import Refusal


def new_key(
    file: Path, tenant: str, models: list[str], expires: str, currency: str = "", **limits: int | None
) -> tuple[str, GatewayKey, list[GatewayKey]]:
    """A new key, which is stored nowhere; its new line in the file; and the tenant's other keys.

    Raises: Refusal.
    """
    with _turn(file) as path:
        content = content_of(path)
        keys, text = content.keys, ""
        while not text:
            text = key_text(secrets.token_bytes(64), {key.prefix for key in keys})
        line = gateway_key(text, tenant, models, expires, datetime.now(UTC), currency, **limits)
        _write(path, text_of((*keys, line), content.tenants))
    return text, line, [key for key in keys if key.tenant == tenant]


def revoke(file: Path, prefix: str) -> GatewayKey:
    """The removed line of the key with this prefix.

    Raises: Refusal.
    """
    with _turn(file) as path:
        content = content_of(path)
        left, revoked = without(content.keys, prefix, str(path))
        _write(path, text_of(left, content.tenants))
    return revoked


def change(file: Path, prefix: str, currency: str, **rights: Any) -> GatewayKey:
    """The new line of the key with this prefix; `rights` are the arguments of `changed_key`.

    Raises: Refusal.
    """
    with _turn(file) as path:
        content = content_of(path)
        others, line = without(content.keys, prefix, str(path))
        changed = changed_key(line, now=datetime.now(UTC), currency=currency, **rights)
        _write(path, text_of((*others, changed), content.tenants))
    return changed


def set_tenant(file: Path, line: TenantLimits) -> KeyFile:
    """The file's new content, with this line instead of the tenant's earlier line.

    Raises: Refusal.
    """
    with _turn(file) as path:
        content = content_of(path).with_tenant(line)
        _write(path, text_of(content.keys, content.tenants))
    return content


def content_of(file: Path) -> KeyFile:
    """The content of the file; no keys if there is no file.

    Raises: Refusal if it cannot be read or is not a file of keys.
    """
    try:
        return file_in(file.read_text("utf-8"), str(file))
    except FileNotFoundError:
        return KeyFile()
    except (OSError, UnicodeDecodeError) as error:
        raise _not_usable(file, error) from None


def models_of_keys(root: Path) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Models of each key by its prefix, from the file that a deploy sends; and a sentence if it cannot be read."""
    try:
        return {key.prefix: key.models for key in content_of(root / FILE).keys}, ()
    except Refusal as problem:
        reason = problem.facts.get("seen") or problem.facts["said"]
        return {}, (f"{FILE} is not a file of keys ({reason}): a deploy of a gateway with keys refuses it",)


@contextlib.contextmanager
def _turn(file: Path) -> Iterator[Path]:
    """A lock on the folder of that file, held inside the `with`. Yields the target if `file` is a link."""
    path = file.resolve()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path.parent, os.O_RDONLY))
    except OSError as error:
        raise _not_usable(file, error) from None
    with turn(path.parent):
        yield path


def _write(path: Path, text: str) -> None:
    """Writes this text to the file atomically: to another name, synced to disk, and renamed."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise _not_usable(path, error) from None
    finally:
        beside.unlink(missing_ok=True)


def _not_usable(file: Path, error: Exception) -> Refusal:
    return Refusal(
        f"{file} cannot be read or written",
        facts={"said": getattr(error, "strerror", "") or "no text in UTF-8"},
        attempt="put the last good one back (git log), or name another with --file"
        if isinstance(error, UnicodeDecodeError)
        else f"--file {file}/gateway-keys.json: the file, not its directory"
        if isinstance(error, IsADirectoryError)
        else "look at its owner and mode, or name another with --file",
        state="the file of keys is as it was",
        kind="no-key-file",
    )
