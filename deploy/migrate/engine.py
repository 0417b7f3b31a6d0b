"""The form in which this package reads another server: its start command, and its options under vLLM's names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from deploy.migrate.options import FLAGS, NO_PLACE
from deploy.migrate.places import PLACES, SHORT

LEVEL = re.compile(r"-O\.?[0-3a-z_.]{1,40}")
"""Pattern of vLLM's optimisation levels: `-O3`, `-O.mode`."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A server: its start command, and the names of its options here."""

    title: str
    image: re.Pattern[str]
    programs: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    """Words that have to follow a program: `vllm serve`."""
    second_verbs: frozenset[str] = frozenset()
    """Words that may follow the verb: `lmdeploy serve api_server`."""
    needs_verb: bool = True
    renamed: Mapping[str, str] = field(default_factory=dict)
    no_place: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    values: Mapping[tuple[str, str], str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, by name, and the option that each replaces."""
    variables_begin: str = ""
    """The beginning of variables that are an option of vLLM: `OPTION_MAX_MODEL_LEN`."""
    says_options_in_variables: bool = False
    port: int = 8000
    takes_beginnings: bool = True
    kind: str = ""
    takes_every_gpu: bool = False
    """True if a server without an option for it is split over every GPU of its container."""
    shares_ranks: str = ""
    """The option that puts data-parallel groups on the GPUs of the tensor-parallel groups."""
    takes_a_word: bool = False
    """True if a word without an option is the model."""

    def place_of(self, name: str) -> str:
        """The full name of an option in vLLM's words; an abbreviation is accepted if the server accepts it."""
        name = self.renamed.get(name, SHORT.get(name, name))
        if name in PLACES or self._reason(name) or not self.takes_beginnings or not name.startswith("--"):
            return name
        known = [*self.renamed, *self.no_place] + ([] if self.renamed else [*PLACES, *NO_PLACE])
        whole = {option for option in known if option.startswith(name) and len(name) > 3}
        (option,) = whole if len(whole) == 1 else (name,)
        return self.renamed.get(option, option)

    def reason(self, name: str) -> str:
        """The reason why an option has no place; empty for an option without a row."""
        base = name.split(".")[0]
        return self._reason(name) or self._reason(base) or self._reason(base.replace("--no-", "--", 1))

    def _reason(self, name: str) -> str:
        name = "-O" if LEVEL.fullmatch(name) else name
        return self.no_place.get(name, NO_PLACE.get(name, ""))

    def stands_alone(self, name: str) -> bool:
        return name in self.flags or name in FLAGS
