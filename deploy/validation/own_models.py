"""Refusals of the operator's own models beside the planned ones: name, directory, and servers that cannot load them."""

from collections import Counter
from collections.abc import Iterator

from deploy.models.files import ROOT
from deploy.refusals import Refusal, refuse, server_at, shortened
from deploy.spec import Host, OwnModel, Server
from deploy.validation.models import MODEL_NAME
from deploy.validation.on_host import CLOSED, PATH, is_below

EXAMPLE = 'path="/srv/triton"'
LONGEST = 900


def own_model_problems(host: Host) -> Iterator[Refusal]:
    """A refusal for each mistake in the own models of one host."""
    for server in host.servers:
        counts = Counter(model.name for model in server.own_models)
        for model in {model.name: model for model in server.own_models}.values():
            yield from _name(server, model, counts[model.name])
        for model in server.own_models:
            yield from _path(server, model)


def _name(server: Server, model: OwnModel, count: int) -> Iterator[Refusal]:
    planned = [known.name for known in server.models]
    taken = next((name for name in planned if model.name == name or model.name.startswith(f"{name}_")), "")
    if not MODEL_NAME.fullmatch(model.name):
        yield _refused(server, model, "name", "cannot name a model and a directory", shortened(model.name),
                       "letters, digits, inner dots, hyphens and underscores, 64 at most",
                       "the name of the model's directory in the repository")  # fmt: skip
    elif count > 1:
        yield _refused(server, model, "name", f"is declared {count} times", repr(model.name),
                       "each model once: its configuration has the number of its instances",
                       "instance_group [ { count: 2 } ] in its config.pbtxt")  # fmt: skip
    elif taken:
        yield _refused(server, model, "name", f"has a name of {taken}, which the plan serves",
                       repr(model.name), f"another name than {taken}, and none that begins with {taken}_",
                       f'name="own-{model.name}", and the directory renamed')  # fmt: skip


def _path(server: Server, model: OwnModel) -> Iterator[Refusal]:
    above = next((root for root in (*CLOSED, ROOT) if is_below(model.path, root)), "")
    if len(model.path) > LONGEST or not PATH.fullmatch(model.path):
        yield _refused(server, model, "path", "is read from a directory of the host, and this can be none",
                       shortened(model.path), "an absolute path of letters, digits and . _ @ + = -",
                       EXAMPLE)  # fmt: skip
    elif above == ROOT:
        yield _refused(server, model, "path", f"would be read from {ROOT}, which the clean-up keeps in order",
                       repr(model.path), f"a directory outside {ROOT}", EXAMPLE)  # fmt: skip
    elif above:
        yield _refused(server, model, "path", f"would be read from {above}, where no models belong",
                       repr(model.path), "a directory such as one below /mnt, /srv or /opt", EXAMPLE)  # fmt: skip


def _refused(
    server: Server, model: OwnModel, field: str, problem: str, seen: str, wanted: str, attempt: str
) -> Refusal:
    where = server_at(server.name, "own_models", f'"{model.name}"', field)
    problem = f"{shortened(model.name)} of the operator {problem}"
    return refuse("own-model", problem, where=where, seen=seen, wanted=wanted, attempt=attempt)
