"""Refusals: the errors that print as one clean message, with all their parts.

    DeployError (pyinfra)        prints as one clean message from anywhere, an inventory included
    └── Refusal                  one problem, aligned facts, the text to type, the state of the hosts
        └── Refusals             every problem of one stage, in one report

The only module of `deploy/` that imports pyinfra. A broken invariant of ours is a plain `AssertionError`, never a
Refusal.
"""

from collections.abc import Iterable, Mapping

from pyinfra.api.exceptions import DeployError

from deploy.refusals.quoting import visible

PLANNING = "planning; no host was changed"
PREFLIGHT = "preflight; no host was changed"


class Refusal(DeployError):  # type: ignore[misc]  # pyinfra carries no types
    """A problem that an operator can solve; its parts are fields, so that tests and programs need not parse text."""

    def __init__(
        self,
        problem: str,
        *,
        facts: Mapping[str, str] | None = None,
        attempt: str = "",
        state: str = PLANNING,
        kind: str = "",
    ) -> None:
        self.problem = problem
        self.facts = dict(facts or {})
        self.attempt = attempt
        self.state = state
        self.kind = kind
        super().__init__(str(self))

    def __str__(self) -> str:
        rows = [*self.facts.items(), *([("try", self.attempt)] if self.attempt else []), ("state", self.state)]
        width = max(len(name) for name, _ in rows)
        # Further lines of a host's or registry's text are indented, so that they do not look like facts.
        below = "\n" + " " * (width + 4)
        facts = (f"  {name:<{width}}  {text.replace(chr(10), below)}" for name, text in rows)
        return visible("\n".join([self.problem, *facts]))

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "problem": self.problem,
            "facts": self.facts,
            "try": self.attempt,
            "state": self.state,
        }


class Refusals(Refusal):
    """Every problem of one stage, in the separate `problems`."""

    def __init__(self, problems: Iterable[Refusal]) -> None:
        self.problems = tuple(problems)
        assert self.problems, "a report without a problem is not a refusal"
        super().__init__(self.problems[0].problem, state=self.problems[0].state, kind="several")

    def __str__(self) -> str:
        if not hasattr(self, "problems") or len(self.problems) == 1:
            return super().__str__() if not hasattr(self, "problems") else str(self.problems[0])
        count = f"{len(self.problems)} problems"
        return "\n\n".join([count, *(str(problem) for problem in self.problems)])


def refuse_all(problems: Iterable[Refusal]) -> None:
    """Raises the only refusal, or all refusals as one report; returns without refusals."""
    refusals = tuple(problems)
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        raise Refusals(refusals)
