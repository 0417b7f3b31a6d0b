"""Tool calls and reasoning in a text that arrives in pieces: the cuts do not change the result, and other text stays
text."""

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.answer_parts import Call, Content, Part, Reasoning
from gateway.call_formats import Hermes, Listed, Llama3, Mistral, Named
from gateway.calls import Calls
from gateway.reasoning import Thoughts

NAMES = {"weather", "add"}
FAMILIES = [Hermes, Llama3, Mistral, Listed]
CALL = '{"name": "weather", "arguments": {"city": "Köln", "note": "a } \\" </tool_call> ]"}}'
ARGUMENTS = {"city": "Köln", "note": 'a } " </tool_call> ]'}
PIECES = [
    *("<tool_call>", "</tool_call>", "<tool_", "call>", "[TOOL_CALLS]", "[TOOL", "_CALLS]", "[ARGS]", "[CALL_ID]", "["),
    *("]", "{", "}", '"', "\\", ",", ";", " ", "\n", "a", "é", "weather", "add", "12", "null", "NaN", "1e999"),
    *(CALL, '{"name": "add", "parameters": {}}', '{"name": "other", "arguments": {}}', '{"name": "add"}', '{"a": 1}'),
    *('{"name": ["add"]}', '{"name": "add", "arguments": "{}"}', '{"name": "add", "arguments": [1]}', "\\ud800"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def parts_of(machine: Calls | Named | Thoughts, pieces: list[str]) -> list[Part]:
    """Returns the parser's parts for a text in these pieces."""
    return [part for piece in pieces for part in machine.feed(piece)] + machine.end()


def summed(parts: list[Part]) -> tuple[str, str, list[tuple[int, str, str]]]:
    """Returns content, reasoning, and each call's index, name and arguments."""
    content = "".join(part.text for part in parts if isinstance(part, Content))
    reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
    return content, reasoning, [(part.index, part.name, part.arguments) for part in parts if isinstance(part, Call)]


def cut(text: str, places: list[int]) -> list[str]:
    """Returns the text in pieces that end at these places."""
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(text=TEXTS, places=st.lists(st.integers(0, 200), max_size=30))
def test_any_split_of_the_text_gives_the_same_calls_and_text(family: type[Calls], text: str, places: list[int]) -> None:
    whole = summed(parts_of(family(NAMES), [text]))
    assert summed(parts_of(family(NAMES), cut(text, places))) == whole
    assert summed(parts_of(family(NAMES), list(text))) == whole


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40, deadline=None)
@given(text=TEXTS)
def test_a_text_without_a_call_is_returned_whole_and_calls_keep_their_order(family: type[Calls], text: str) -> None:
    content, _, calls = summed(parts_of(family(NAMES), list(text)))
    if not calls:
        assert content == text
    assert [index for index, _, _ in calls] == list(range(len(calls)))
    for _, name, arguments in calls:
        assert name in NAMES
        assert isinstance(json.loads(arguments), dict)


@settings(max_examples=40, deadline=None)
@given(
    text=st.lists(
        st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "think", " ", "\n", "a", "b c"]), max_size=12
    ).map("".join),
    places=st.lists(st.integers(0, 60), max_size=20),
    is_open=st.booleans(),
)
def test_any_split_gives_the_same_reasoning(text: str, places: list[int], is_open: bool) -> None:
    whole = summed(parts_of(Thoughts(is_open), [text]))
    assert summed(parts_of(Thoughts(is_open), cut(text, places))) == whole
    assert summed(parts_of(Thoughts(is_open), list(text))) == whole
    letters = "".join(text.split()).replace("<think>", "", 1).replace("</think>", "", 1)
    assert len("".join((whole[1] + whole[0]).split())) >= len(letters)  # nothing but the two marks is lost


