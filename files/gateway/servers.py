"""Servers as the settings' file names them: on the gateway's own host, or over mutual TLS on another.

A server is a Triton with any models, over gRPC, or the engine of one LLM, over HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.fields import Fields
from gateway.mutual import Identity, identity
from gateway.runtimes import RUNTIMES


@dataclass(frozen=True)
class Mutual:
    """Files: the gateway's private key and certificate together, and the certificates of the fleet's authority."""

    certificate: str
    authority: str


@dataclass(frozen=True)
class ServerSettings:
    """A server's addresses, and the source of its readiness; `ready_url` "": the server itself.

    `mutual`: the server's name on its host, if the server is reached over mutual TLS; `identity` is then the gateway's
    certificate. `http` is an engine's address, and `runtime` the engine's program in this `version` ("": the newest
    version in runtimes.py). `release` is the host's file with the program since its last swap.
    """

    name: str
    grpc: str = ""
    ready_url: str = ""
    mutual: str = ""
    identity: Identity | None = None
    http: str = ""
    runtime: str = ""
    version: str = ""
    release: str = ""


def mutual_of(section: Fields) -> Mutual:
    """The mutual TLS files that a parsed object of the settings names.

    Raises: FieldError.
    """
    mutual = Mutual(section.text("certificate"), section.text("authority"))
    section.close()
    return mutual


def server_of(name: str, section: Fields, mutual: Mutual | None) -> ServerSettings:
    """The server in a parsed object, without its identity.

    Raises: FieldError.
    """
    http = section.text("http", "")
    server = ServerSettings(
        name,
        section.text("grpc", "" if http else None),
        section.text("ready_url", ""),
        section.text("mutual", ""),
        http=http,
        runtime=section.text("runtime", None if http else "", choices=("", *RUNTIMES)),
        version=section.text("version", ""),
        release=section.text("release", ""),
    )
    if http and (server.grpc or not server.runtime or urlsplit(f"//{http}").port is None):
        raise section.wrong("http", "ADDRESS:PORT of an LLM's engine, with its `runtime` and without `grpc`")
    if not http and (server.runtime or server.version or server.release):
        raise section.wrong("runtime", "absent: only a server with `http` has one")
    if server.mutual and mutual is None:
        raise section.wrong("mutual", "absent: the file names no certificate (`mutual`)")
    scheme = "https" if server.mutual else "http"
    ready = urlsplit(server.ready_url)
    if server.ready_url and (ready.scheme, bool(ready.port)) != (scheme, True):
        raise section.wrong("ready_url", f"{scheme}://ADDRESS:PORT/ready/SERVER")
    section.close()
    return server


def refuse_runtimes(section: Fields, kind: str, values: Mapping[str, Any]) -> None:
    """Refuses a model whose settings its servers' programs do not support.

    Raises: FieldError.
    """
    runtimes = [RUNTIMES[runtime] for runtime in values["runtimes"] if runtime]
    if runtimes and kind != "llm":
        raise section.wrong("servers", "Triton servers: an LLM's engine serves no encoder")
    if values.get("salts") and not all(runtime.has_salts for runtime in runtimes):
        raise section.wrong("salts", "absent: the model's engine takes no `cache_salt`")
    if values.get("tool_parser") == "harmony" and not all(runtime.has_ids for runtime in runtimes):
        raise section.wrong(
            "tool_parser", "another: answers of gpt-oss are read by token ids, which its engine does not return"
        )


def identified(servers: Mapping[str, ServerSettings], mutual: Mutual | None) -> Mapping[str, ServerSettings]:
    """The servers; those of other hosts have the identity in the current files.

    Raises: OSError, or ValueError if a file holds something else.
    """
    if mutual is None:
        return servers
    who = identity(Path(mutual.certificate), Path(mutual.authority))
    return {name: replace(server, identity=who) if server.mutual else server for name, server in servers.items()}
