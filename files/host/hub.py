"""A model hub for a fetch: its listing and its files; the token is not sent to the host of a redirect."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any


class Refused(Exception):
    """The hub's listing, or a file of the hub, differs from the request."""


MOST_BYTES = 2**26
"""Bytes of a listing."""


def shards_in(index: bytes, name: str) -> set[str]:
    """The files that an index of safetensors names. Raises: Refused for an index of another form."""
    try:
        return set(map(str, json.loads(index)["weight_map"].values()))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Refused(f"{name} has no weight_map of files") from None


class SameHostOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and drops the token if one leads out of TLS or to another host (a CDN signs its URLs)."""

    def redirect_request(
        self, request: urllib.request.Request, file: Any, code: int, message: str, headers: Any, url: str
    ) -> urllib.request.Request | None:
        """The request that follows; None if the answer is not a redirect."""
        following = super().redirect_request(request, file, code, message, headers, url)
        origins = [urllib.parse.urlsplit(place)[:2] for place in (url, request.full_url)]
        if following and origins[0] != origins[1]:
            following.remove_header("Authorization")
        return following


class Hub:
    """A model hub with the interface of the Hugging Face Hub."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.endpoint = settings["endpoint"].rstrip("/")
        self.repository, self.revision = settings["repository"], settings["revision"]
        context = ssl.create_default_context(cafile=settings.get("ca_file") or None)
        self.opener = urllib.request.build_opener(SameHostOnly, urllib.request.HTTPSHandler(context=context))
        credential = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nonexistent")) / "token"
        self.token = credential.read_text().strip() if credential.exists() else ""

    def listing(self) -> list[dict[str, Any]]:
        """All files of the repository at its revision, with sizes and checksums."""
        path = f"/api/models/{self.repository}/revision/{self.revision}?blobs=true"
        with self.open(path) as answer:
            content = answer.read(MOST_BYTES + 1)
        try:
            repository = json.loads(content if len(content) <= MOST_BYTES else b"")
            revision, files = repository.get("sha"), list(repository["siblings"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise Refused("the hub's listing is not a list, or has more than 64 MiB") from None
        if revision not in (None, self.revision):
            raise Refused(f"the hub answers with revision {str(revision)[:80]!r}")
        return files

    def open(self, path: str, start: int = 0) -> Any:
        """An open answer, from byte `start` on. Raises: the hub's refusal in words."""
        request = urllib.request.Request(self.endpoint + path, headers={"User-Agent": "enginehouse"})
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if start:
            request.add_header("Range", f"bytes={start}-")
        try:
            return self.opener.open(request, timeout=60)
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                credentials = "with the token it was given" if self.token else "without a token"
                raise Refused(
                    f"{self.endpoint} answers {error.code} {credentials}: gated, private or not there"
                ) from None
            if error.code == 404:
                raise Refused(f"{self.endpoint}{path.partition('?')[0]} does not exist (404)") from None
            raise
        except ValueError:  # of urllib or of a codec
            raise Refused(f"{self.endpoint} redirects to something that is not a web address") from None

    def file(self, path: str, start: int) -> Any:
        return self.open(f"/{self.repository}/resolve/{self.revision}/{urllib.parse.quote(path)}", start)
