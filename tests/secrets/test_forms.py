"""Any encoding of a text with a secret contains one of the secret's forms."""

from __future__ import annotations

import base64

import pytest

from tests.secrets.forms import canary, forms, names_in

SECRET = "hf_" + "Abcdefgh+/=IjklmnopQ" + "Rstuvwxy+/=Z012345678"[:20]
LOOKED_FOR = forms({"token": SECRET})


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("after", ["", "\n", "yz"])
def test_base64_is_detected_wherever_the_secret_begins_in_it(before: str, after: str) -> None:
    text = base64.b64encode(f"{before}{SECRET}{after}".encode()).decode()
    assert names_in(text, LOOKED_FOR) == ["token (base64)"]


def test_url_safe_base64_is_detected_too() -> None:
    secret = "\x7f?>" * 20  # base64 of it has both letters in which the alphabets differ
    text = base64.urlsafe_b64encode(f"x{secret}".encode()).decode()
    assert names_in(text, forms({"token": secret})) == ["token (base64)"]


@pytest.mark.parametrize("text", ["Abcdefgh%2B%2F%3DIjklmnopQ", "Abcdefgh%2b%2f%3dIjklmnopQ"])
def test_a_percent_encoded_secret_is_detected(text: str) -> None:
    assert names_in(f"?token={text}", LOOKED_FOR) == ["token (percent-encoded)"]


@pytest.mark.parametrize("text", [SECRET.encode().hex(), SECRET.encode().hex().upper()])
def test_a_hexadecimal_secret_is_detected(text: str) -> None:
    assert names_in(text, LOOKED_FOR) == ["token (hexadecimal)"]


@pytest.mark.parametrize("text", [SECRET, SECRET[:23], SECRET[-20:]])
def test_half_of_it_is_enough(text: str) -> None:
    assert names_in(text, LOOKED_FOR) == ["token (plain)"]


def test_the_common_beginning_of_secrets_is_not_taken_for_one() -> None:
    assert names_in("hf_", LOOKED_FOR) == []


def test_no_canary_is_another() -> None:
    assert canary("hf_") != canary("hf_")


def test_a_canary_is_written_differently_in_every_shape() -> None:
    assert len(forms({"token": canary("hf_")})) >= 2 * (1 + 3 + 2 + 2)
