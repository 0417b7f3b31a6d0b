"""Memory that speculation adds to a model: a draft model, or heads trained for the target.

The shapes of heads are published in different forms, so heads are counted from the target's own shape, on the large
side; the headers of a local directory win. `deploy.validation.speculation` judges whether a release and a path support
them.
"""

import ast

from deploy.catalog import STORED
from deploy.models import memory
from deploy.models.resolve import Layout, Served, precision_of
from deploy.spec import LLM, Checkpoint, Draft, Eagle, Lookahead, Medusa, ReDrafter, Speculative


def speculative_of(served: Served) -> Speculative | None:
    return served.model.speculative if isinstance(served.model, LLM) else None


def drafted_tokens(speculative: Speculative | None) -> int:
    """Draft tokens that the target confirms in one step, for each sequence; trtllm-build's --max_draft_len.

    Shape:   lookahead: (n - 2) + (w - 1 + v)(n - 1) with window w, n-gram n, verification set v (n = 1: no first term);
             ReDrafter: every beam's tokens.
    By hand: (7, 7, 7): 5 + 13 x 6 = 83, as in examples/lookahead/README.md; (4, 3, 4): 1 + 7 x 2 = 15.
    """
    if isinstance(speculative, Lookahead):
        ngram = speculative.ngram
        return max(ngram - 2, 0) + (speculative.window - 1 + speculative.verification) * (ngram - 1)
    if isinstance(speculative, ReDrafter):
        return speculative.beams * speculative.tokens
    return speculative.tokens if speculative else 0


def tree_of(choices: str) -> list[tuple[int, ...]] | None:
    """The paths of a tree of choices (`[[0], [0, 0], [1]]`); None for a text that is not a tree."""
    try:
        read = ast.literal_eval(choices)
        paths = [tuple(path) for path in read]
    except (ValueError, SyntaxError, TypeError):
        return None
    fine = bool(paths) and all(path and all(isinstance(step, int) and step >= 0 for step in path) for path in paths)
    connected = fine and all(len(path) == 1 or path[:-1] in paths for path in paths)
    return paths if connected and len(set(paths)) == len(paths) else None


def eagle_elements(shape: Checkpoint) -> int:
    """Parameters of an EAGLE head: a layer that reads token and feature side by side, a projection, an output head.

    Shape: (2 hidden x (heads + 2 kv_heads) + heads x hidden) x head_dim + 3 hidden x inner + 3 hidden x hidden +
    vocabulary x hidden. By hand: Llama-3.3-70B: 234,881,024 + 704,643,072 + 201,326,592 + 1,050,673,152 =
    2,191,523,840; heads with a separate vocabulary (EAGLE-3) have a smaller last term.
    """
    hidden, size = shape.hidden, memory.head_dim(shape)
    attention = (2 * hidden * (shape.heads + 2 * memory.kv_heads(shape)) + shape.heads * hidden) * size
    inner = 3 * hidden * (shape.intermediate or 4 * hidden)
    return attention + inner + 3 * hidden * hidden + shape.vocabulary * hidden


def medusa_elements(shape: Checkpoint, heads: int) -> int:
    """Parameters of Medusa heads: each has a square layer and its own output head."""
    return heads * (shape.hidden * shape.hidden + shape.hidden + shape.vocabulary * shape.hidden)


def redrafter_elements(shape: Checkpoint) -> int:
    """Parameters of a recurrent drafter: two square layers over token and state, and an output head."""
    return 2 * (2 * shape.hidden) ** 2 + shape.vocabulary * shape.hidden


def speculation_bytes(served: Served) -> int:
    """Bytes of the draft's or the heads' weights, all GPUs together, in 16 bit; 0 for lookahead or no speculation."""
    speculative, shape = speculative_of(served), served.shape
    if served.speculation_local:
        return served.speculation_local.stored_bytes
    if isinstance(speculative, Draft) and served.draft:
        # PyTorch takes a draft as it is stored; an engine's draft is converted like its target, and is not larger
        return memory.weights_bytes(served.draft, STORED[served.draft.quantisation])
    if isinstance(speculative, Eagle):
        return 2 * eagle_elements(shape)
    if isinstance(speculative, Medusa):
        return 2 * medusa_elements(shape, speculative.heads)
    return 2 * redrafter_elements(shape) if isinstance(speculative, ReDrafter) else 0


def speculation_kv_bytes(served: Served, kv_dtype: str, layout: Layout) -> int:
    """Bytes of key/value cache per token on each GPU for the draft's layers, or the one layer of EAGLE."""
    if served.draft:
        return memory.kv_bytes_per_token(served.draft, kv_dtype, layout.tensor, layout.pipeline)
    if not isinstance(speculative_of(served), Eagle):
        return 0
    return memory.kv_bytes_per_token(served.shape, kv_dtype, layout.tensor) // served.shape.layers


def target_weights_mib(served: Served, layout: Layout) -> int:
    return memory.llm_weights_mib(
        served.shape,
        precision=precision_of(served),
        stored_bytes=served.local.stored_bytes if served.local else 0,
        tensor_parallel=layout.tensor,
        pipeline_parallel=layout.pipeline,
    )
