"""What a sentence-transformers checkpoint adds to the network: pooling, longest text, and the steps after.

Read from 1_Pooling/config.json, sentence_bert_config.json and modules.json where they exist; without them mean pooling
over 512 tokens, the usual case. A step that is not served (a dense projection, say) is refused: leaving it out
would give vectors of the right shape and the wrong meaning.
"""

from pathlib import Path

from .checkpoint import read_json
from .errors import CheckpointError

USUAL_TOKENS = 512
STEPS = ("Transformer", "Pooling", "Normalize")
PREFIX = "pooling_mode_"
SWITCHES = {"cls_token": "cls", "mean_tokens": "mean"}


def pooling_mode(directory: Path) -> str:
    """`mean` or `cls`, as the checkpoint was trained; mean where it does not say.

    Raises: CheckpointError for another pooling, or a step that is not served.
    """
    if (directory / "modules.json").is_file():
        steps = [module["type"].rsplit(".", 1)[-1] for module in read_json(directory, "modules.json")]
        if other := [step for step in steps if step not in STEPS]:
            raise CheckpointError(f"{directory}/modules.json: step {other[0]} is not served; only {', '.join(STEPS)}")
    path = directory / "1_Pooling" / "config.json"
    if not path.is_file():
        return "mean"
    config = read_json(path.parent, path.name)
    on = [key.removeprefix(PREFIX) for key, value in config.items() if key.startswith(PREFIX) and value is True]
    modes = [SWITCHES.get(key, key) for key in on] or [config.get("pooling_mode", "none")]
    if modes not in (["mean"], ["cls"]):
        raise CheckpointError(f"{path}: pooling is {' + '.join(map(str, modes))}; only mean or cls is served")
    if config.get("include_prompt", True) is False:
        raise CheckpointError(f"{path}: include_prompt is false; only pooling with the prefix is served")
    return str(modes[0])


def token_limit(directory: Path, asked: int, capacity: int) -> int:
    """Longest sequence in tokens: `asked`, or for 0 the checkpoint's own or 512; never above `capacity`.

    Raises: CheckpointError where more is asked than the checkpoint has positions for.
    """
    if asked > capacity:
        raise CheckpointError(f"config.pbtxt: max_tokens is {asked}; {directory} has positions for {capacity}")
    if asked:
        return asked
    path = directory / "sentence_bert_config.json"
    own = read_json(directory, path.name).get("max_seq_length") if path.is_file() else None
    return min(own or USUAL_TOKENS, capacity)
