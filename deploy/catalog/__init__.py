"""Dated, sourced tables of products, their versions and their ends of support; `deploy.validation` judges by them.

Every row names its source; an item without a source has no row, and the operator declares it instead
(`Checkpoint(...)`, `Release(...)`). Rows were read on `READ_ON` unless they say otherwise.
"""

from deploy.catalog.architectures import ARCHITECTURES, ENGINE_ENDS_WITH, Architecture, architecture_as
from deploy.catalog.checkpoint_rows import KnownCheckpoint
from deploy.catalog.checkpoints import CHECKPOINTS, kind_of
from deploy.catalog.drivers import BRANCH_WARNING_DAYS, DRIVER_BRANCHES, DriverBranch
from deploy.catalog.gpus import GPU, GPUS
from deploy.catalog.names import nearest
from deploy.catalog.precisions import KV_FIRST_SM, PRECISIONS, STORED, PrecisionRow
from deploy.catalog.releases import DEFAULT_RELEASE, LAST_WITH_ENGINES, OFFERED, RELEASES, Defect, ReleaseRow
from deploy.catalog.systems import DOCKER_FLOOR, DOCKER_SOURCES, HAPROXY_FLOOR, SYSTEMS, TOOLKIT_FLOOR, System

READ_ON = "2026-11-20"

__all__ = [
    "ARCHITECTURES",
    "BRANCH_WARNING_DAYS",
    "CHECKPOINTS",
    "DEFAULT_RELEASE",
    "DOCKER_FLOOR",
    "DOCKER_SOURCES",
    "DRIVER_BRANCHES",
    "ENGINE_ENDS_WITH",
    "GPU",
    "GPUS",
    "HAPROXY_FLOOR",
    "KV_FIRST_SM",
    "LAST_WITH_ENGINES",
    "OFFERED",
    "PRECISIONS",
    "READ_ON",
    "RELEASES",
    "STORED",
    "SYSTEMS",
    "TOOLKIT_FLOOR",
    "Architecture",
    "Defect",
    "DriverBranch",
    "KnownCheckpoint",
    "PrecisionRow",
    "ReleaseRow",
    "System",
    "architecture_as",
    "kind_of",
    "nearest",
]
