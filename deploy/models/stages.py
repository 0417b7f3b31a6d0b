"""The stages of a pipeline: the layers of each, and its share of weights and cache.

Sources, read 2026-11-27: vLLM 0.26.0, get_pp_indices in distributed/utils.py; TensorRT-LLM, `Mapping.pp_layers` in
tensorrt_llm/mapping.py. Layers are counted as equally large, so a stage with DeepSeek's dense layers is counted high.
"""

from itertools import accumulate

from deploy.catalog.runtimes import VLLM
from deploy.models import memory
from deploy.models.resolve import Served, precision_of
from deploy.spec import Checkpoint


def layers_of_stages(layers: int, stages: int, runtime: str) -> tuple[tuple[int, int], ...]:
    """(first, last) layer of each stage, counted from 0.

    Shape: layers // stages each; vLLM gives one of the remaining layers to each of the stages before the last one,
    counted backwards, and TensorRT-LLM to each of the first stages. By hand: 61 layers, 2 stages: 0-30 and 31-60. 94
    layers, 4 stages: vLLM 23, 24, 24, 23; TensorRT-LLM 24, 24, 23, 23.
    """
    whole, rest = divmod(layers, stages)
    first_longer = stages - 1 - rest if runtime == VLLM else 0
    counts = [whole + (first_longer <= stage < first_longer + rest) for stage in range(stages)]
    ends = list(accumulate(counts))
    return tuple((end - count, end - 1) for end, count in zip(ends, counts, strict=True))


def stage_weights_mib(served: Served, tensor: int, first: int, last: int) -> int:
    """MiB of the weights on each GPU of the stage with these layers; the table is in the first stage, the head in the
    last.

    By hand: Llama-3.1-405B in fp8, tensor 8, layers 0 to 62 of 126: (63/126 x 401,650,696,192 + 4,202,692,608) / 8 =
             25,628,505,088 bytes = 24,442 MiB.
    """
    shape = served.shape
    size = memory.llm_weights_bytes(
        shape, precision=precision_of(served), stored_bytes=served.local.stored_bytes if served.local else 0
    )
    outer, layers = 2 * memory.outer_elements(shape), last - first + 1
    held = -(-(size - outer) * layers // shape.layers)
    held += outer // 2 * ((first == 0) + (last == shape.layers - 1))
    whole = size * memory.replicated_elements(shape, layers) // shape.parameters
    return memory.mib(-(-(held - whole) // tensor) + whole)


def stage_kv_bytes(shape: Checkpoint, kv_dtype: str, tensor: int, first: int, last: int) -> int:
    return memory.kv_bytes_per_token(shape, kv_dtype, tensor, shape.layers) * (last - first + 1)
