"""Asks a registry which digest a tag has now (OCI distribution API, token or basic login), with the standard library.

Anonymous requests to nvcr.io are answered 401 now and then (triton-inference-server/server 1221, 7356), so one is
repeated.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

from deploy.refusals.errors import Refusal
from deploy.refusals.refuse import refuse

TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""Indexes first: a tag of several platforms has one digest for all."""

ATTEMPTS = 3
PAUSE_SECONDS = 2.0
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Login:
    """The user that asks a registry. Without a key the registry is asked anonymously; `ca_file` trusts a private CA."""

    username: str = ""
    key: str = ""
    ca_file: str = ""


def digest_of(reference: str, login: Login) -> str:
    """`sha256:…` of what `host/path:tag` names now; computed over what was received, so that no header is believed."""
    host, path, tag = split(reference)
    url = f"https://{host}/v2/{path}/manifests/{tag}"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return "sha256:" + hashlib.sha256(_manifest(url, login)).hexdigest()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in (401, 429, 500, 502, 503) or attempt == ATTEMPTS:
                raise _answered(reference, login, error) from None
        except (urllib.error.URLError, TimeoutError) as error:
            if attempt == ATTEMPTS:
                raise _unreachable(reference, host, str(getattr(error, "reason", error))) from None
        time.sleep(PAUSE_SECONDS)
    raise AssertionError("the loop ends with an answer or a refusal")


def split(reference: str) -> tuple[str, str, str]:
    """Registry host, repository path and tag of an image reference."""
    name, _, tag = reference.partition("@")[0].rpartition(":")
    host, _, path = name.partition("/")
    return host, path, tag


def _manifest(url: str, login: Login) -> bytes:
    headers = {"Accept": ", ".join(TYPES)}
    try:
        return _get(url, headers, login)
    except urllib.error.HTTPError as error:
        error.close()
        asked = error.headers.get("WWW-Authenticate", "") if error.code == 401 else ""
        if not asked:
            raise
        return _get(url, headers | {"Authorization": _authorization(asked, login)}, login)


def _authorization(asked: str, login: Login) -> str:
    basic = "Basic " + base64.b64encode(f"{login.username}:{login.key}".encode()).decode()
    if not asked.lower().startswith("bearer"):
        return basic
    parts = dict(re.findall(r'(\w+)="([^"]*)"', asked))
    query = urllib.parse.urlencode({name: parts[name] for name in ("service", "scope") if name in parts})
    headers = {"Authorization": basic} if login.key else {}
    answer = json.loads(_get(f"{parts['realm']}?{query}", headers, login))
    return f"Bearer {answer.get('token') or answer['access_token']}"


def _get(url: str, headers: dict[str, str], login: Login) -> bytes:
    context = ssl.create_default_context(cafile=login.ca_file or None)
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=context) as answer:
        return bytes(answer.read())


def _answered(reference: str, login: Login, error: urllib.error.HTTPError) -> Refusal:
    means = {
        401: "wrong or expired key" if login.key else "this registry wants a login",
        403: "the key is right and has no access to this repository",
        404: "no such image or tag",
    }
    return refuse(
        "registry-answer",
        f"the registry answered {error.code} about {reference}",
        where="registry.key" if error.code in (401, 403) else "release",
        seen=f"{error.code} {error.reason}: {means.get(error.code, 'the registry has a problem of its own')}",
        wanted="200 and a manifest",
        attempt='Registry(key=Secret.env("NGC_API_KEY")), with a key that may read this repository',
    )


def _unreachable(reference: str, host: str, reason: str) -> Refusal:
    return refuse(
        "registry-unreachable",
        f"the registry {host} does not answer",
        where="release",
        seen=reason,
        wanted=f"an answer about {reference}",
        attempt="check the network from here, or registry.ca_file where the registry has a private CA",
    )
