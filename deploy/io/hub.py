"""Asks a model hub for a repository's content: commit, files, sizes, config.json and the headers of its safetensors.

Weights are never fetched: a header is the first bytes of a file, read with a range request. No code of a repository is
run. Answers of a hub: for large files a redirect to another host, which does not get the token; 401 and 403 for a gated
repository; 429 with Retry-After (from the hub client's own source and rehearsal/hub.py, 2026-11-27).
"""

import functools
import http.client
import json
import math
import re
import ssl
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from deploy.io.deadline import requested_pause, within
from deploy.io.local_weights import BITS, HEADER_LIMIT_BYTES, described_bytes, is_file_name, tensors
from deploy.io.registry import SameHostOnly
from deploy.models.config_json import architecture_of, kept
from deploy.models.formats import MODELOPT_FILE, with_modelopt
from deploy.models.kinds import fetched, hint_files, kind_problem, rewritten_files, weights_files
from deploy.models.prompts import FILE as PROMPTS_FILE
from deploy.models.prompts import kept_prompts
from deploy.models.sentence_steps import MODULES, kept_steps, step_files
from deploy.refusals import Refusal, refuse, shortened
from deploy.spec.surroundings import LocalWeights

ATTEMPTS = 5
PAUSE_SECONDS = 1.0
MOST_PAUSE_SECONDS = 60.0
"""Longest pause that a hub may ask for; a longer one is a refusal with the hub's words. The lock keeps the models read
before."""
TIMEOUT_SECONDS, MOST_SECONDS = 30.0, 600.0
"""Seconds without a byte, and of a whole answer."""
MOST_BYTES = 64 * 2**20
"""Bytes of a listing or of config.json."""
FIRST_BYTES = 2**16
"""Bytes of a safetensors file that the first request takes: most headers are shorter."""
AT_ONCE = 8
COMMIT = re.compile(r"[0-9a-f]{40}")
MOST_FILE_BYTES = 2**53
AGAIN = (429, 500, 502, 503, 504)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Access to a hub. Proxies come from the environment (`https_proxy`), as everywhere in Python."""

    endpoint: str = "https://huggingface.co"
    token: str = ""
    ca_file: str = ""


@dataclass(frozen=True)
class Resolved:
    """A repository as the lock records it; `sizes` has the bytes of each fetched file."""

    files: LocalWeights
    sizes: Mapping[str, int]
    elements: Mapping[str, int]
    """Elements by the type that the headers name; by the size of a pytorch_model.bin, which has no header."""
    name: str = ""
    """The repository's canonical name at the hub, to which a renamed repository redirects."""


