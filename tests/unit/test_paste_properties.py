"""Properties of `check` on any text: no finding for right flags, no exception, no secret shown."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.catalog.flags import FlagTable, build_flags, convert_flags, quantize_flags
from deploy.catalog.guide_mistakes import DEPRECATED
from deploy.linter import check
from deploy.linter.pbtxt import Unreadable, read, write
from deploy.linter.words import pasted
from tests.unit.pasted import ALL

VERSIONS = ("0.11.0", "0.16.0", "0.18.2", "1.0.0", "1.1.0", "1.2.1")
SCRIPTS = {
    "trtllm-build": "trtllm-build --checkpoint_dir c",
    "convert_checkpoint.py": "python3 convert_checkpoint.py",
    "quantize.py": "python3 quantize.py",
}
ALONE_ONLY = (
    *("--multiple_profiles", "--opt_num_tokens", "--gather_context_logits", "--gather_all_token_logits"),
    *("--max_draft_len", "--model_cls_file", "--model_cls_name", "--streamingllm", "--speculative_decoding_mode"),
    *("--tp_size", "--moe_tp_size", "--moe_ep_size", "--max_input_len", "--max_seq_len", "--max_decoder_seq_len"),
    *("--checkpoint_dir", "--model_config"),
)
"""Flags that are valid alone and may contradict other flags; another test covers contradictions."""
NUMBERS = {"int": st.integers(1, 2**40).map(str), "float": st.floats(0, 1).map(str)}
PATHS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1).filter(
    lambda text: not text.startswith(("-", "#")) and "gpt" not in text.lower()
)
WORDS = st.sampled_from(sorted({word for case in ALL.values() for word in case.text.split()}))
PUNCTUATION = st.sampled_from(
    ["\\\n", "\n", "'", '"', "#", "{", "}", "[", "]", ":", ",", "|", ">", "$", "=", "--", " "]
)


def tables(trtllm: str) -> list[FlagTable]:
    """The three programs of a version."""
    return [build_flags(trtllm), convert_flags(trtllm, "llama"), quantize_flags(trtllm)]


@st.composite
def right_commands(draw: st.DrawFn) -> tuple[str, str]:
    """A command of certain flags with accepted values, in either form; and a version."""
    trtllm = draw(st.sampled_from(VERSIONS))
    table = draw(st.sampled_from(tables(trtllm)))
    usual = sorted(set(table.certain) - set(ALONE_ONLY) - {name for _, name in DEPRECATED})
    words = []
    for name in draw(st.lists(st.sampled_from(usual), unique=True, max_size=8)):
        flag = table.certain[name]
        values = st.sampled_from(flag.choices) if flag.choices else NUMBERS.get(flag.type, PATHS)
        value = "" if flag.is_switch else shlex.quote(draw(values))
        glue = draw(st.sampled_from([" ", "=", " \\\n  "]))
        words.append(name if flag.is_switch else f"{name}{glue}{value}")
    return draw(st.sampled_from([" ", " \\\n"])).join([SCRIPTS[table.program], *words]), trtllm


@given(right_commands())
def test_a_command_of_right_flags_has_no_findings(command: tuple[str, str]) -> None:
    """The findings are empty, notes included."""
    text, trtllm = command
    assert [finding for checked in check(text, trtllm).checked for finding in checked.findings] == []


@given(right_commands())
def test_a_right_command_is_printed_as_it_was(command: tuple[str, str]) -> None:
    """The words are the same; shlex does not handle continuations."""
    text, trtllm = command
    right = check(text, trtllm).checked[0].right_text
    assert shlex.split(right.replace("\\\n", " ")) == shlex.split(text.replace("\\\n", " "))


VARIABLES = st.sampled_from(["$X", "${X}", '"$X"', "${X:-8}", "$(cat flags)", "`nproc`", "$@", '"${ARGS[@]}"'])


@given(right_commands(), VARIABLES, st.integers(0, 40))
def test_a_variable_anywhere_never_makes_a_right_command_wrong(
    command: tuple[str, str], variable: str, place: int
) -> None:
    """A variable may hold any flag and any value; a note says that its content is unknown."""
    text, trtllm = command
    words = shlex.split(text.replace("\\\n", " "))
    start = text.split().index("--checkpoint_dir") if "--checkpoint_dir" in text.split()[:2] else 2
    at = start + place % max(len(words) - start + 1, 1)
    for changed in ([*words[:at], None, *words[at:]], [*words[:at], None, *words[at + 1 :]]):
        report = check(" ".join(variable if word is None else shlex.quote(word) for word in changed), trtllm)
        kinds = [(finding.kind, finding.is_wrong) for part in report.checked for finding in part.findings]
        assert kinds == [("unseen-variable", False)]


@given(
    right_commands(),
    st.lists(
        st.sampled_from(
            [
                *("--max_batchsize 4", "--max_batch_size -4", "--use_custom_all_reduce enable", "--max_seq_len many"),
                *("--max_input_len 9000 --max_seq_len 10", "--gemm_plugin float8", "--max_output_len 5", "--world 2"),
                *("stray", "--workers", "--tp_size 0", "--dtype fp16", "--qformat awq", "--opt_num_tokens -1"),
            ]
        ),
        unique=True,
        max_size=5,
    ),
)
def test_the_correction_of_a_wrong_command_is_judged_right(command: tuple[str, str], wrong: list[str]) -> None:
    """The offered command corrects all mistakes of any combination at once."""
    text, trtllm = command
    first = check(" ".join([text, *wrong]), trtllm).checked[0]
    again = check(first.right_text, trtllm)
    assert [finding.problem for part in again.checked for finding in part.findings if finding.is_wrong] == []


@given(st.text())
def test_no_text_crashes_the_linter(text: str) -> None:
    assert str(check(text))


@given(st.lists(st.one_of(WORDS, PUNCTUATION, st.text(max_size=3)), max_size=40).map(" ".join))
def test_no_mangled_command_crashes_the_linter(text: str) -> None:
    """Words of real commands in any order, with quotes and braces in between."""
    report = check(text)
    assert str(report) and report.to_json()["is_fine"] == report.is_fine


@given(st.sampled_from(sorted(ALL)), st.integers(0, 2000))
def test_no_cut_off_command_crashes_the_linter(name: str, length: int) -> None:
    """The paste ends in the middle."""
    assert str(check(ALL[name].text[:length]))


@given(
    st.sampled_from(
        [
            "docker login nvcr.io -u me -p {}",
            "docker login --password={} nvcr.io",
            "docker run -e HF_TOKEN={} -e NGC_API_KEY={} image tritonserver",
            "docker build --build-arg HF_TOKEN={} .",
            "huggingface-cli download org/model --token {}",
            "HF_TOKEN={} hf download org/model",
            "some-program --password={}",
        ]
    ),
    st.from_regex(r"[A-Za-z0-9]{12,40}", fullmatch=True),
)
def test_no_secret_is_ever_shown(text: str, secret: str) -> None:
    """Text and JSON of a report do not contain the secret."""
    report = check(text.replace("{}", secret))
    assert secret not in str(report) + str(report.to_json())


@given(st.text())
def test_reading_a_configuration_ends_in_fields_or_in_a_line(text: str) -> None:
    """Any text is parsed, or refused with the line of the fault."""
    try:
        read(text)
    except Unreadable as error:
        assert error.line >= 1


@given(st.lists(st.sampled_from(["a", "-b", "--c=d", "'e f'", '"g"', "h#i", "${J}", "<k>"]), min_size=1))
def test_words_are_cut_as_a_shell_cuts_them(words: list[str]) -> None:
    """The result equals shlex's, for words without operators."""
    assert [word.text for word in pasted(" ".join(words))[0].commands[0]] == shlex.split(" ".join(words))


@pytest.mark.parametrize("name", [name for name, case in ALL.items() if case.text.startswith("name:")])
def test_a_configuration_written_again_says_the_same(name: str) -> None:
    """Fields are compared one by one."""
    try:
        once = write(read(ALL[name].text))
    except Unreadable:
        return
    assert write(read(once)) == once
