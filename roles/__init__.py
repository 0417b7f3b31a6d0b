"""The roles, a folder each; they act on a `deploy.slices.host.Slice` and decide nothing themselves.

Roles do not import each other. They share `_pyinfra`, which runs operations, and `_shipping`, which sends files. The
modules beside them call roles in order (`ground`, `foundation`, `stage`, `support`, `closing`).
"""
