"""Asks a registry for a tag's current digest (OCI distribution API, token or basic login), with the standard library.

nvcr.io sometimes answers anonymous requests with 401 (triton-inference-server/server 1221, 7356), so these are retried
once.
"""

import base64
import hashlib
import http.client
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from deploy.io.deadline import within
from deploy.refusals import Refusal, refuse, shortened
from deploy.slices.image import DOCKER_HUB, registry_host, registry_of

TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""Media types that are accepted, indexes first: an image for several platforms has one digest for all of them."""

ATTEMPTS = 3
PAUSE_SECONDS = 2.0
TIMEOUT_SECONDS, MOST_SECONDS = 30.0, 180.0
"""Time limits in seconds: without a byte, and for a manifest including the login."""
MOST_BYTES = 4 * 2**20
"""Bytes of an answer; registries take manifests of up to 4 MiB (OCI distribution 1.1, "Pushing Manifests")."""
TOKEN_HOSTS = {
    "nvcr.io": {"authn.nvidia.com"},
    "docker.io": {"auth.docker.io"},
    "index.docker.io": {"auth.docker.io"},
    "registry-1.docker.io": {"auth.docker.io"},
    "registry.gitlab.com": {"gitlab.com"},
}
"""Hosts that make tokens for a registry of the same operator. ghcr.io, quay.io and Harbor make their own, and nvcr.io
does so at /proxy_auth (from general knowledge, 2026-11-25; not verified)."""


@dataclass(frozen=True, kw_only=True)
class Login:
    """The user that asks a registry. Without a key the registry is asked anonymously; `ca_file` trusts a private CA."""

    username: str = ""
    key: str = ""
    ca_file: str = ""


def digest_of(reference: str, login: Login) -> str:
    """The current digest, `sha256:…`, of `host/path:tag`; computed from the received bytes, not read from a header."""
    host, path, tag = split(reference)
    url = f"https://{host}/v2/{path}/manifests/{tag}"
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return "sha256:" + hashlib.sha256(within(MOST_SECONDS, lambda: _manifest(url, login))).hexdigest()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in (401, 429, 500, 502, 503) or attempt == ATTEMPTS:
                raise _answered(reference, login, error) from None
        except (urllib.error.URLError, TimeoutError, http.client.HTTPException, ConnectionError) as error:
            if attempt == ATTEMPTS:
                raise _unreachable(reference, host, str(getattr(error, "reason", error))) from None
        time.sleep(PAUSE_SECONDS)
    raise AssertionError("the loop ends with an answer or a refusal")


def split(reference: str) -> tuple[str, str, str]:
    """Registry host, repository path and tag of an image reference, by Docker's rules."""
    name, _, tag = reference.partition("@")[0].rpartition(":")
    host = registry_host(name)
    if registry_of(name) != DOCKER_HUB:
        return host, name.partition("/")[2], tag
    path = name.removeprefix(f"{DOCKER_HUB}/")
    return host, path if "/" in path else f"library/{path}", tag


def _manifest(url: str, login: Login) -> bytes:
    headers = {"Accept": ", ".join(TYPES)}
    try:
        return _get(url, headers, login)
    except urllib.error.HTTPError as error:
        error.close()
        challenge = error.headers.get("WWW-Authenticate", "") if error.code == 401 else ""
        if not challenge:
            raise
        host = urllib.parse.urlsplit(url).netloc
        return _get(url, headers | {"Authorization": _authorization(host, challenge, login)}, login)


def _authorization(host: str, challenge: str, login: Login) -> str:
    """The Authorization header for the registry at `host`. Raises: a Refusal if another site would get the login."""
    basic = "Basic " + base64.b64encode(f"{login.username}:{login.key}".encode()).decode()
    if not challenge.lower().startswith("bearer"):
        return basic
    parts = dict(re.findall(r'\b(\w{1,64})="([^"]*)"', challenge))
    query = urllib.parse.urlencode({name: parts[name] for name in ("service", "scope") if name in parts})
    headers = {"Authorization": basic} if login.key else {}
    realm = parts.get("realm", "")
    if not _may_have(host, realm, login):
        raise _foreign_realm(host, realm)
    answer = _get(f"{realm}?{query}", headers, login)
    try:
        made = json.loads(answer)
        token = str(made.get("token") or made["access_token"])
    except (ValueError, KeyError, AttributeError, RecursionError):
        token = ""
    if not re.fullmatch(r"[!-~]+", token):
        raise _unreachable(host, realm, f"no token, but {shortened(answer.decode('utf-8', 'replace'))}")
    return f"Bearer {token}"


def _may_have(host: str, realm: str, login: Login) -> bool:
    """True if the registry's login may be sent to this address; always true without a login.

    It may be sent over TLS to the registry's own host, or to one of its operator's hosts.
    """
    try:
        place, registry = urllib.parse.urlsplit(realm), urllib.parse.urlsplit(f"https://{host}").hostname
    except ValueError:
        return False
    if place.scheme != "https" or not place.hostname or "@" in place.netloc or not realm.isprintable():
        return False
    return not login.key or place.hostname == registry or place.hostname in TOKEN_HOSTS.get(registry or "", ())


class SameHostOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects over HTTP, and removes the login from a redirect to another host or out of TLS."""

    def redirect_request(
        self, request: urllib.request.Request, file: Any, code: int, message: str, headers: Any, url: str
    ) -> urllib.request.Request | None:
        """The request that follows; None if the answer is not a redirect. Raises: URLError for no web address."""
        try:
            is_web = urllib.parse.urlsplit(url).scheme in ("http", "https")
        except ValueError:
            is_web = False
        if not is_web:
            raise urllib.error.URLError("a redirect that is not a web address")
        following = super().redirect_request(request, file, code, message, headers, url)
        if following and _origin(url) != _origin(request.full_url):
            following.remove_header("Authorization")
        return following


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


def _get(url: str, headers: dict[str, str], login: Login) -> bytes:
    context = ssl.create_default_context(cafile=login.ca_file or None)
    request = urllib.request.Request(url, headers=headers)
    opener = urllib.request.build_opener(SameHostOnly, urllib.request.HTTPSHandler(context=context))
    with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
        read = bytes(answer.read(MOST_BYTES + 1))
    if len(read) > MOST_BYTES:
        raise urllib.error.URLError(f"more than {MOST_BYTES:,} bytes")
    return read


def _foreign_realm(host: str, realm: str) -> Refusal:
    return refuse(
        "foreign-realm",
        f"the registry {host} asks to send its login to another host, and it was not sent",
        where="registry.key",
        seen=f"a token is made at {shortened(realm, 200)}",
        wanted=f"https at {host} itself, or at a host known to make its tokens",
        attempt="docker login, then: docker buildx imagetools inspect IMAGE; its digest is image_digest",
    )


def _answered(reference: str, login: Login, error: urllib.error.HTTPError) -> Refusal:
    means = {
        401: "wrong or expired key" if login.key else "this registry requires a login",
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
