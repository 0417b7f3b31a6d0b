"""The reason why a text is not JSON, as an operator sees it in the editor: a comment, a comma too many, a merge."""

import re

COMMENT = re.compile(r"^\s*(//|#|/\*)", re.MULTILINE)
COMMA = re.compile(r",\s*[\]}]")
MERGE = re.compile(r"^(?:<{7}|>{7}|\|{7}) ", re.MULTILINE)


def json_fault(text: str, error: Exception) -> str:
    """The fault of this text and its line; the words of the parser for any other fault."""
    if not text.strip():
        return "an empty file"
    if text.startswith("\ufeff"):
        return "a byte order mark before the first bracket"
    if merge := MERGE.search(text):
        return f"two versions of a merge, from line {_line(text, merge.start())} on"
    line = getattr(error, "lineno", 0)
    comment = COMMENT.search(text)
    if comment and line == _line(text, comment.start(1)):
        return f"a comment in line {line}, and JSON has none"
    comma = COMMA.search(text)
    if comma and _line(text, comma.start()) <= line <= _line(text, comma.end()):
        return f"a comma before a closing bracket in line {_line(text, comma.start())}"
    if re.match(r"\s*[{\[]?\s*'", text):
        return "texts in single quotes, and JSON has double ones"
    return f"no JSON: {error}"


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
