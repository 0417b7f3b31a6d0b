"""The rehearsal with another batch for one embedder: a second good release."""

from tests.rehearsal.variants import hosts, with_model

rehearsal = hosts(lambda data, _: {"servers": with_model(data, "minilm", max_batch_size=16)})
