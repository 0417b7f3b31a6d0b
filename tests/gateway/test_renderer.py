"""Templates of a hostile checkpoint: a separate process confines damage beyond Jinja's sandbox."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import gateway.prompts
import gateway.renderer
import gateway.templates
from gateway.control_tokens import MARKS
from gateway.renderer import HERE_CHARACTERS, HERE_TURNS, MOST_BYTES, SHORT_BYTES, TOO_MUCH, Renderer
from gateway.templates import Template, TemplateError
from tests.gateway.asking import becomes, in_loop, running_gateway
from tests.gateway.weights import TEMPLATE

DOUBTFUL = "{% macro unused() %}{% endmacro %}" + TEMPLATE
SECONDS = 0.1
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": True}
RENDERED = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
SILENT_LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        SILENT_LOOP,
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% set n = namespace(x='x') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{{ '{:3000000000}'.format(messages | length) | length }}",
        "{{ range(99999) | map('center', 99999) | list | length }}",
    ],
)
def test_a_template_that_works_without_an_end_is_ended(source: str) -> None:
    with pytest.raises(TemplateError, match=TOO_MUCH):
        asyncio.run(Renderer(source, {}, SECONDS).render(HELLO))


@pytest.mark.parametrize(
    "source", ["{{ '%600000000d' | format(1) | length }}", "{{" + "(" * 5000 + "1" + ")" * 5000 + "}}"]
)
def test_a_template_whose_compilation_exceeds_its_bounds_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"the chat template: (the process exceeded its bounds|the template.s output)"):
        Renderer(source, {}, SECONDS / 5)


def test_a_template_that_writes_too_much_is_ended_as_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.templates, "MOST_CHARACTERS", 100)
    with pytest.raises(TemplateError, match=TOO_MUCH):
        Template("{% for number in range(50) %}abc{% endfor %}", {}).render(HELLO)


def test_a_templates_process_holds_no_secret_and_may_open_and_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a template breaks out of the sandbox, these limits and the filter of `confinement` remain."""
    monkeypatch.setenv("SECRET", "s3cret")
    renderer = Renderer(DOUBTFUL, {})
    process = Path(f"/proc/{renderer._short._worker._process.pid}")
    assert b"s3cret" not in (process / "environ").read_bytes()
    limits = (process / "limits").read_text()
    highest = {"open files": 3, "processes": 0, "file size": 0, "address space": MOST_BYTES, "core file size": 0}
    for what, most in highest.items():
        assert re.search(rf"Max {what} +{most} +{most} ", limits), what
    status = (process / "status").read_text()
    assert re.search(r"NoNewPrivs:\s+1\n", status)
    assert re.search(r"Seccomp:\s+2\n", status)


def test_a_template_is_never_compiled_in_an_unconfined_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    unconfined = "import gateway.confinement as c, gateway.renderer as r; c.LIBRARY = 'none.so'; r.serve(r.load)"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{unconfined}"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ValueError, match=r"this host cannot remove a process.s rights .*: none\.so"):
        Renderer(TEMPLATE, {})


@in_loop
async def test_a_confined_template_still_has_everything_of_jinja() -> None:
    """Modules that Jinja imports late are loaded already, because the process can open no file."""
    source = (
        "{% macro m() %}{% endmacro %}{{ 'a b' | wordwrap(1) }} {{ [1] | pprint }} {{ lipsum(1) | length > 9 }}"
        " {{ '\\N{CAT FACE}' }} {{ strftime_now('%Y') | length }} {{ [3] | random }} "
        "{{ '&lt;ÄSS' | striptags | lower | title }}"
    )
    assert await Renderer(source, {}).render({}) == "a\nb [1] True 🐱 4 3 <Äss"


@in_loop
async def test_the_message_after_an_oversized_message_is_rendered() -> None:
    source = "{% if messages[0].content == 'x' %}" + SILENT_LOOP + "{% endif %}" + TEMPLATE
    renderer = Renderer(source, {}, SECONDS)
    hostile = renderer.render({"messages": [{"role": "user", "content": "x"}]})
    with pytest.raises(TemplateError):
        await hostile
    assert await renderer.render(HELLO) == RENDERED


@in_loop
async def test_a_process_that_dies_of_something_else_is_replaced() -> None:
    renderer = Renderer(DOUBTFUL, {})
    renderer._short._worker._process.kill()
    assert await renderer.render(HELLO) == RENDERED


@in_loop
async def test_the_text_of_a_disconnected_client_reaches_no_other_client() -> None:
    renderer = Renderer(DOUBTFUL, {})
    left = asyncio.ensure_future(renderer.render({"messages": [{"role": "user", "content": "secret"}]}))
    await asyncio.sleep(0)
    left.cancel()
    assert await renderer.render(HELLO) == RENDERED


@in_loop
async def test_long_messages_and_marks_arrive_whole() -> None:
    text = "".join(MARKS) + "猫😀\x00" * SHORT_BYTES
    renderer = Renderer("{{ messages[0].content }}", {})
    assert renderer._here is not None
    assert await renderer.render({"messages": [{"role": "user", "content": text}]}) == text


