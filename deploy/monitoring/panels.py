"""Dashboards as data, and as the JSON that Grafana imports or is provisioned with (schema 36, Grafana 9 and later).

They are not to be edited in Grafana: their description says so, and each run overwrites them. The data source is a
variable, because the operator names it. They have not been opened in a Grafana yet: Debian does not package it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal[
    "s", "reqps", "percentunit", "short", "bytes", "decmbytes", "watt", "celsius", "joule", "µs", "currencyUSD"
]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS, WIDTH, HEIGHT = 2, 12, 8
"""Panels side by side; and the size of each, in the 24 columns of Grafana's grid."""


@dataclass(frozen=True)
class Panel:
    """Lines over time, or with `kind` "stat" the last value as a number; `queries` are (expression, legend) pairs."""

    title: str
    unit: Unit
    queries: tuple[tuple[str, str], ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    text: str = ""


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard: values of a label, or without a `metric` a text that the reader types."""

    name: str
    label: str
    metric: str = ""
    default: str = ""


@dataclass(frozen=True)
class Dashboard:
    """A dashboard; its `uid` never changes, so that links and bookmarks keep working."""

    uid: str
    title: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


def to_json(dashboard: Dashboard) -> str:
    """The dashboard as Grafana reads it."""
    chosen: list[dict[str, Any]] = [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
    chosen += [_variable(variable) for variable in dashboard.variables]
    page = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["enginehouse"],
        "schemaVersion": 36,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": chosen},
        "panels": [_panel(panel, place) for place, panel in enumerate(dashboard.panels)],
    }
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"


def _variable(variable: Variable) -> dict[str, Any]:
    if not variable.metric:
        choice = {"query": variable.default, "current": {"text": variable.default, "value": variable.default}}
        return {"name": variable.name, "label": variable.label, "type": "textbox", **choice}
    query = f"label_values({variable.metric}, {variable.name})"
    how = {"refresh": 2, "multi": True, "includeAll": True, "allValue": ".+", "sort": 1}
    variable_json = {"name": variable.name, "label": variable.label, "type": "query", "datasource": SOURCE}
    return variable_json | {"query": {"query": query, "refId": variable.name}, "definition": query, **how}


def _panel(panel: Panel, place: int) -> dict[str, Any]:
    row, column = divmod(place, COLUMNS)
    return {
        "id": place + 1,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
            for number, (expression, legend) in enumerate(panel.queries)
        ],
    }
