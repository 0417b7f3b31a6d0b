"""The rehearsal with another batch for one embedder: a release of its own for every number in FAULTS_BATCH."""

import os

from tests.faults.variants import hosts
from tests.rehearsal.variants import with_model

rehearsal = hosts(
    lambda data, _: {"servers": with_model(data, "minilm", max_batch_size=int(os.environ["FAULTS_BATCH"]))}
)
