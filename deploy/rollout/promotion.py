"""The comparison of an LLM with its predecessor, from a swap's verdict, in lines for the operator. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any


def compared_lines(verdict: Mapping[str, Any]) -> list[str]:
    """Equal answers, speed and cost of both; the reason if there was no comparison; empty if no replay was declared."""
    compared = verdict.get("compared")
    if compared:
        try:
            return [_shares(compared), *_figures(compared, compared["before"], compared["now"])]
        except (ValueError, LookupError, TypeError, ArithmeticError):
            return ["the replay's figures cannot be read: the host says them in another form"]
    reason = verdict.get("not_compared")
    return [f"the replay compared nothing: {reason}"] if reason else []


def _shares(compared: Mapping[str, Any]) -> str:
    equal = f"{compared['equal_percent']:.1f} % of {compared['count']:,} {compared['unit']} equal"
    line = f"{compared['model']}: {equal} ({compared['equal_wanted']:.1f} % wanted)"
    if not compared["tasks"]:
        return line
    met = f"{compared['met']} of {compared['tasks']} tasks met, {compared['met_before']} before"
    return f"{line}, {met} ({compared['met_wanted']:.1f} % wanted)"


def _figures(compared: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Throughput, first token and GPU time of a load, now and before."""
    rates = now["tokens_per_second"], before["tokens_per_second"]
    change = f" ({100 * (rates[0] / rates[1] - 1):+.0f} %)" if rates[1] else ""
    yield (
        f"load: {now['streams']} streams, {now['requests']} requests: {rates[0]:,.1f} tokens a second, "
        f"{rates[1]:,.1f} before{change}"
    )
    yield (
        f"first token: {now['first_token_p50_ms']:,.1f} ms (p95 {now['first_token_p95_ms']:,.1f}), "
        f"{before['first_token_p50_ms']:,.1f} ms (p95 {before['first_token_p95_ms']:,.1f}) before"
    )
    if all(rates):
        cost, cost_before = (compared["gpus"] * 1e6 / rate for rate in rates)
        yield f"cost: {cost:,.0f} GPU seconds a million tokens, {cost_before:,.0f} before"
