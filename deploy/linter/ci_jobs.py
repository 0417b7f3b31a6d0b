"""Images of CI jobs of GitHub and GitLab as commands of Docker, on the lines of `image`; commands of llama-swap.

The keys are those of GitHub's workflow syntax and of GitLab's CI/CD reference, read on 2026-11-28.
"""

import shlex
from collections.abc import Iterator

from deploy.linter.fields import Fields, fields_of, shown
from deploy.linter.fragments import variables
from deploy.linter.manifests import documents_of

GPUS_OF_GITLAB = "--device nvidia.com/gpu=all"
"""The runner's own configuration gives services their GPUs, so no job can name them."""


def with_images(text: str, lines: list[str]) -> list[str]:
    """The lines of a script made of this text, with the pull of each job's image and the run of its services."""
    original = text.split("\n")
    for job in _jobs(text):
        for key in ("container", "image"):
            value = job.get(key)
            image = shown(value) or shown(fields_of(value).get("image")) or shown(fields_of(value).get("name"))
            if image:
                lines[job.lines[key] - 1] = f"docker pull {shlex.quote(image.strip())}"
        if "services" in job:
            start = job.lines["services"] - 1
            end = _end_of(original, start)
            lines[start:end] = [""] * (end - start)
            for line, command in _services(job):
                lines[line - 1] = command
    return lines


def with_commands(text: str) -> str:
    """The command of each of llama-swap's models, on the line of its `cmd`, whose line breaks are blanks."""
    lines = [""] * (text.count("\n") + 1)
    for document in documents_of(text):
        for model in fields_of(document, "models").values():
            if isinstance(model, Fields) and "cmd" in model:
                lines[model.lines["cmd"] - 1] = " ".join(shown(model["cmd"]).replace("\\\n", " ").split())
    return "\n".join(lines)


def _jobs(text: str) -> Iterator[Fields]:
    """The jobs of a text; for GitLab its top level too, whose image and services all jobs share."""
    for document in documents_of(text):
        if not isinstance(document, Fields):
            continue
        jobs = [job for job in fields_of(document.get("jobs", document)).values() if isinstance(job, Fields)]
        of_ci = [job for job in jobs if {"steps", "script"} & job.keys()]
        yield from of_ci
        if of_ci and not isinstance(document.get("services"), Fields):
            yield document


def _services(job: Fields) -> Iterator[tuple[int, str]]:
    """The `docker run` of each service, with its line; a service may have only an image."""
    services = job["services"]
    for service in (
        services.values() if isinstance(services, Fields) else services if isinstance(services, list) else []
    ):
        fields = service if isinstance(service, Fields) else Fields()
        key = "image" if "image" in fields else "name"
        image = shown(fields.get(key)) or shown(service)
        if not image:
            continue
        pairs = variables(fields.get("env", fields.get("variables")))
        options = [" ".join(shown(fields.get("options")).split())] if "image" in fields else [GPUS_OF_GITLAB]
        options += [*(f"-p {shlex.quote(shown(port))}" for port in _listed(fields, "ports"))]
        options += [f"-e {shlex.quote(f'{name}={value}')}" for name, value, _ in pairs]
        entry, words = _listed(fields, "entrypoint"), _listed(fields, "command")
        options += [f"--entrypoint {shlex.quote(shown(entry[0]))}"] if entry else []
        after = [shlex.quote(shown(word)) for word in (*entry[1:], *words)]
        command = " ".join(filter(None, ["docker run", *options, shlex.quote(image), *after]))
        yield fields.lines.get(key, job.lines["services"]), command


def _listed(fields: Fields, key: str) -> list[object]:
    value = fields.get(key)
    return value if isinstance(value, list) else [*shown(value).split()]


def _end_of(lines: list[str], start: int) -> int:
    """The index behind the block whose key is on the line `start`; its list may begin at the same column."""
    depth = len(lines[start]) - len(lines[start].lstrip())
    for place in range(start + 1, len(lines)):
        row = lines[place].lstrip()
        indent = len(lines[place]) - len(row)
        if row and not row.startswith("#") and (indent < depth or (indent == depth and not row.startswith("- "))):
            return place
    return len(lines)
