"""MiB of each model on one GPU, and the key/value tokens that are left. Whole MiB everywhere, rounded up.

    usable = weights + one CUDA context per process + workspace + key/value cache + reserve

Measured on an H100 80GB HBM3 (driver 580.159.04, torch 2.11.0+cu130, 2026-11-21):
    81,559 MiB by nvidia-smi, 81,079 by cuDeviceTotalMem; a bare context takes 527; a torch process after its first
    cuBLAS call holds 693 outside its allocator; an XLM-R-large layer stack over 16,384 tokens in fp16 peaks at 449
    (formula below: 448).
Encoders on the same card, 2026-11-23, float16 (`python -m rehearsal.real_gpu.workspaces`): MiB taken of the card once
loaded, the same after full passes, and what is planned for it. The planned MiB also cap its allocator; a cap 10 MiB too
low at 4,096 tokens lost the graphs, so every planned figure is at least the measured one:

    tokens of a pass                        4,096    16,384    65,536
    bge-reranker-large, 2 streams           2,223     2,601     5,361    planned 2,256  2,880  5,380
    nomic-embed-text-v2-moe, 1 stream       1,887     2,227     3,671    planned 2,019  2,421  4,028

Numbers that were not measured here (of an LLM under TensorRT-LLM) are marked where they are counted. More than 300
lines, because all arithmetic of a GPU's memory is in one place.
"""

from deploy.catalog.precisions import PRECISIONS, STORED
from deploy.spec import Checkpoint, DType

MIB = 2**20

CONTEXT_MIB = 704
"""MiB of an LLM's process: context, loaded kernels and cuBLAS workspace outside the allocator (693 measured of
torch)."""

ENCODER_CONTEXT_MIB = 793
"""MiB of an encoder's process: the same, with its own kernels and CUDA graphs (771 to 793 measured of six)."""

ENCODER_FIXED_MIB = 185
"""MiB held by an encoder's allocator in every pass: cuBLAS' workspaces, small graphs (fitted with the percents)."""

ENCODER_SCORES_MIB = 512
"""MiB of DeBERTa's scores in float32 and their parts (MOST_SCORES of files/encoders/deberta.py), and of its tables of
distances. Counted, not measured."""

ENCODER_HELD_PERCENT = 93
"""Percent that graphs and allocator hold of the live bytes of a layer: layers use their memory in turn (measured)."""

SERVER_MIB = 592
"""MiB of tritonserver itself on each of its GPUs: a bare context (527 measured) and Triton's default CUDA pool of 64
MiB."""

LLM_PROCESSES = 2
"""Processes of an LLM on the PyTorch path: the stub that runs `model.py`, and the worker that the LLM API starts. Not
measured: counted as two full contexts."""

VLLM_PROCESSES = 1
"""Processes of vLLM with a context on a GPU: only its worker, not API server and engine core (0.26.0, H100)."""

VLLM_RUNTIME_MIB = 1024
"""MiB for vLLM's CUDA graphs and kernels: 847 of Llama-3.1-8B with 64 rows, cache full (0.26.0, H100, 2026-11-28)."""

VLLM_LOGIT_BYTES = 40
"""Bytes of a logit while vLLM samples: 38 to 39 by published logs of 0.11 on H100s, for its default of 1,024 rows."""

VLLM_LINK_MIB = 430
"""Additional MiB for NCCL on each GPU of an LLM over several GPUs: 0.55 GiB outside torch for two, 0.13 for one, by the
same logs."""

ENGINE_PROCESSES = 1
"""Processes counted for the engine path: tritonserver itself, for its kernels and cuBLAS; SERVER_MIB has its bare
context."""

LLM_RUNTIME_MIB = 2048
"""MiB for CUDA graphs, attention and sampling workspaces of TensorRT-LLM. An allowance until measured on a real
card."""

RESERVE_MIB = 2048
"""MiB kept free on each GPU for fragmentation, kernels that are loaded late and the driver's own growth."""

ALLOCATOR_SLACK_PERCENT = 150
"""Percent that the caching allocator holds of the live bytes (1.40 measured), rounded up."""

TOKENS_PER_BLOCK = 32
"""Tokens of a block of the key/value cache (TensorRT-LLM 1.x default); a cache holds whole blocks only."""

ELEMENT_BYTES: dict[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "fp8": 1, "int8": 1}


