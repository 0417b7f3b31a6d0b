"""The doctor's findings about a host that deploys itself, from the state file of its first boot."""

from __future__ import annotations

from tests.unit.doctored import UNITS, examined

AT_WORK = "Id=enginehouse-first-boot.service\nLoadState=loaded\nActiveState=activating"


def first_boot(state: str, code: str, step: str = "fetch the archive") -> dict[str, str]:
    """The answer about a host that deploys itself."""
    record = f'"state": "{state}", "step": "{step}", "exit": {code}, "since": "2026-11-23T07:58:00Z"'
    return {"first-boot": f"{{{record}}}"}


def test_a_first_boot_that_failed_is_named_with_its_step_and_the_command_that_tries_again() -> None:
    (failed,) = examined(first_boot("failed", "22"))
    evidence = "it ended in the step 'fetch the archive' with exit code 22, 2026-11-23T07:58:00Z"
    assert (failed.id, failed.evidence) == ("first-boot-failed", evidence)
    assert failed.attempt.endswith("then systemctl start enginehouse-first-boot")


def test_a_first_boot_that_goes_on_is_a_note() -> None:
    """A reboot that the deploy requested is not its end."""
    (running,) = examined(first_boot("running", "null") | {"units": f"{AT_WORK}\n\n{UNITS}"})
    (rebooting,) = examined(first_boot("running", "null", "reboot"))
    assert [(finding.id, finding.severity) for finding in (running, rebooting)] == [("first-boot-running", "note")] * 2


def test_a_first_boot_that_nothing_goes_on_with_has_failed_in_its_step() -> None:
    (cut,) = examined(first_boot("running", "null"))
    evidence = "it was cut in the step 'fetch the archive', begun 2026-11-23T07:58:00Z"
    assert (cut.id, cut.evidence) == ("first-boot-failed", evidence)


def test_a_first_boot_that_succeeded_is_no_finding() -> None:
    assert examined(first_boot("serving", "0")) == ()