def resolve(source: str, access: Access) -> Resolved:
    """The commit behind `owner/name` or `owner/name@revision`, and its content.

    Raises: a Refusal for a repository that does not exist, is gated, or has no checkpoint, and for a silent hub.
    """
    _confirm_access(access)
    repository, _, revision = source.partition("@")
    quoted = urllib.parse.quote(revision or "main", safe="")
    answer = _json(access, f"/api/models/{repository}/revision/{quoted}?blobs=true", source)
    commit, sizes = _listing(answer, source)
    config = _json(access, f"/{repository}/resolve/{commit}/config.json", source) if "config.json" in sizes else {}
    if MODELOPT_FILE in sizes and not config.get("quantization_config"):
        config = dict(with_modelopt(config, _json(access, f"/{repository}/resolve/{commit}/{MODELOPT_FILE}", source)))
    if problem := kind_problem(source, sizes, config, is_hub=True):
        raise problem
    architecture = architecture_of(config)
    prompts = _json(access, f"/{repository}/resolve/{commit}/{PROMPTS_FILE}", source) if PROMPTS_FILE in sizes else {}
    parts = {
        name: _json(access, f"/{repository}/resolve/{commit}/{name}", source, list if name == MODULES else dict)
        for name in step_files(sizes)
    }
    weights = weights_files(sizes, architecture)
    paths = [f"/{repository}/resolve/{commit}/{urllib.parse.quote(name)}" for name in weights]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        headers = list(pool.map(lambda path: _header(access, path, source), paths))
    elements: dict[str, int] = {}
    for name, path, header in zip(weights, paths, headers, strict=True):
        described = list(tensors(header))
        if not described:
            raise _strange(source, path, "a header that describes no tensor")
        if sizes[name] < (needed := described_bytes(header)):
            raise _strange(source, path, f"a file of {sizes[name]:,} bytes whose header describes {needed:,}")
        for shape, kind in described:
            elements[kind] = elements.get(kind, 0) + math.prod(shape)
    if not paths:  # pytorch_model.bin: numbers of 4 or 2 bytes
        half = str(config.get("torch_dtype") or config.get("dtype")) in ("float16", "bfloat16")
        size = sum(sizes[name] for name in rewritten_files(sizes, architecture))
        elements = {"F16": size // 2} if half else {"F32": size // 4}
    names = fetched(sizes, architecture)
    files = LocalWeights(
        revision=commit,
        stored_bytes=sum(count * BITS.get(kind, 8) // 8 for kind, count in elements.items()),
        parameters=sum(elements.values()),
        files=tuple(sorted({*names, *hint_files(sizes)})),
        config={**kept(config), **kept_prompts(prompts), **kept_steps(parts)},
        repository=repository,
        fetched=names,
    )
    current_name = str(answer.get("id") or repository)
    return Resolved(files, {name: sizes[name] for name in names}, dict(sorted(elements.items())), current_name)


def _listing(answer: Mapping[str, Any], source: str) -> tuple[str, dict[str, int]]:
    """The commit, and the size of each file. Raises: a Refusal for a listing that lacks either."""
    commit, rows = answer.get("sha"), answer.get("siblings")
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit) or not isinstance(rows, list):
        raise _strange(source, "the listing", "no commit of 40 hex digits with a list of files")
    sizes = {}
    for row in rows:
        name, size = (row.get("rfilename"), row.get("size")) if isinstance(row, dict) else (None, None)
        if not isinstance(name, str) or type(size) is not int or not 0 <= size <= MOST_FILE_BYTES:
            raise _strange(source, "the listing", "a file without a name or a size")
        if not is_file_name(name):
            raise _strange(source, "the listing", f"a file that would lie outside the repository: {shortened(name)}")
        sizes[name] = size
    return commit, sizes


def _header(access: Access, path: str, source: str) -> bytes:
    """The header of one safetensors file, in as many range requests as necessary."""
    text = _get(access, path, source, (0, FIRST_BYTES))
    if len(text) < 8:
        raise _strange(source, path, f"{len(text)} bytes where a header of safetensors begins")
    (length,) = struct.unpack("<Q", text[:8])
    if length > HEADER_LIMIT_BYTES:
        raise _strange(source, path, f"a header of {length:,} bytes")
    while len(text) < 8 + length:
        more = _get(access, path, source, (len(text), 8 + length))
        if not more:
            raise _strange(source, path, f"{len(text):,} of {8 + length:,} bytes of a header")
        text += more
    return text[8 : 8 + length]


def _json(access: Access, path: str, source: str, form: type = dict) -> Any:
    """The JSON object, or a list as `form`, of a file. Raises: a Refusal for anything else."""
    text = _get(access, path, source)
    fault = f"no JSON {'object' if form is dict else 'list'}"
    try:
        answer = json.loads(text.decode())  # text, so that a byte-order mark is refused, as in loaders
    except RecursionError:
        answer = None
    except ValueError as error:
        answer, fault = None, f"no JSON: {shortened(str(error))}"
    if not isinstance(answer, form):
        raise _strange(source, path, fault)
    return answer


def _get(access: Access, path: str, source: str, span: tuple[int, int] | None = None) -> bytes:
    """The answer's bytes; `span` is the first byte and the byte after the last. Retried while the hub is busy."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return within(MOST_SECONDS, lambda: _once(access, path, span))
        except urllib.error.HTTPError as error:
            error.close()
            wait = requested_pause(error.headers)
            pause = PAUSE_SECONDS * attempt if wait is None else wait
            if error.code not in AGAIN or attempt == ATTEMPTS or pause > MOST_PAUSE_SECONDS:
                raise _answered(access, source, error) from None
        except (urllib.error.URLError, TimeoutError, http.client.HTTPException, ConnectionError) as error:
            pause = PAUSE_SECONDS * attempt
            if attempt == ATTEMPTS:
                raise _silent(access, source, str(getattr(error, "reason", error))) from None
        time.sleep(pause)
    raise AssertionError("the loop ends with an answer or a refusal")


@functools.cache
def _opener(ca_file: str) -> urllib.request.OpenerDirector:
    """The client of all requests that trust this CA, or the system's. Raises: OSError for a file without
    certificates."""
    context = ssl.create_default_context(cafile=ca_file or None)
    return urllib.request.build_opener(SameHostOnly, urllib.request.HTTPSHandler(context=context))


def _confirm_access(access: Access) -> None:
    """Confirms the hub settings of the inventory or environment. Raises: a Refusal, in which no token is repeated."""
    try:
        _opener(access.ca_file)
    except OSError as error:
        raise _unusable("ca_file", access.ca_file, str(error), "a file of certificates in PEM") from None
    parts = urllib.parse.urlsplit(access.endpoint)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise _unusable("endpoint", access.endpoint, repr(access.endpoint), "an address that begins with https://")
    if access.token and not re.fullmatch(r"[!-~]+", access.token):
        raise _unusable("token", access.endpoint, "spaces, line ends or letters beyond ASCII in it", "one word")


def _unusable(name: str, where: str, seen: str, wanted: str) -> Refusal:
    return refuse(
        "hub-access",
        f"the hub's {name} cannot be used",
        where=where,
        seen=seen,
        wanted=wanted,
        attempt="Hub(endpoint=…, token=…, ca_file=…); for fit and size HF_ENDPOINT, HF_TOKEN, SSL_CERT_FILE",
    )


def _once(access: Access, path: str, span: tuple[int, int] | None) -> bytes:
    """Sends a single request. If the answer to a range is cut, returns its first part: the caller asks for the rest."""
    headers = {"User-Agent": "enginehouse", "Accept-Encoding": "identity"}
    if access.token:
        headers["Authorization"] = f"Bearer {access.token}"
    if span:
        headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
    request = urllib.request.Request(access.endpoint.rstrip("/") + path, headers=headers)
    most = span[1] - span[0] if span else MOST_BYTES
    with _opener(access.ca_file).open(request, timeout=TIMEOUT_SECONDS) as answer:
        if span and span[0] and answer.status != 206:
            raise urllib.error.URLError("the whole file in answer to a range of it")
        try:
            return bytes(answer.read(most))
        except http.client.IncompleteRead as cut:
            if span and cut.partial:
                return cut.partial
            raise


def _answered(access: Access, source: str, error: urllib.error.HTTPError) -> Refusal:
    code, repository = error.headers.get("X-Error-Code", ""), source.partition("@")[0]
    page = f"{access.endpoint.rstrip('/')}/{repository}"
    token = 'Hub(token=Secret.env("HF_TOKEN")) in the inventory, or HF_TOKEN for fit and size'
    if error.code == 429:
        wait = requested_pause(error.headers)
        after = "some" if wait is None else f"{wait:.0f}"
        means, attempt = "too many requests", f"again after {after} seconds: what was read is kept"
    elif code == "GatedRepo" or error.code == 403:
        attempt = f"ask for access at {page}" if access.token else f"accept its terms at {page}, then {token}"
        means = "gated: its owner lets in who was granted access"
        if code != "GatedRepo":
            means = "refused, by the hub for this token or by a proxy on the way"
            attempt += "; a fine-grained token needs the right to read gated repositories; or another https_proxy"
    elif error.code == 401:
        means, attempt = "no such repository, or a private one", f"check the name; for a private one {token}"
    elif code == "RevisionNotFound":
        means, attempt = "the repository has no such commit, tag or branch", repository
    elif error.code == 404:
        means, attempt = "no such repository", f"check owner and name at {page}"
    else:
        means, attempt = "the hub has a problem of its own", "again later"
    return refuse(
        "hub-answer",
        f"the hub answered {error.code} about {source}",
        where=access.endpoint,
        seen=f"{error.code}: {means}",
        wanted="200, its files and their sizes",
        attempt=attempt,
    )


def _silent(access: Access, source: str, reason: str) -> Refusal:
    return refuse(
        "hub-unreachable",
        f"the hub {access.endpoint} does not answer about {source}",
        where=access.endpoint,
        seen=reason,
        wanted="an answer over the network of this machine",
        attempt='Hub(endpoint="https://MIRROR", ca_file="…"), https_proxy here, or a directory: ./weights',
    )


def _strange(source: str, path: str, seen: str) -> Refusal:
    return refuse(
        "hub-answer",
        f"the hub's answer about {source} does not have the expected form",
        where=path,
        seen=seen,
        wanted="the listing, config.json and headers of safetensors files",
        attempt="another mirror, or a directory: ./weights",
    )
