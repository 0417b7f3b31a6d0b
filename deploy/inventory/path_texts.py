"""Texts that operators type instead of a file's path: content, a URL, a directory, a path of Windows."""

import re

URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
CONTENT = re.compile(r"-----BEGIN |(?:ssh|ecdsa|sk-ssh)-\S+ AAAA|mQ[A-Za-z0-9+/]{20}")
"""Beginnings of a key's or a certificate's content, which some operators type instead of its path."""
VARIABLE = re.compile(r"\$\w+|%\w+%")


def slip_of(path: str) -> tuple[str, str]:
    """The reason why a text is not a path of a file, and the text to type; two empty texts if it may be a path."""
    name = re.sub(r"[?#].*", "", path).rstrip("/").rpartition("/")[2] or "FILE"
    if CONTENT.match(path):
        return "holds the text of a file instead of its path", "put the text into a file, and name the file"
    if path.startswith("file://"):
        return "is a URL, and a path stands here", f'"{path.removeprefix("file://")}"'
    if URL.match(path):
        return "is a URL, and nothing fetches it", f'curl -fLo keys/{name} URL; look at it; then "keys/{name}"'
    if path.endswith("/") and path.strip("/"):
        return "is a directory, and one file of it is meant", f'"{path}FILE"'
    if "\\" in path:
        plain = re.sub("^[A-Za-z]:", "", path).replace("\\", "/")
        return "has backslashes, and a path of this machine has slashes", f'"{plain}"'
    if re.search(r"[*?]", path):
        return "is a pattern, and one file is meant", f'"{re.sub(r"[^/]*[*?].*", "FILE", path)}"'
    if re.search(r",\s*\S+\.\w+$", path):
        return "names several files, and one is meant", f'"{path.partition(",")[0].strip()}"'
    if VARIABLE.search(path):
        return (
            "holds a variable, and no shell replaces it",
            'write the path out, or os.environ["NAME"] in the inventory',
        )
    return "", ""
