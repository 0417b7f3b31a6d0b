"""Judges a JSON file: guides write an `executor_config`, which no server reads."""

import json

from deploy.linter.config_files import json_of
from deploy.linter.findings import Judged


def judge_json(text: str, known: tuple[str, ...]) -> Judged:
    """Findings about the file; `known` lists the kinds of text that the linter can read."""
    judged = Judged()
    content = json_of(text)
    if content is None:
        judged.add(
            "unreadable",
            "the text begins like JSON and is not valid JSON",
            seen=text.strip().split("\n")[0][:60],
            wanted=f"JSON, or one of: {', '.join(known)}",
            attempt="mend it and check again",
        )
        return judged
    if isinstance(content, dict) and "executor_config" in content:
        judged.add(
            "read-by-nobody",
            "no shipped server reads a JSON `executor_config`",
            seen="executor_config",
            wanted="keys of model.yaml of the llmapi model, or of trtllm-serve --config: YAML, without that level",
            attempt="the same keys in model.yaml",
        )
        inner = content["executor_config"]
        judged.right = _yaml(inner) if isinstance(inner, dict) else []
        return judged
    judged.know(
        "unknown-file",
        "enginehouse check has no rules for JSON with these keys",
        seen=", ".join(sorted(content)[:5]) if isinstance(content, dict) else "JSON",
        wanted=f"one of: {', '.join(known)}",
        attempt="paste a command, or a config.pbtxt",
    )
    return judged


def _yaml(values: dict[str, object], indent: str = "", depth: int = 0) -> list[str]:
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, dict) and depth < 5:
            lines += [f"{indent}{key}:", *_yaml(value, indent + "  ", depth + 1)]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}")
    return lines
