"""The rehearsal's machines with one small embedder: everything an engine needs is installed, and a model serves."""

from dataclasses import replace

from tests.rehearsal.variants import hosts


def _change(data, state):
    (server,) = data["servers"]
    minilm = tuple(model for model in server.models if model.name == "minilm")
    return {"servers": (replace(server, models=minilm, address="0.0.0.0"),)}  # forks of one machine share the release


rehearsal = hosts(_change)
