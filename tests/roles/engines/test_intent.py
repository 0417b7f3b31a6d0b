"""The decision which host builds, signs and fetches an engine, made only from all hosts' answers."""

from __future__ import annotations

from roles._shipping.units import UnitState
from roles.engines.facts import BuildState, EngineState, Present
from roles.engines.intent import Intent, builders, intend, order_of
from tests.roles.engines.samples import FINGERPRINT, PATH, an_engine
from tests.roles.slices import a_slice

NOTHING = Present()
SIGNED = Present({PATH: EngineState(True, True)})
UNSIGNED = Present({PATH: EngineState(True, False, "no signature")})
FOREIGN = Present({PATH: EngineState(True, True, "not by us")})
GOING = Present({}, {"llama": BuildState(UnitState("activating"), FINGERPRINT)})


def intent(is_kept: bool = False, **seen: Present) -> Intent:
    """The intent for one engine that all these hosts need."""
    return intend(an_engine(), sorted(seen), seen, is_kept)


def test_the_first_host_builds_and_signs_an_engine_for_all_others() -> None:
    decided = intent(a=NOTHING, b=NOTHING)
    assert (decided.builds("a"), decided.signs("a"), decided.fetches("a")) == (True, True, False)
    assert (decided.builds("b"), decided.signs("b"), decided.fetches("b")) == (False, False, True)


def test_a_signed_engine_on_any_host_is_not_built_again() -> None:
    decided = intent(a=NOTHING, b=SIGNED)
    assert (decided.source, decided.builds("a"), decided.fetches("a"), decided.signs("b")) == ("b", False, True, False)


def test_a_kept_copy_is_sent_to_every_host_that_lacks_it() -> None:
    decided = intent(is_kept=True, a=NOTHING, b=NOTHING)
    assert [decided.fetches("a"), decided.fetches("b"), decided.is_new()] == [True, True, False]


def test_an_unsigned_engine_is_signed_and_not_built_again() -> None:
    decided = intent(a=NOTHING, b=UNSIGNED)
    assert (decided.builds("a"), decided.builds("b"), decided.signs("b")) == (False, False, True)


def test_a_running_build_is_awaited_instead_of_a_new_one() -> None:
    decided = intent(a=NOTHING, b=GOING)
    assert (decided.builds("a"), decided.builds("b"), decided.fetches("a")) == (False, True, True)


def test_an_engine_of_a_foreign_signer_is_rebuilt_before_signing() -> None:
    decided = intent(a=FOREIGN)
    assert (decided.builds("a"), decided.is_new()) == (True, True)


def test_another_hosts_engine_replaces_one_of_a_foreign_signer() -> None:
    decided = intent(a=FOREIGN, b=SIGNED)
    assert (decided.builds("a"), decided.fetches("a"), decided.source) == (False, True, "b")


def test_a_finished_fleet_has_nothing_to_do() -> None:
    decided = intent(a=SIGNED, b=SIGNED)
    assert not any(act(name) for name in "ab" for act in (decided.builds, decided.signs, decided.fetches))


def test_hosts_that_only_build_come_first() -> None:
    slices = [a_slice(host="a", engines=(an_engine(),)), a_slice(host="z", farm=True, engines=(an_engine(),))]
    assert order_of(FINGERPRINT, slices) == ("z", "a")


def test_another_sm_has_a_builder_of_its_own() -> None:
    for_sm89 = an_engine("8" * 16, "89")
    slices = [a_slice(host=name, engines=(an_engine(),)) for name in ("a", "b")]
    assert builders([*slices, a_slice(host="c", engines=(for_sm89,))]) == {"a", "c"}