class Elsewhere(Template):
    """A template that must not be rendered in this process."""

    def render(self, variables: Any) -> str:
        raise AssertionError("rendered here")


@pytest.mark.parametrize(
    "doubtful",
    [
        "{% macro m() %}{% endmacro %}",
        "{% for message in messages recursive %}{% endfor %}",
        "{% for i in range(3) %}{% endfor %}",
        "{{ 'a' * 3 }}",
        "{{ 2 ** 3 }}",
        "{{ '%9s' % 'a' }}",
        "{{ 'a' | center(9) }}",
        "{{ 'a'.join(['b']) }}",
        "{{ 'a'.replace('a', 'aa') }}",
        "{{ '{:9}'.format(1) }}",
        "{{ messages | tojson(indent=99) }}",
        "{{ strftime_now('%9Y') }}",
        "{{ messages.__class__ }}",
        "{{ messages['__class__'] }}",
        "{{ messages.index }}",
        "{{ messages[messages] }}",
        "{{ lipsum }}",
        "{{ self }}",
        "{{ loop }}",
        "{% set n = namespace(x='x') %}{% for m in messages %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x='x') %}{% for m in messages %}{% set n.x = [n.x, n.x] %}{% endfor %}",
        "{% set n = namespace(x='x') %}{% if true %}{% set y = 1 %}{% endif %}{% set n.x = n.x + y %}",
        "{% set x = 'x' %}" + "{% set x = x ~ x %}" * 7,
        "{% for m in messages %}" + "{{ m | tojson }}" * 13 + "{% endfor %}",
        "{% if true %}" * 50 + "{% endif %}" * 50,
        "{{ 1 }}" * 1600,
        "{% set range = 1 %}",
        "{% set _x = 1 %}",
        "{% filter upper %}{% endfilter %}",
        "{% set x %}a{% endset %}",
        "{% block b %}{% endblock %}",
        "{% call messages() %}{% endcall %}",
    ],
)
def test_a_template_with_anything_doubtful_is_not_harmless(doubtful: str) -> None:
    assert Template(TEMPLATE, {}).is_harmless
    assert not Template(doubtful + TEMPLATE, {}).is_harmless


@in_loop
async def test_a_doubtful_template_is_rendered_in_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.renderer, "Template", Elsewhere)
    assert await Renderer(DOUBTFUL, {}).render(HELLO) == RENDERED
    with pytest.raises(AssertionError):
        await Renderer(TEMPLATE, {}).render(HELLO)


@pytest.mark.parametrize("value", ["x" * HERE_CHARACTERS, [0] * (HERE_TURNS + 1)])
@in_loop
async def test_long_values_and_long_loops_are_rendered_in_the_process(
    value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = Renderer("{% for each in value %}{{ each }}{% endfor %}{{ tail }}", {})
    monkeypatch.setattr(renderer._short, "answer", answers_nothing)
    monkeypatch.setattr(renderer._long, "answer", answers_nothing)
    assert await renderer.render({"value": value}) == "the process"
    assert await renderer.render({"value": "short"}) == "short"


async def answers_nothing(_message: bytes) -> bytes:
    return b"the process"


@in_loop
async def test_a_template_that_took_long_here_has_its_process_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.renderer, "HERE_SECONDS", 0.0)
    renderer = Renderer(TEMPLATE, {})
    assert await renderer.render(HELLO) == RENDERED
    monkeypatch.setattr(renderer._short, "answer", answers_nothing)
    assert await renderer.render(HELLO) == "the process"


@in_loop
async def test_an_error_of_a_template_is_the_same_in_both_processes() -> None:
    complaint = "{{ raise_exception('only ' + messages[0].role) }}"
    for source in (complaint, "{% macro m() %}{% endmacro %}" + complaint):
        with pytest.raises(TemplateError, match=r"^only user$"):
            await Renderer(source, {}).render(HELLO)


def test_a_variable_set_in_a_loop_is_reset_in_its_next_iteration() -> None:
    """A template that doubles its text for every message cannot exceed memory."""
    source = "{% set x = 'x' %}{% for m in messages %}{% set x = x ~ x %}{{ x }} {% endfor %}{{ x }}"
    template = Template(source, {}, HERE_TURNS)
    assert template.is_harmless
    assert template.render({"messages": [1, 2, 3]}) == "xx xx xx x"


@in_loop
async def test_other_requests_are_answered_while_a_template_is_rendered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.prompts, "Renderer", Renderer)
    async with running_gateway(tmp_path) as front:
        prompter = front.gateway.prompters["llama"]
        prompter.template = Renderer(SILENT_LOOP, {}, SECONDS)
        slow = asyncio.ensure_future(front.chat())
        await becomes(lambda: prompter.template._short._turn.locked())
        assert (await front.ask("/v1/models")).status == 200
        assert not slow.done()
        answer = await slow
    assert (answer.status, answer.error["param"]) == (400, "messages")
