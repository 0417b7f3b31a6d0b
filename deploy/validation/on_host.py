"""Refusals of weights that are declared to be on the host already: their directory, and settings that cannot use
them."""

import re
from collections.abc import Iterator

from deploy.models.files import ROOT
from deploy.refusals import Refusal, refuse, shortened
from deploy.spec import LLM, Model, Weights

PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._@+=-]{1,255})+")
"""An absolute path of plain characters: it becomes a mount of containers, in which a comma or a blank would end it."""
CLOSED = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/proc", "/sys", "/dev", "/boot", "/etc")
"""Directories that the gateway's unit does not see, or in which no weights belong."""
COMMIT, REPOSITORY = re.compile(r"[0-9a-f]{40}"), re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
EXAMPLE = 'Weights.on_host("/mnt/models/qwen3-8b")'


def on_host_problems(model: Model, weights: Weights, place: str) -> Iterator[Refusal]:
    """A refusal for each mistake in a directory of the host."""
    above = next((root for root in (*CLOSED, ROOT) if is_below(weights.path, root)), "")
    if weights.directory or weights.fetch_on != "nowhere":
        yield _refused(model, place, "has two sources of weights", f"path={weights.path!r}", "one of them", EXAMPLE)
    elif len(weights.path) > 1024 or not PATH.fullmatch(weights.path):
        yield _refused(model, f"{place}.path", "is read from a directory of the host, and this is not one",
                       shortened(weights.path), "an absolute path of letters, digits and . _ @ + = -",
                       _meant(model, weights))  # fmt: skip
    elif above == ROOT:
        yield _refused(model, f"{place}.path", f"would be read from {ROOT}, which the clean-up keeps in order",
                       repr(weights.path), f"a directory outside {ROOT}", EXAMPLE)  # fmt: skip
    elif above:
        yield _refused(model, f"{place}.path", f"would be read from {above}, which the gateway's unit does not see",
                       repr(weights.path), "a directory such as one below /mnt, /srv or /opt",
                       f"mount --bind {weights.path} /mnt/models on the host, and name that")  # fmt: skip
    elif path_of_file := re.fullmatch(r"(.+)/[^/]+\.(?:safetensors|bin|gguf|json|pt)", weights.path):
        yield _refused(model, f"{place}.path", "is read from a directory of the host, and this is one of its files",
                       shortened(weights.path), "the directory with config.json and all files of the weights",
                       f'Weights.on_host("{path_of_file[1]}")')  # fmt: skip
    if weights.repository and not REPOSITORY.fullmatch(weights.repository):
        yield _refused(model, f"{place}.repository", "has weights of a repository whose name is not valid on a hub",
                       shortened(weights.repository), "owner/name, without a host, or nothing",
                       _meant(model, weights))  # fmt: skip
    if weights.revision and not COMMIT.fullmatch(weights.revision):
        yield _refused(model, f"{place}.revision", "has weights of a revision that is not a commit",
                       shortened(weights.revision), "a commit, 40 lower-case hex digits, or nothing",
                       "leave revision out")  # fmt: skip
    if isinstance(model, LLM) and model.path == "engine":
        yield _refused(model, place, "would be built from files without a commit: an engine is signed for its "
                       "checkpoint's commit", repr(weights.path), "files that are brought to the host by their commit",
                       'path="pytorch"; or Weights.hub("OWNER/NAME", "COMMIT")')  # fmt: skip


def _meant(model: Model, weights: Weights) -> str:
    """The call that was probably meant: with its texts exchanged, a slash in front, or a mounted bucket."""
    path, repository, commit = weights.path, weights.repository, weights.revision
    example = f'Weights.on_host("/mnt/models/{model.name}")'
    if COMMIT.fullmatch(repository) and not commit:
        return f'Weights.on_host("{path}", "OWNER/NAME", "{repository}")'
    if PATH.fullmatch(repository) and REPOSITORY.fullmatch(path):
        return f'Weights.on_host("{repository}", "{path}"' + (f', "{commit}")' if COMMIT.fullmatch(commit) else ")")
    if "://" in path:
        return f"mount it on the host, then {example}; or Weights.hub(…), and each host fetches the files"
    if PATH.fullmatch(f"/{path}") and not path.startswith((".", "~")):
        return f'Weights.on_host("/{path}")'
    return f"{example}, the path as the host has it"


def is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _refused(model: Model, where: str, problem: str, seen: str, wanted: str, attempt: str) -> Refusal:
    kind = "weights-on-host"
    return refuse(kind, f"{model.name} {problem}", where=where, seen=seen, wanted=wanted, attempt=attempt)
