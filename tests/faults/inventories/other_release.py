"""The rehearsal with another batch for one embedder: each number in FAULTS_BATCH gives a different release."""

import os

from tests.faults.variants import hosts
from tests.rehearsal.variants import with_model

rehearsal = hosts(
    lambda data, _: {"servers": with_model(data, "minilm", max_batch_size=int(os.environ["FAULTS_BATCH"]))}
)
