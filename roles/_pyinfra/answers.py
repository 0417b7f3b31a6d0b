"""Refusals of a host whose answer to a question is missing or unreadable: only that host fails.

pyinfra 3.10.0 takes any other exception of a fact or of deploy code for a defect of its own: it prints a traceback and
ends the run of all hosts, even in the middle of a wave. So a single broken or compromised host could stop every
rollout.
"""

import inspect
import traceback
from pathlib import Path
from typing import Any

from deploy.refusals import Refusal, shortened

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions raised by a reader of a text of an unexpected form."""
HERE = Path(__file__).parents[2]


def unanswered(fact: Any, seconds: int, executing: bool) -> Refusal:
    """The refusal of a host that gave no answer to `fact` within `seconds`."""
    about = (inspect.getdoc(fact) or "").partition("\n\n")[0].replace("\n", " ")
    return Refusal(
        f"the host did not answer a question within {seconds} s",
        facts={"asked": f"{fact.name}: {about}", "means": "the program that should answer hangs on the host"},
        attempt="find it on the host with ps -eo pid,stat,args (state D ends with a reboot only), then run again",
        state=_state(executing),
        kind="unanswered",
    )


def unreadable(question: str, error: Exception, executing: bool) -> Refusal:
    """The refusal of a host whose answer to `question` caused the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(HERE)]
    place = f", at {Path(frames[-1].filename).relative_to(HERE)}:{frames[-1].lineno}" if frames else ""
    return Refusal(
        "the host's answer has an unknown form",
        facts={"asked": question, "seen": f"{type(error).__name__}: {shortened(str(error))}{place}"},
        attempt="enginehouse doctor INVENTORY; report it if this host's programs are unchanged",
        state=_state(executing),
        kind="unreadable",
    )


def _state(executing: bool) -> str:
    if executing:
        return "steps that ended are done; without this answer nothing more was changed"
    return "nothing was changed on this host"
