"""Loads pyinfra as the unit tests do: a verb that is called in this process then replaces no sockets or threads."""

from tests.unit import conftest  # noqa: F401
