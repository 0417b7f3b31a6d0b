"""Judges pasted text, a command or a config.pbtxt, word by word, and says what to type instead. Nothing is ever run.

text ─▶ words (as a shell would cut them) ─▶ one judge per program ─▶ findings and the right command (`report.Report`).
Reading a file is left to `deploy/edge/`; whether an inventory can work is `deploy.checks`.
"""

from deploy.paste.judge import check
from deploy.paste.report import Report

__all__ = ["Report", "check"]
