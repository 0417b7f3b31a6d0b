"""Copies of the monitor's rules and settings with short times; production rules stay unchanged.

Each minute of `for` becomes a second; pages are read every four seconds, and rules evaluated every two. Expressions,
limits and the ranges in expressions are those of production. The next plain run restores the real files.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

EVERY, READ_EVERY = "2s", "4s"


def rules(text: str) -> str:
    """Returns the rule file with short times."""
    content = yaml.safe_load(text)
    for group in content["groups"]:
        group["interval"] = EVERY
        for rule in group["rules"]:
            if held := rule.get("for"):
                match = re.fullmatch(r"(\d+)m", held)
                assert match, held
                rule["for"] = f"{match[1]}s"
    return yaml.safe_dump(content, sort_keys=False, width=1_000)


def settings(text: str, pages: str = "") -> str:
    """Returns Prometheus' settings with short times and a job that reads recorded pages at `pages`, HOST:PORT."""
    content = yaml.safe_load(text)
    content["global"] |= {"scrape_interval": READ_EVERY, "scrape_timeout": READ_EVERY, "evaluation_interval": EVERY}
    jobs: list[dict[str, Any]] = [job for job in content["scrape_configs"] if job["job_name"] != "recorded"]
    if pages:
        labels = {"job": "triton", "host": "h100", "instance": "h100/main"}
        jobs.append({"job_name": "recorded", "static_configs": [{"targets": [pages], "labels": labels}]})
    content["scrape_configs"] = jobs
    return yaml.safe_dump(content, sort_keys=False, width=1_000)
