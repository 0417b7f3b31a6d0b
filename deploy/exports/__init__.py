"""A plan in another engine's format: Kubernetes or Slurm then runs the containers that a deploy would run on hosts.

Pure. The roles' renderings come in as `served.ServedHost`, which the command line fills.
"""
