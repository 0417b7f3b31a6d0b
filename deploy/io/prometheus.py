"""Counters of a window from a Prometheus: instant queries over HTTP, one for each kind of figure."""

import http.client
import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

from deploy.cost.share import Counted, Window
from deploy.io.deadline import within
from deploy.refusals import refuse

ANSWER_SECONDS = 30
MOST_BYTES = 64 * 2**20
"""Bytes of an answer; a series has some 200."""
SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
TOKENS = "sum by (instance, model, kind) (increase(enginehouse_gateway_tokens_total[{window}]))"
ENCODED = "sum by (instance, model) (increase(enginehouse_encoder_{what}_total[{window}]))"
WORKED = "avg by (instance, gpu) (avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[{window}]))"
OF_TOKENS = {"prompt": "prompt_tokens", "completion": "completion_tokens", "cached": "cached_tokens"}
OF_ENCODERS = {"tokens": "prompt_tokens", "documents": "documents", "pass_seconds": "device_seconds"}

Row = tuple[dict[str, str], float]
Ask = Callable[[str], list[Row]]


def seconds_of(window: str) -> int:
    """Seconds of `30d`, `12h`, `2w` or `90m`. Raises: a Refusal for any other text."""
    match = re.fullmatch(r"([1-9][0-9]*)([mhdw])", window)
    if not match:
        raise refuse(
            "no-window",
            f"{window} is not a duration",
            where="--window",
            seen=window,
            wanted="a whole number and m, h, d or w",
            attempt="--window 30d",
        )
    return int(match[1]) * SECONDS[match[2]]


def window_of(ask: Ask, window: str) -> Window:
    """The growth of the counters in the window that ends now. Label `instance`: HOST, or HOST/SERVER of a Triton."""
    seconds = seconds_of(window)
    sums: dict[tuple[str, str], dict[str, float]] = {}
    for host, model, field, value in _counted(ask, window):
        row = sums.setdefault((host, model), {})
        row[field] = row.get(field, 0.0) + value
    worked = {
        (_host(labels), int(gpu)): share * seconds
        for labels, share in ask(WORKED.format(window=window))
        if (gpu := labels.get("gpu", "0")).isascii() and gpu.isdecimal() and len(gpu) < 6
    }
    return Window(seconds=seconds, counted={key: Counted(**row) for key, row in sums.items()}, worked=worked)


def _counted(ask: Ask, window: str) -> Iterator[tuple[str, str, str, float]]:
    """Host, model, field of Counted, value. Encoders count their tokens themselves; a gateway's count is not added."""
    encoders = set()
    for what, field in OF_ENCODERS.items():
        for labels, value in ask(ENCODED.format(what=what, window=window)):
            encoders.add(labels.get("model", ""))
            yield _host(labels), labels.get("model", ""), field, value
    for labels, value in ask(TOKENS.format(window=window)):
        model, kind = labels.get("model", ""), labels.get("kind", "")
        if kind in OF_TOKENS and model not in encoders:
            yield _host(labels), model, OF_TOKENS[kind], value


def _host(labels: dict[str, str]) -> str:
    return labels.get("instance", "").split("/")[0]


def asker(url: str) -> Ask:
    """A function that asks the Prometheus at `url` one query; it raises a Refusal if there is no answer."""

    if not re.match(r"https?://", url):
        raise refuse(
            "no-prometheus",
            f"{url} is not the URL of a Prometheus",
            where="--from-prometheus",
            seen=url,
            wanted="http:// or https://, and its host and port",
            attempt=f"--from-prometheus http://{url.rpartition('://')[2]}",
        )

    def ask(query: str) -> list[Row]:
        """Labels and value of each series in the query's result; series without a number are left out."""
        address = f"{url.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            return rows_of(within(2 * ANSWER_SECONDS, lambda: _content(address)))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise refuse(
                "no-prometheus",
                f"{url} did not answer a query",
                where="--from-prometheus",
                seen=f"{type(error).__name__}: {error}",
                wanted="the address of a Prometheus that scrapes this fleet",
                attempt=f"curl -s {url.rstrip('/')}/api/v1/status/runtimeinfo",
            ) from None

    return ask


def _content(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as answer:
        return bytes(answer.read(MOST_BYTES + 1))


def rows_of(answer: bytes | str) -> list[Row]:
    """Labels and value of each series in an answer; series without a number are left out.

    Raises: ValueError for an answer of another form, or one that is too long.
    """
    if len(answer) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    try:
        series = json.loads(answer)["data"]["result"]
        rows = [(dict(row["metric"]), float(row["value"][1])) for row in series]
    except (LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    if not all(isinstance(word, str) for labels, _ in rows for pair in labels.items() for word in pair):
        raise ValueError("a label that is not a text")
    return [(labels, value) for labels, value in rows if math.isfinite(value)]