WRITTEN: list[tuple[str, Callable[[], Calls], str, str, list[str]]] = [
    ("hermes", lambda: Hermes(NAMES), f"Let me see.\n<tool_call>\n{CALL}\n</tool_call>", "Let me see.", ["weather"]),
    ("two of hermes", lambda: Hermes(NAMES), f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>\n", "",
     ["weather", "weather"]),
    ("hermes without its end", lambda: Hermes(NAMES), f"<tool_call>\n{CALL}", "", ["weather"]),
    ("text after a call", lambda: Hermes(NAMES), f"<tool_call>{CALL}</tool_call> Done. ", "Done.", ["weather"]),
    ("llama 3", lambda: Llama3(NAMES), CALL, "", ["weather"]),
    ("two of llama 3", lambda: Llama3(NAMES), f"{CALL}; {CALL}", "", ["weather", "weather"]),
    ("llama 3 in a text", lambda: Llama3(NAMES), f"Say {CALL}", f"Say {CALL}", []),
    ("mistral", lambda: Mistral(NAMES), f"[TOOL_CALLS] [{CALL}, {CALL}]", "", ["weather", "weather"]),
    ("mistral by name", lambda: Mistral(NAMES), '[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]add{}', "", ["add", "add"]),
    ("mistral with an id", lambda: Mistral(NAMES), '[TOOL_CALLS]add[CALL_ID]x1[ARGS]{"a": 1}', "", ["add"]),
    ("a guided list", lambda: Listed(NAMES), f"[{CALL},{CALL}]", "", ["weather", "weather"]),
    ("a list that was cut off", lambda: Listed(NAMES), f'[{CALL},{{"name": "wea', ',{"name": "wea', ["weather"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "text", "content", "names"), [sample[1:] for sample in WRITTEN], ids=[sample[0] for sample in WRITTEN]
)
def test_a_familys_own_format_is_read(machine: Callable[[], Calls], text: str, content: str, names: list[str]) -> None:
    content_read, _, calls = summed(parts_of(machine(), list(text)))
    assert content_read == content
    assert [name for _, name, _ in calls] == names
    assert all(json.loads(arguments) in (ARGUMENTS, {"a": 1}, {}) for _, _, arguments in calls)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": 1e999}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": "\\ud800"}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": ' + "9" * 5000 + "}}</tool_call>",
        '<tool_call>{"name": "add", "arguments": ' + '{"a":' * 5000 + "1" + "}" * 5000 + "}</tool_call>",
        '<tool_call>{"name": "add", "arguments": {</tool_call>',
        "<tool_call>add(1)</tool_call>",
        "<tool_call>",
        "  \n",
    ],
)
def test_a_malformed_call_is_text(text: str) -> None:
    assert summed(parts_of(Hermes(NAMES), [text]))[::2] == (text, [])


def test_a_valid_call_after_a_malformed_call_is_parsed() -> None:
    text = f"<tool_call>{{1}}</tool_call> <tool_call>{CALL}</tool_call>"
    content, _, calls = summed(parts_of(Hermes(NAMES), list(text)))
    assert (content, len(calls)) == ("<tool_call>{1}</tool_call>", 1)


def test_text_is_streamed_as_soon_as_it_cannot_be_a_call() -> None:
    machine = Hermes(NAMES)
    assert machine.feed("a <") == [Content("a")]
    assert machine.feed("b") == [Content(" <b")]
    assert [type(part) for part in machine.feed("<tool_call>" + CALL)] == [Call]


def test_ids_are_new_each_time_and_mistrals_have_nine_letters() -> None:
    first, second = Hermes.identity(), Hermes.identity()
    assert first != second
    assert first.startswith("call_")
    assert len(Mistral.identity()) == 9
    assert Mistral.identity().isalnum()


def test_a_guided_call_of_a_single_tool_is_streamed_in_pieces() -> None:
    parts = parts_of(Named("add", "call_1"), ['{"a"', "", ": 1}"])
    assert parts == [Call(0, '{"a"', "add", "call_1"), Call(0, ": 1}")]


@pytest.mark.parametrize("machine", [Hermes, Mistral, Llama3])
def test_the_work_grows_with_the_text(machine: type[Calls]) -> None:
    """The text is slow by design and comes one character at a time; quadratic work would take minutes."""
    slow = '<tool_call>{"[TOOL_CALLS]' + " " * 20_000 + "{" * 20_000
    assert summed(parts_of(machine(NAMES), list(slow)))[0] == slow
    assert summed(parts_of(Thoughts(True), list(" " * 20_000)))[0] == ""
