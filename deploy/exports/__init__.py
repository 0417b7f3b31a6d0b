"""A plan in the words of another engine of distribution: Kubernetes runs the containers that a host deploy would run.

Pure. The roles' renderings come in as `served.ServedHost`, which the command line fills.
"""
