"""Triton servers as the settings' file names them: on the gateway's own host, or over mutual TLS on another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from gateway.fields import Fields
from gateway.mutual import Identity, identity


@dataclass(frozen=True)
class Mutual:
    """Files: the gateway's private key and certificate together, and the certificates of the fleet's authority."""

    certificate: str
    authority: str


@dataclass(frozen=True)
class ServerSettings:
    """Where a Triton server listens, and who says that it is ready; `ready_url` "" asks the server itself.

    `mutual`: its name on its host, where it is reached over mutual TLS, and `identity` who asks then.
    """

    name: str
    grpc: str
    ready_url: str = ""
    mutual: str = ""
    identity: Identity | None = None


def mutual_of(given: Fields) -> Mutual:
    """The files that a parsed object names.

    Raises: FieldError.
    """
    found = Mutual(given.text("certificate"), given.text("authority"))
    given.close()
    return found


def server_of(name: str, given: Fields, mutual: Mutual | None) -> ServerSettings:
    """The server that a parsed object says, without its identity.

    Raises: FieldError.
    """
    found = ServerSettings(name, given.text("grpc"), given.text("ready_url", ""), given.text("mutual", ""))
    if found.mutual and mutual is None:
        raise given.wrong("mutual", "absent: the file names no certificate (`mutual`)")
    scheme = "https" if found.mutual else "http"
    if found.ready_url and (urlsplit(found.ready_url).scheme, bool(urlsplit(found.ready_url).port)) != (scheme, True):
        raise given.wrong("ready_url", f"{scheme}://ADDRESS:PORT/ready/SERVER")
    given.close()
    return found


def identified(servers: Mapping[str, ServerSettings], mutual: Mutual | None) -> Mapping[str, ServerSettings]:
    """The servers, those of other hosts with the identity that the files of now give.

    Raises: OSError, or ValueError where a file holds something else.
    """
    if mutual is None:
        return servers
    who = identity(Path(mutual.certificate), Path(mutual.authority))
    return {name: replace(each, identity=who) if each.mutual else each for name, each in servers.items()}
