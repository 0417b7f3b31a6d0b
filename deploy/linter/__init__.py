"""Judges pasted text, a command or a config.pbtxt, word by word, and prints the corrected text. Nothing is ever run.

text ─▶ words (as a shell would cut them) ─▶ one judge per program ─▶ findings and the right command (`report.Report`).
Reading a file is left to `deploy/io/`; whether an inventory can work is `deploy.validation`.
"""

from deploy.linter.report import Report
from deploy.linter.typed_secrets import check

__all__ = ["Report", "check"]
