"""Texts to vectors: prefix, tokens, network, pooling, then the dimensions and normalisation of each request."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from . import families, sentence
from .batching import Job, run
from .choices import Kernels
from .device import claim
from .errors import CheckpointError, RequestError
from .loading import Finish, start
from .options import EmbedOptions, parse
from .packing import Ids, Packed, firsts, lasts
from .settings import Settings
from .tokens import Tokenizer


@dataclass
class EmbedJob(Job):
    """An embedding request."""

    shape: tuple[int, ...] = (0, 0)
    texts: list[str] = field(default_factory=list)
    options: EmbedOptions = field(default_factory=EmbedOptions)


class Embedder:
    """A loaded checkpoint that turns batches of requests into vectors; inputs and outputs by Triton's names."""

    inputs = ("texts",)

    def __init__(self, settings: Settings) -> None:
        directory = Path(settings.model_path)
        claim(settings)
        family = families.choose(directory, families.EMBEDDERS)
        dense = sentence.dense_steps(directory, family.hidden)
        self.hidden = dense[-1].outputs if dense else family.hidden
        if settings.dimensions not in (0, self.hidden):
            raise CheckpointError(
                f"config.pbtxt: dimensions is {settings.dimensions}; {directory} has vectors of {self.hidden}"
            )
        self.settings, self._prefixes = settings, settings.task_prefixes() or family.prefixes
        if settings.default_task and settings.default_task not in self._prefixes:
            trained = f"only with {', '.join(self._prefixes)}" if self._prefixes else "without prefixes"
            raise CheckpointError(f"config.pbtxt: default_task is set; this checkpoint was trained {trained}")
        self.max_tokens = sentence.token_limit(directory, settings.max_tokens, family.position_limit)
        self.tokenizer = Tokenizer(directory, family.vocabulary)
        pool = POOLS[sentence.pooling_mode(directory, family.pooling)]
        self.runner, self.budget, self.notes = start(
            settings, family, self.max_tokens, lambda kernels: _then(pool(kernels), dense, kernels)
        )

    def read(self, tensors: Sequence[list[list[str]]], shape: tuple[int, ...], parameters: str | None) -> EmbedJob:
        """The job of one request, checked except for lengths.

        Raises: RequestError for a wrong request.
        """
        options = parse(parameters, EmbedOptions)
        if options.task and options.task not in self._prefixes:
            trained = f"only with {', '.join(self._prefixes)}" if self._prefixes else "without prefixes"
            raise RequestError(f"option `task`: this model was trained {trained}")
        if options.dimensions > self.hidden:
            raise RequestError(f"option `dimensions` is {options.dimensions}; this model has 1 to {self.hidden}")
        least = self.settings.least_dimensions
        if 0 < options.dimensions < least:
            raise RequestError(
                f"option `dimensions` is {options.dimensions}; this model was trained for {least} to {self.hidden}"
            )
        prefix = self._prefixes.get(options.task or self.settings.default_task or "search_document", "")
        texts = [prefix + text for row in tensors[0] for text in row]
        return EmbedJob(shape=shape, texts=texts, options=options)

    def encode(self, jobs: Sequence[EmbedJob]) -> None:
        """Sets the token sequences, or the error, of every job."""
        singles = iter(self.tokenizer.singles([text for job in jobs for text in job.texts]))
        for job in jobs:
            self._prepare(job, [next(singles) for _ in job.texts])

    def work(self, jobs: Sequence[EmbedJob]) -> None:
        """Sets the vectors, or the error, of every job; computes in this thread."""
        self.encode(jobs)
        run(jobs, self.runner.launch, self.budget)

    def _prepare(self, job: EmbedJob, singles: list[Ids]) -> None:
        long = [i for i, single in enumerate(singles) if len(single) > self.max_tokens]
        if long and not job.options.truncate:
            row, column = divmod(long[0], job.shape[1])
            job.error = RequestError(
                f"texts[{row}][{column}] has {len(singles[long[0]])} tokens of at most {self.max_tokens}; "
                "shorten it or allow `truncate`"
            )
            return
        job.expect([self.tokenizer.shortened(single, self.max_tokens) for single in singles])

    def answer(self, job: EmbedJob) -> dict[str, np.ndarray]:
        """Output tensors of a job that ended without an error.

        Shape: embeddings float32 [rows, texts, dimensions], token_counts int32 [rows, texts].
        """
        width = job.options.dimensions or self.hidden
        vectors = np.array(job.results, dtype=np.float32).reshape(*job.shape, self.hidden)[..., :width]
        if job.options.normalize:
            lengths = np.sqrt(np.einsum("...i,...i->...", vectors, vectors))[..., None]
            vectors = vectors / np.maximum(lengths, 1e-12)
        counts = np.array([len(ids) for ids in job.sequences], dtype=np.int32).reshape(job.shape)
        return {"embeddings": np.ascontiguousarray(vectors, dtype=np.float32), "token_counts": counts}


def _first(kernels: Kernels) -> Finish:
    return lambda states, batch: states[firsts(batch)]


def _last(kernels: Kernels) -> Finish:
    return lambda states, batch: states[lasts(batch)]


def _mean(kernels: Kernels) -> Finish:
    return lambda states, batch: kernels.steps.mean(states, batch.starts)


POOLS = {"cls": _first, "last": _last, "mean": _mean}


def _then(pool: Finish, dense: Sequence[sentence.Dense], kernels: Kernels) -> Finish:
    """`pool`, followed by the projections `dense`."""
    steps = [step.load(kernels.device) for step in dense]

    def finish(states: Tensor, batch: Packed) -> Tensor:
        pooled = pool(states, batch)
        for step in steps:
            pooled = step(pooled)
        return pooled

    return finish
