"""A query and its passages to relevance scores; the query is tokenised once for all passages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import families, sentence
from .batching import Job, run
from .device import claim
from .errors import CheckpointError, RequestError
from .loading import start
from .options import RerankOptions, parse
from .packing import Ids
from .settings import Settings
from .tokens import Templated, Tokenizer

LEAST_TOKENS = 17  # four special tokens, 3/4 for the query, and at least one token of the passage


@dataclass
class RerankJob(Job):
    """A reranking request: one query per row, and the same number of passages in every row."""

    shape: tuple[int, ...] = (0, 0)
    queries: list[str] = field(default_factory=list)
    passages: list[list[str]] = field(default_factory=list)
    options: RerankOptions = field(default_factory=RerankOptions)


class Reranker:
    """A loaded checkpoint that scores batches of requests; inputs and outputs by Triton's names."""

    inputs = ("query", "passages")

    def __init__(self, settings: Settings) -> None:
        directory = Path(settings.model_path)
        claim(settings)
        for name in ("default_task", "dimensions"):
            if getattr(settings, name):
                raise CheckpointError(f"config.pbtxt: {name} is a parameter of embedders, not of rerankers")
        family = families.choose(directory, families.RERANKERS)
        self.settings = settings
        self.max_tokens = sentence.token_limit(directory, settings.max_tokens, family.position_limit)
        if self.max_tokens < LEAST_TOKENS:
            raise CheckpointError(f"config.pbtxt: max_tokens is {self.max_tokens}; pairs need at least {LEAST_TOKENS}")
        self.tokenizer = Tokenizer(directory, family.vocabulary)
        self.template = Templated(self.tokenizer, family.template) if family.template else None
        if self.template is None:
            self.tokenizer.require_pairs(family.second_rows > 0, family.longest_first)
        elif self.max_tokens < self.template.marks + LEAST_TOKENS:
            raise CheckpointError(
                f"config.pbtxt: max_tokens is {self.max_tokens}; the words around a pair alone are "
                f"{self.template.marks} tokens, wanted {self.template.marks + LEAST_TOKENS} or more"
            )
        self.runner, self.budget, self.notes = start(
            settings, family, self.max_tokens, lambda kernels: lambda logits, batch: logits
        )

    def read(self, tensors: Sequence[list[list[str]]], shape: tuple[int, ...], parameters: str | None) -> RerankJob:
        """The job of one request, checked except for lengths.

        Raises: RequestError for a wrong request.
        """
        options = parse(parameters, RerankOptions)
        queries, passages = tensors
        if len(queries) != len(passages) or any(len(row) != 1 for row in queries):
            raise RequestError("query must have shape [rows, 1], with the rows of passages")
        for row, (query,) in enumerate(queries):
            if not query.strip():
                raise RequestError(f"query[{row}] is empty")
        return RerankJob(shape=shape, queries=[row[0] for row in queries], passages=passages, options=options)

    def encode(self, jobs: Sequence[RerankJob]) -> None:
        """Sets the token sequences, or the error, of every job."""
        if self.template:
            self._encode_texts(self.template, jobs)
            return
        texts = [text for job in jobs for part in (job.queries, *job.passages) for text in part]
        contents = iter(self.tokenizer.contents(texts))
        for job in jobs:
            queries = [next(contents) for _ in job.queries]
            self._prepare(job, queries, [[next(contents) for _ in row] for row in job.passages])

    def _encode_texts(self, template: Templated, jobs: Sequence[RerankJob]) -> None:
        rows = [zip(job.queries, job.passages, strict=True) for job in jobs]
        pairs = [[(query, passage) for query, row in each_row for passage in row] for each_row in rows]
        texts = iter(template.texts([pair for of_job in pairs for pair in of_job]))
        most = self.max_tokens - template.marks
        for job, of_job in zip(jobs, pairs, strict=True):
            ids = [next(texts) for _ in of_job]
            long = [index for index, text in enumerate(ids) if len(text) > most]
            if long and not job.options.truncate:
                row, column = divmod(long[0], job.shape[1])
                job.error = RequestError(
                    f"passages[{row}][{column}] has {len(ids[long[0]])} tokens with its query, of at most {most}; "
                    "shorten it or allow `truncate`"
                )
                continue
            job.expect([template.whole(text, self.max_tokens) for text in ids])

    def work(self, jobs: Sequence[RerankJob]) -> None:
        """Sets the scores, or the error, of every job; computes in this thread."""
        self.encode(jobs)
        run(jobs, self.runner.launch, self.budget)

    def _prepare(self, job: RerankJob, queries: list[Ids], passages: list[list[Ids]]) -> None:
        if not job.options.truncate:
            job.error = self._too_long(queries, passages)
        if job.error is None:
            pairs = [(query, passage) for query, row in zip(queries, passages, strict=True) for passage in row]
            job.expect([self.tokenizer.pair(query, passage, self.max_tokens) for query, passage in pairs])

    def _too_long(self, queries: list[Ids], passages: list[list[Ids]]) -> RequestError | None:
        most, advice = self.tokenizer.most_of_query(self.max_tokens), "shorten it or allow `truncate`"
        for i, (query, row) in enumerate(zip(queries, passages, strict=True)):
            if len(query) > most:
                return RequestError(f"query[{i}] has {len(query)} tokens of at most {most}; {advice}")
            for j, passage in enumerate(row):
                length = self.tokenizer.pair_length(query, passage)
                if length > self.max_tokens:
                    return RequestError(
                        f"passages[{i}][{j}] has {length} tokens with its query, of at most {self.max_tokens}; {advice}"
                    )
        return None

    def answer(self, job: RerankJob) -> dict[str, np.ndarray]:
        """Output tensors of a job that ended without an error.

        Shape: scores float32 [rows, passages], token_counts int32 [rows, passages].
        """
        scores = np.array(job.results, dtype=np.float32).reshape(job.shape)
        if not job.options.raw_scores:
            scores = (0.5 * (1 + np.tanh(0.5 * scores))).astype(np.float32)  # the logistic function, without overflow
        counts = np.array([len(ids) for ids in job.sequences], dtype=np.int32).reshape(job.shape)
        return {"scores": scores, "token_counts": counts}
