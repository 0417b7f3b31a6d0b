"""Refusals of a host whose answer to a question is missing, or in no known form: such a host fails alone.

pyinfra 3.10.0 takes any other exception of a fact or of deploy code for a defect of its own: it prints a traceback and
ends the run of all hosts, in the middle of a wave too. A single host with a broken program, or in foreign hands, could
stop every rollout.
"""

import inspect
import traceback
from pathlib import Path
from typing import Any

from deploy.refusals.errors import Refusal
from deploy.refusals.quoting import shortened

STRANGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions of a reader that meets a text of another form."""
HERE = Path(__file__).parents[2]


def unanswered(fact: Any, seconds: int, executing: bool) -> Refusal:
    """The refusal of a host that gave no answer to `fact` within `seconds`."""
    about = (inspect.getdoc(fact) or "").partition("\n\n")[0].replace("\n", " ")
    return Refusal(
        f"the host did not answer a question within {seconds} s",
        facts={"asked": f"{fact.name}: {about}", "means": "a program that was to answer it hangs there"},
        attempt="find it there with ps -eo pid,stat,args (state D ends with a reboot only), then run again",
        state=_state(executing),
        kind="unanswered",
    )


def unreadable(question: str, error: Exception, executing: bool) -> Refusal:
    """The refusal of a host whose answer to `question` caused the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(HERE)]
    place = f", at {Path(frames[-1].filename).relative_to(HERE)}:{frames[-1].lineno}" if frames else ""
    return Refusal(
        "the host gave an answer in no known form",
        facts={"asked": question, "seen": f"{type(error).__name__}: {shortened(str(error))}{place}"},
        attempt="enginehouse doctor INVENTORY; report it if nobody has changed this host's programs",
        state=_state(executing),
        kind="unreadable",
    )


def _state(executing: bool) -> str:
    if executing:
        return "steps that ended are done; nothing was changed for want of this answer"
    return "nothing was changed on this host"
