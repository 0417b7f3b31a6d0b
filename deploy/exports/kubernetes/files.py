"""Files of a release as ConfigMaps: each content once, and no ConfigMap above the size limit of an annotation.

`kubectl apply` keeps an object as JSON in an annotation of at most 262,144 bytes, and etcd takes about 1 MiB.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from deploy.exports.kubernetes.names import Manifest, digest, manifest

MOST_BYTES = 180_000
"""Most bytes of contents in a ConfigMap: as JSON, quotes and line ends take up to a third more."""


def key_of(path: str) -> str:
    """A path as a key of a ConfigMap; keys may have no slash."""
    return path.replace("/", ".")


def packed(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Texts by path; each content is under its first path, in groups that fit into a ConfigMap."""
    groups, size = [dict[str, str]()], 0
    for text, path in first_paths(files).items():
        if size + len(text.encode()) > MOST_BYTES and groups[-1]:
            groups, size = [*groups, {}], 0
        groups[-1][path] = text
        size += len(text.encode())
    return groups


def first_paths(files: Mapping[str, str]) -> dict[str, str]:
    """The first path of each content."""
    paths = dict[str, str]()
    for path, text in sorted(files.items()):
        paths.setdefault(text, path)
    return paths


def config_maps(
    name: str, namespace: str, labels: dict[str, str], files: Mapping[str, str]
) -> tuple[list[Manifest], list[dict[str, Any]]]:
    """Immutable ConfigMaps of the files, named by their content, and the sources of a volume with every file."""
    first = first_paths(files)
    objects, sources = list[Manifest](), list[dict[str, Any]]()
    for group in packed(files):
        object_ = f"{name}-{digest(group)}"
        data = {key_of(path): text for path, text in group.items()}
        assert len(data) == len(group), "two paths became one key"
        objects.append(manifest("v1", "ConfigMap", object_, namespace, labels, immutable=True, data=data))
        items = [{"key": key_of(first[text]), "path": path} for path, text in files.items() if first[text] in group]
        sources.append({"configMap": {"name": object_, "items": items}})
    return objects, sources


def volume(name: str, sources: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "projected": {"defaultMode": 0o444, "sources": list(sources)}}
