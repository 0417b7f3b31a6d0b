"""Writes xgrammar's view of a tokenizer: the keys of the real file, read from tokenizer.json (rehearsal stand-in)."""

import argparse
import json
from pathlib import Path

from tokenizers import Tokenizer


def main():
    """Writes xgrammar_tokenizer_info.json to the output directory."""
    parser = argparse.ArgumentParser(description="rehearsal stand-in")
    parser.add_argument("--model_dir", type=Path, required=True)
    parser.add_argument("--output_dir", type=Path, required=True)
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.model_dir / "tokenizer.json"))
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    stop_tokens = json.loads((options.model_dir / "config.json").read_text()).get("eos_token_id", [])
    info = {
        "encoded_vocab": [word for word, _ in words],
        "tokenizer_str": tokenizer.to_str(),
        "stop_token_ids": [stop_tokens] if isinstance(stop_tokens, int) else stop_tokens,
    }
    options.output_dir.mkdir(parents=True, exist_ok=True)
    (options.output_dir / "xgrammar_tokenizer_info.json").write_text(json.dumps(info))


if __name__ == "__main__":
    main()
