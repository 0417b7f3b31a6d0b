"""The templates of the roles, each read and compiled once in a run, because a fleet of 200 hosts fills each 200 times.

A missing variable is a defect of this project; the same variables give the same bytes.
"""

from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from roles._shipping.texts import HERE


@cache
def template(role: str, file: str) -> Template:
    return _of(role).get_template(file)


@cache
def _of(role: str) -> Environment:
    return Environment(
        loader=FileSystemLoader([HERE / "templates" / role, HERE / "templates/haproxy"]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
