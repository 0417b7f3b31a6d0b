"""The source of the weights of a pasted command: a hub's repository, its cache, a directory, or a bucket."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deploy.linter.shells import SHELLS

CACHE = re.compile(r"(?:.*/)?models--([\w.-]+?)--([\w.-]+)(?:/snapshots/([0-9a-f]{40}))?(?:/.*)?")
HUB = re.compile(r"(?:hf://|https://huggingface\.co/)?([\w.-]+/[\w.-]+?)(?:[@:]([\w.-]+))?/?")
PATH = re.compile(r"(?:~|\.{1,2})?/.*|~|[A-Za-z]:\\.*")
BUCKET = re.compile(r"(?:s3|gs|gcs|az|azure|abfs|oci|ngc|https?|runai|pvc|file)://.+")
PROGRAM = re.compile(r"(?:/usr)?(?:/local)?/s?bin/|/opt/[\w./-]*/bin/|\.(?:py|sh)$")
COMMIT = re.compile(r"[0-9a-f]{40}")
FOLDER = re.compile(r"[\w][\w.+~-]*(?:/[\w.+~ -]+){2,}")
"""A path without a slash in front, which no repository is: `models/org/name`."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A hub's repository and its commit, or a directory; `why` is the reason if either is missing."""

    repository: str = ""
    revision: str = ""
    directory: str = ""
    why: str = ""

    @property
    def tail(self) -> str:
        return (self.repository or self.directory).rstrip("/").rsplit("/", 1)[-1]


def is_model(text: str) -> bool:
    """True if a word can name a model: not a program, not an option, and without blanks."""
    name = text.rstrip("/").rsplit("/", 1)[-1]
    is_program = name in SHELLS or re.fullmatch(r"python[\d.]*|vllm|sglang|trtllm-serve|env|exec", name) is not None
    is_word = re.fullmatch(r"[^-\s{<%][^\s{}<>%]*", text) is not None
    return re.search(r"\w", name) is not None and is_word and not is_program and not PROGRAM.search(text)


def source_of(text: str, mounts: Mapping[str, str]) -> Source:
    """The source of the weights that `text` names; `mounts` maps directories of the container to directories of the
    host."""
    cached = CACHE.fullmatch(text)
    if cached:
        return Source(repository=f"{cached[1]}/{cached[2]}", revision=cached[3] or "")
    bucket = BUCKET.fullmatch(text)
    hub = HUB.fullmatch(text)
    if bucket and not (hub and text.startswith("https://huggingface.co/")):
        name = text.rstrip("/").rsplit("/", 1)[-1] or "model"
        if text.startswith("file://"):
            return Source(directory=text.removeprefix("file://"))
        return Source(directory=f"./{name}", why=f"weights come from a hub or a directory: copy {text} to ./{name}")
    if PATH.fullmatch(text) or FOLDER.fullmatch(text):
        return Source(directory=_on_the_host(text, mounts))
    if hub:
        revision = hub[2] or ""
        return Source(repository=hub[1], revision=revision if COMMIT.fullmatch(revision) else "")
    return Source(repository=text)


def _on_the_host(path: str, mounts: Mapping[str, str]) -> str:
    """The path on the host of a path in the container."""
    for inside in sorted(mounts, key=len, reverse=True):
        if path == inside or path.startswith(inside.rstrip("/") + "/"):
            return mounts[inside].rstrip("/") + path[len(inside.rstrip("/")) :]
    return path if path.startswith(("/", "./", "../", "~")) else f"./{path}"
