"""The type by which a request names an adapter (rehearsal stand-in)."""

from dataclasses import dataclass


@dataclass
class LoRARequest:
    """The adapter's name, its number and its folder."""

    lora_name: str
    lora_int_id: int
    lora_path: str = ""
    lora_ckpt_source: str = "hf"
