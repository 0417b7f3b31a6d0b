"""MiB of an engine on disk, and of disk, GPU and host memory for its build.

Estimates on the large side, not measured. Each docstring has its arithmetic, so that a measurement can replace it.
"""

from deploy.engine.recipe import DRAFT, Recipe
from deploy.models import memory
from deploy.models.resolve import Served
from deploy.models.speculation import speculation_bytes
from deploy.spec import Checkpoint

RANK_MIB = 64
"""MiB of one rank's engine beside its weights: the graph, its tactics and the plugins' state."""

BUILDER_MIB = 4096
"""MiB of TensorRT's workspace while it times tactics, including CUDA context and cuBLAS."""

CALIBRATION_MIB = 6144
"""MiB on each GPU for activations and statistics of a calibration batch."""

HOST_MIB = 8192
"""MiB of host memory for Python, the builder's kernel library and a converter's data besides weights."""


def shape_of(recipe: Recipe, served: Served) -> Checkpoint:
    """The shape of the model of this engine: the target's, or the draft's."""
    if recipe.role == DRAFT:
        assert served.draft, "a draft without a shape passed the checks"
        return served.draft
    return served.shape


def heads_mib(recipe: Recipe, served: Served) -> int:
    return memory.mib(speculation_bytes(served)) if recipe.speculative_weights and not served.draft else 0


def engine_mib(recipe: Recipe, served: Served) -> int:
    """MiB of all files of the engine: the weights in its precision, heads, and RANK_MIB for each rank.

    By hand: Llama-3.1-8B in fp8, one rank: 8,661 + 64 = 8,725.
    """
    weights = memory.mib(memory.weights_bytes(shape_of(recipe, served), recipe.precision))
    return weights + heads_mib(recipe, served) + RANK_MIB * recipe.layout.world


def scratch_mib(recipe: Recipe, served: Served) -> int:
    """MiB of the checkpoint that is written before the build and deleted after it; twice if heads follow."""
    if recipe.is_finished:
        return 0
    twice = type(recipe.speculative).__name__ == "ReDrafter"
    return engine_mib(recipe, served) * (2 if twice else 1)


def build_gpu_mib(recipe: Recipe, served: Served) -> int:
    """Free MiB needed on each GPU: the larger of calibrating the model in 16 bit on all GPUs, and building one rank.

    Shape:   16-bit weights / GPUs + CALIBRATION_MIB; 1.5 x a rank's weights + BUILDER_MIB.
    By hand: Llama-3.1-8B in fp8 on one GPU: 15,317 + 6,144 = 21,461 against 12,992 + 4,096 = 17,088: 21,461.
    """
    world = recipe.layout.world
    plain = memory.mib(2 * shape_of(recipe, served).parameters // world) + CALIBRATION_MIB
    build = 3 * memory.mib(memory.weights_bytes(shape_of(recipe, served), recipe.precision) // world) // 2 + BUILDER_MIB
    return build if recipe.is_finished else max(plain, build)


def build_host_mib(recipe: Recipe, served: Served) -> int:
    """MiB of host memory: the largest of the model in 16 bit, two copies of the engine's files, and HOST_MIB."""
    plain = 0 if recipe.is_finished else memory.mib(2 * shape_of(recipe, served).parameters)
    return max(plain, 2 * engine_mib(recipe, served)) + HOST_MIB
