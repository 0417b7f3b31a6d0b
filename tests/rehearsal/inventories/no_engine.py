"""The rehearsal's machines with one small embedder: everything an engine needs is installed, and a model serves."""

from dataclasses import replace

from tests.rehearsal.variants import hosts


def _change(data, state):
    (server,) = data["servers"]
    minilm = tuple(model for model in server.models if model.name == "minilm")
    # Only minilm, and an open address: machines copied from one disk share the release.
    return {"servers": (replace(server, models=minilm, address="0.0.0.0"),)}


rehearsal = hosts(_change)
