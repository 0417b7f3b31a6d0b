"""Sources of secrets and model files, and the shape of a checkpoint that the catalog does not know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w][\w./-]*)?", re.ASCII)
"""`owner/name` of a model hub, and after @ a commit, a tag or a branch."""
DIRECTORY = re.compile(r"(\.{1,2}|~)?/.*")
"""A directory as a source names it: it begins with `./`, `../`, `~/` or `/`, so that no hub name is taken for one."""


@dataclass(frozen=True)
class Secret:
    """The source from which a secret is read when it is used, never the secret itself. A plain string is refused."""

    kind: Literal["env", "vault", "command"]
    source: tuple[str, ...]

    @classmethod
    def env(cls, name: str) -> Secret:
        """A secret read from this environment variable of the shell that runs pyinfra."""
        return cls("env", (name,))

    @classmethod
    def vault(cls, path: str, key: str) -> Secret:
        """The secret `key` of this ansible-vault encrypted YAML file.

        The password comes from ANSIBLE_VAULT_PASSWORD_FILE.
        """
        return cls("vault", (path, key))

    @classmethod
    def command(cls, *argv: str) -> Secret:
        """The output of this command on the control machine (a password manager, for example): a key of a certificate
        whole, of anything else the first line."""
        return cls("command", argv)


@dataclass(frozen=True)
class Weights:
    """The source of a model's files: a hub repository at a pinned commit, a directory of the control machine, or one of
    the host itself."""

    repository: str = ""
    revision: str = ""
    directory: str = ""
    fetch_on: Literal["host", "control", "nowhere"] = "host"
    files: tuple[str, ...] = ()
    path: str = ""
    """The directory on the host, if the files are there already."""
    private: bool = False
    """Hosts that share (`Sharing`) do not pass these files on: each fetches them itself, or is sent them over SSH."""

    @classmethod
    def hub(
        cls,
        repository: str,
        revision: str,
        *,
        fetch_on: Literal["host", "control"] = "host",
        files: tuple[str, ...] = (),
        private: bool = False,
    ) -> Weights:
        """`repository` at the 40-hex commit `revision`; `files` replaces the architecture's own list."""
        return cls(repository=repository, revision=revision, fetch_on=fetch_on, files=files, private=private)

    @classmethod
    def local(cls, directory: str, *, files: tuple[str, ...] = (), private: bool = False) -> Weights:
        """A directory of the machine that runs pyinfra, sent with rsync; its manifest is its revision."""
        return cls(directory=directory, fetch_on="control", files=files, private=private)

    @classmethod
    def on_host(cls, path: str, repository: str = "", revision: str = "", *, files: tuple[str, ...] = ()) -> Weights:
        """A directory that every host has already: NFS, an image, a mounted RAID. Nothing of it is changed or deleted.

        `repository` and `revision` say which published files they are, so that preflight compares them.
        """
        return cls(repository=repository, revision=revision, fetch_on="nowhere", files=files, path=path)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The shape of a checkpoint that the catalog does not know. Sizes are those in the model's config.json."""

    architecture: str
    parameters: int
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    positions: int
    kv_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    experts: int = 0
    active_experts: int = 0
    """Experts one token goes through, if there are `experts`."""
    quantisation: Literal["", "mxfp4", "fp8", "nvfp4", "gptq"] = ""
    """Form in which the weights are stored; empty for plain 16- or 32-bit numbers."""
    format: str = ""
    """Format of the published files, a row of catalog.FORMATS; for a hub name or a directory it is read from the
    files."""
    dense_intermediate: int = 0
    """Width of the layers without experts, if it is not `intermediate`, which is then an expert's."""
    kv_lora_rank: int = 0
    """Multi-head latent attention (DeepSeek, Kimi): elements of the latent that is kept instead of keys and values."""
    qk_rope_head_dim: int = 0
    """Elements of the latent's separate part for positions; `head_dim` is then the config's `v_head_dim`."""
    q_lora_rank: int = 0
    """Rank of the query projection; 0 if the config has null."""
    weights_mib: int = 0
    """MiB the weights take in GPU memory if `parameters x element size` does not say it (quantised as shipped)."""


def completed(model: Any) -> None:
    """Fills in fields that follow from `source`: name, checkpoint, and the directory of the weights."""
    source = model.source
    if not isinstance(source, str) or not source:
        return
    repository = source.partition("@")[0]
    last = re.sub(r"[^a-z0-9._-]+", "-", repository.rstrip("/").rsplit("/", 1)[-1].lower()).strip("-._")
    filled: dict[str, object] = {"name": last, "checkpoint": source}
    if DIRECTORY.fullmatch(source) and model.weights == Weights():
        filled["weights"] = Weights.local(source)
    for field, value in filled.items():
        if field == "weights" or not getattr(model, field):
            object.__setattr__(model, field, value)
