"""Checks that each path of the control machine is a file's, not a URL, a key's own text or a directory."""

import re
from collections.abc import Iterator, Mapping

from deploy.inventory.path_texts import CONTENT, slip_of
from deploy.refusals import Refusal, model_at, refuse, secret_in
from deploy.spec import LLM, Balancer, Host

PRIVATE = re.compile(r"[._-](?:key|priv|private)(?:\.pem)?$", re.IGNORECASE)


def path_problems(host: Host) -> Iterator[Refusal]:
    yield from problems_of_paths(_files(host), _certificates(host))


def balancer_path_problems(balancer: Balancer) -> Iterator[Refusal]:
    """A refusal for each path of a balancer that cannot be a file's."""
    certificates = {"balancer.certificate": balancer.certificate, "balancer.clients": balancer.clients}
    yield from problems_of_paths(certificates, certificates)


def problems_of_paths(files: Mapping[str, str], certificates: Mapping[str, str]) -> Iterator[Refusal]:
    for where, path in files.items():
        if secret_in(path):
            continue  # refused as a secret, and shown nowhere
        problem, attempt = slip_of(path)
        if problem:
            yield refuse(
                "no-path",
                f"`{where}` {problem}",
                where=where,
                seen="a text, not shown" if CONTENT.match(path) else repr(path[:120]),
                wanted="the path of a file on this machine, relative to the current directory",
                attempt=attempt,
            )
        elif where in certificates and PRIVATE.search(path):
            yield refuse(
                "key-as-certificate",
                f"`{where}` is the name of a private key, and a certificate is sent to hosts",
                where=where,
                seen=repr(path),
                wanted="a PEM file with a certificate; keys are given by a Secret",
                attempt=f'"{PRIVATE.sub("", path)}.pem"',
            )


def _certificates(host: Host) -> dict[str, str]:
    files = {"registry.ca_file": host.registry.ca_file, "hub.ca_file": host.hub.ca_file}
    https = host.gateway.https if host.gateway else None
    files |= {"gateway.https.certificate": https.certificate} if https else {}
    files |= {"gateway.https.acme.authority": https.acme.authority} if https and https.acme else {}
    return files


def _files(host: Host) -> dict[str, str]:
    """Every path of a file in the host's data, by its place."""
    files = _certificates(host)
    files |= {"engine_trust.key": host.engine_trust.key} if host.engine_trust else {}
    files |= {f"mirrors.{name}.key_file": mirror.key_file for name, mirror in vars(host.mirrors).items() if mirror}
    for server, model in host.served_models:
        replay = model.replay if isinstance(model, LLM) else None
        if isinstance(model, LLM) and model.calibration:
            place = model_at(server.name, model.name, "calibration", "directory")
            files[place] = model.calibration.directory.rstrip("/")
        for field in ("prompts", "answers", "tasks") if replay else ():
            files[model_at(server.name, model.name, "replay", field)] = getattr(replay, field)
    return files