def mib(size_bytes: int) -> int:
    return -(-size_bytes // MIB)


def head_dim(shape: Checkpoint) -> int:
    return shape.head_dim or shape.hidden // shape.heads


def kv_heads(shape: Checkpoint) -> int:
    return shape.kv_heads or shape.heads


def outer_elements(shape: Checkpoint) -> int:
    """Number of parameters that no quantisation changes: embedding table and output head, 16 bit in all formats.

    By hand: Llama-3.1-8B: 2 x 128,256 x 4,096 = 1,050,673,152.
    """
    return min(shape.parameters, 2 * shape.vocabulary * shape.hidden)


def mxfp4_bytes(shape: Checkpoint) -> int:
    """Bytes of a gpt-oss checkpoint: experts at 4.25 bits (4 and an 8-bit scale for every 32), the rest in bfloat16.

    Shape:   experts = layers x experts x 3 x hidden x intermediate.
    By hand: 20b: 24 x 32 x 3 x 2880 x 2880 = 19,110,297,600 experts, 1,804,459,584 others: 13,761,264,768 bytes,
    which equals the sum in the index of openai/gpt-oss-20b; 120b likewise 65,248,815,744.
    """
    experts = shape.layers * shape.experts * 3 * shape.hidden * shape.intermediate
    return experts * 17 // 32 + 2 * (shape.parameters - experts)


def padding_bytes(shape: Checkpoint, tiles: tuple[int, int, int], tensor: int = 1, expert: int = 1) -> int:
    """Bytes that kernels for MXFP4 add to the experts of each GPU, as they round up both sides of a matrix.

    Shape:   experts x (padded width x (2 x hidden before + hidden after) / (3 x width x hidden) - 1) on one GPU.
    By hand: gpt-oss-120b, 60,881,633,280 bytes of experts. vLLM, SM 90: x (3072 / 2880 - 1) = 4,058,775,552, 64.55 GiB
             in all; its log says 64.38 (issue 33155). TensorRT-LLM: x (2944 x 8960 / 24,883,200 - 1) = 3,657,908,830.
    """
    if shape.quantisation != "mxfp4" or not shape.experts:
        return 0
    width = -(-shape.intermediate * expert // tensor)
    experts = shape.layers * shape.experts * 3 * shape.hidden * shape.intermediate * 17 // 32 // tensor
    sides = (width, shape.hidden, shape.hidden)
    padded, before, after = (-(-side // tile) * tile for side, tile in zip(sides, tiles, strict=True))
    return experts * padded * (2 * before + after) // (3 * width * shape.hidden) - experts


def padding_tiles(sm: int, moe_backend: str = "") -> tuple[int, int, int]:
    """Multiples to which MXFP4 kernels round up an expert's width, and the hidden size before and after it.

    Without a `moe_backend`: vLLM 0.26.0 (fused_moe/oracle/mxfp4.py), Triton on SM 90, TensorRT-LLM's on SM 100, Marlin
    elsewhere. With: TensorRT-LLM (_torch/modules/fused_moe, read 2026-11-28); `auto` is Triton, its own, CUTLASS.
    """
    if not moe_backend:
        return {90: 64, 100: 256, 103: 256}.get(sm, 128), 256, 256
    own = {90: (128, 128, 256), 100: (128, 512, 128), 103: (128, 512, 128)} if moe_backend != "CUTLASS" else {}
    return own.get(sm, (128, 128, 128))


def weights_bytes(shape: Checkpoint, precision: str) -> int:
    """Bytes of all weights held in `precision`: table and head in 16 bit, the rest as in PRECISIONS.

    By hand: Llama-3.1-8B in fp8: 6,979,588,096 + 2 x 1,050,673,152 = 9,080,934,400.
             Llama-3.1-70B in fp8: 68,452,360,192 + 2 x 2,101,346,304 = 72,655,052,800.
    """
    if precision == "mxfp4":
        return mxfp4_bytes(shape)
    row, outer = PRECISIONS[precision], outer_elements(shape)
    return (shape.parameters - outer) * row.numerator // row.denominator + 2 * outer


def split_bytes(shape: Checkpoint, size_bytes: int, tensor_parallel: int, pipeline_parallel: int) -> int:
    """Bytes on the fullest GPU: every tensor split `tensor_parallel` ways, whole layers to each pipeline stage.

    Shape: a stage has at most ceil(layers / pipeline) layers; the first holds the table, the last the head. Tensors
    that every GPU of a tensor-parallel group holds whole are added to its share.
    """
    most_layers = -(-shape.layers // pipeline_parallel)
    whole = size_bytes * replicated_elements(shape, most_layers) // shape.parameters
    if pipeline_parallel == 1:
        return -(-(size_bytes - whole) // tensor_parallel) + whole
    outer = 2 * outer_elements(shape)
    layers = -(-(size_bytes - outer) * most_layers // shape.layers)
    return -(-(layers + outer // 2 - whole) // tensor_parallel) + whole


def replicated_elements(shape: Checkpoint, layers: int) -> int:
    """Parameters of `layers` layers that tensor parallelism does not split: the projections into a latent.

    Shape:   layers x hidden x (q_lora_rank + kv_lora_rank + qk_rope_head_dim); 0 without latent attention.
    By hand: DeepSeek-V3: 61 x 7,168 x (1,536 + 512 + 64) = 923,467,776.
    """
    if not shape.kv_lora_rank:
        return 0
    return layers * shape.hidden * (shape.q_lora_rank + latent_elements(shape))


def latent_elements(shape: Checkpoint) -> int:
    """Elements that one token keeps in one layer under multi-head latent attention; 0 for any other attention."""
    return shape.kv_lora_rank + shape.qk_rope_head_dim if shape.kv_lora_rank else 0


def llm_weights_mib(
    shape: Checkpoint,
    *,
    precision: str = "",
    stored_bytes: int = 0,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
) -> int:
    """MiB of an LLM's weights on the fullest of its GPUs; without a `precision` in their stored form."""
    size = llm_weights_bytes(shape, precision=precision, stored_bytes=stored_bytes)
    return mib(split_bytes(shape, size, tensor_parallel, pipeline_parallel))


def llm_weights_bytes(shape: Checkpoint, *, precision: str = "", stored_bytes: int = 0) -> int:
    """Bytes of all of an LLM's weights; without a `precision` in their stored form.

    The stored size, in order of trust: the inventory's number (`weights_mib`), the sum of a local checkpoint's headers
    (`stored_bytes`), and a calculation from the architecture.
    """
    size = (shape.weights_mib * MIB or stored_bytes) if precision in ("", STORED[shape.quantisation]) else 0
    return size or weights_bytes(shape, precision or STORED[shape.quantisation])


def encoder_weights_mib(shape: Checkpoint, dtype: DType, *, parameters: int = 0) -> int:
    return shape.weights_mib or mib((parameters or shape.parameters) * ELEMENT_BYTES[dtype])


def layer_elements(shape: Checkpoint) -> int:
    """Elements that one token keeps alive inside one layer.

    Shape:   3 hidden (in, normed, out) + (heads + 2 kv_heads) x head_dim (q, k, v) + 2 intermediate (before and after
             the activation); with experts each of the chosen ones has 2 hidden (in, out) and 3 intermediate (gate,
             up, product).
             Latent attention: heads x (2 x (head_dim + qk_rope_head_dim) + head_dim) and the latent itself.
    By hand: XLM-R-large: 3x1024 + 48x64 + 2x4096 = 14,336; over 16,384 tokens in fp16: 448 MiB (449 measured).
             DeepSeek-V3: 3x7168 + 128x(2x192 + 128) + 576 + 8x(2x7168 + 3x2048) = 251,456; not measured.
    """
    attention = 3 * shape.hidden + attention_elements(shape)
    inner = shape.intermediate or 4 * shape.hidden
    if shape.experts:
        return attention + shape.active_experts * (2 * shape.hidden + 3 * inner)
    return attention + 2 * inner


def attention_elements(shape: Checkpoint) -> int:
    """Elements of queries, keys and values of one token in one layer, all heads, and of the latent they come from."""
    if not shape.kv_lora_rank:
        return (shape.heads + 2 * kv_heads(shape)) * head_dim(shape)
    return shape.heads * (3 * head_dim(shape) + 2 * shape.qk_rope_head_dim) + latent_elements(shape)


def encoder_workspace_mib(
    shape: Checkpoint,
    dtype: DType,
    max_batch_tokens: int,
    streams: int,
    *,
    gated: bool = False,
    float32_residuals: bool = False,
    relative_positions: bool = False,
) -> int:
    """MiB that an encoder's allocator holds besides the weights, for full passes in each of `streams`.

    Shape:   ENCODER_FIXED_MIB, and for each stream ENCODER_HELD_PERCENT of the elements of a full pass in a layer.
             Its experts are not gated and read tokens in place: 1 hidden and 2 intermediate each.
             Not measured: a gated feed-forward holds its product too, 1 intermediate; a network with
             `float32_residuals` rotates its heads in float32 and adds its states up in it: 2 hidden and
             6 heads x head_dim, 4 bytes each; one with `relative_positions` ENCODER_SCORES_MIB of scores and tables.
    Source: in bfloat16 the states are also added up in float32 (files/encoders/plain.py): 2 hidden x 4 bytes.
    By hand: bge-reranker-large, 16,384 tokens: 448 x 0.93 = 417 a stream; 185 + 2 x 417 = 1,019; 740 measured.
    """
    wide = 2 * shape.hidden if dtype == "bfloat16" or float32_residuals else 0
    beside = (wide + (6 * shape.heads * head_dim(shape) if float32_residuals else 0)) * ELEMENT_BYTES["float32"]
    beside += (shape.intermediate or 4 * shape.hidden) * ELEMENT_BYTES[dtype] if gated and not shape.experts else 0
    unused = shape.active_experts * (shape.hidden + (shape.intermediate or 4 * shape.hidden)) if shape.experts else 0
    live = ((layer_elements(shape) - unused) * ELEMENT_BYTES[dtype] + beside) * max_batch_tokens
    scores_mib = ENCODER_SCORES_MIB if relative_positions else 0
    return ENCODER_FIXED_MIB + streams * (mib(live * ENCODER_HELD_PERCENT // 100) + scores_mib)


def llm_workspace_mib(shape: Checkpoint, *, max_num_tokens: int, max_batch_size: int, tensor_parallel: int = 1) -> int:
    """MiB that an LLM takes besides weights, contexts and key/value cache, on each GPU.

    Shape:   activations of `max_num_tokens` tokens in 16 bit (split over tensor_parallel), logits of `max_batch_size`
             rows in fp32 twice (scores, probabilities), both with allocator slack, and LLM_RUNTIME_MIB.
    By hand: gpt-oss-20b, 8,192 tokens, 32 rows: 71,360 x 8,192 x 2 = 1,169,162,240 bytes; 32 x 201,088 x 8 =
    51,478,528;
             1.5 x their sum = 1,830,961,152 bytes = 1,747 MiB; with 2,048: 3,795.
    """
    activations = layer_elements(shape) * max_num_tokens * 2 // tensor_parallel
    logits = max_batch_size * shape.vocabulary * 8
    return mib((activations + logits) * ALLOCATOR_SLACK_PERCENT // 100) + LLM_RUNTIME_MIB


def vllm_workspace_mib(shape: Checkpoint, *, max_num_tokens: int, rows: int, tensor_parallel: int, gpus: int) -> int:
    """MiB that vLLM takes besides weights, context and key/value cache, on each of its GPUs.

    Shape:   the larger of the activations, as above, and the logits of all rows, which follow them; VLLM_RUNTIME_MIB.
    By hand: Llama-3.1-8B, 8,192 tokens, 64 rows: 1.5 x 47,104 x 8,192 x 2 = 1,157,627,904 bytes = 1,104 MiB, more than
             64 x 128,256 x 40 bytes = 314; with 1,024: 2,128. With 1,024 rows 5,010; a log says 4.76 GiB.
    """
    activations = layer_elements(shape) * max_num_tokens * 2 // tensor_parallel * ALLOCATOR_SLACK_PERCENT // 100
    most = max(activations, rows * shape.vocabulary * VLLM_LOGIT_BYTES)
    return mib(most) + VLLM_RUNTIME_MIB + (VLLM_LINK_MIB if gpus > 1 else 0)


def kv_bytes_per_token(shape: Checkpoint, kv_dtype: str, tensor_parallel: int = 1, pipeline_parallel: int = 1) -> int:
    """Bytes of key/value cache of one token on the fullest GPU; every layer counts as attention over all tokens.

    Shape:   2 (K, V) x ceil(layers / pipeline) x ceil(kv_heads / tensor) x head_dim x element; `auto` is 16 bit. Fewer
             heads than GPUs are copied, so a GPU never has less than one. Under latent attention: ceil(layers /
             pipeline) x (kv_lora_rank + qk_rope_head_dim) x element, whole on every GPU of a tensor-parallel group
             (one head, no values: `SELFKONLY` in TensorRT-LLM's resource_manager.py, read 2026-11-22).
    By hand: gpt-oss-20b: 2 x 24 x 8 x 64 x 2 = 49,152. Llama-3.1-70B, fp8: 2 x 80 x 8 x 128 = 163,840.
             DeepSeek-V3, R1, Kimi-K2, whatever `tensor`: 61 x (512 + 64) x 2 = 70,272.
             Windowed layers (gpt-oss, Gemma 2) may need less; the planner does not count on it.
    """
    element = ELEMENT_BYTES.get(kv_dtype, 2)
    layers = -(-shape.layers // pipeline_parallel)
    if shape.kv_lora_rank:
        return layers * latent_elements(shape) * element
    return 2 * layers * -(-kv_heads(shape) // tensor_parallel) * head_dim(shape) * element


def kv_cache_mib(tokens: int, bytes_per_token: int) -> int:
    return mib(tokens * bytes_per_token)


def kv_tokens_in(left_mib: int, bytes_per_token: int) -> int:
    """The most tokens that `left_mib` holds, in whole blocks; never negative."""
    return max(0, left_mib * MIB // bytes_per_token // TOKENS_PER_BLOCK * TOKENS_PER_BLOCK)


def kv_tokens_useful(max_batch_size: int, max_seq_len: int) -> int:
    """The most tokens that can be in use at once: every row of the batch at its full length, in whole blocks."""
    return max_batch_size * -(-max_seq_len // TOKENS_PER_BLOCK) * TOKENS_PER_BLOCK
