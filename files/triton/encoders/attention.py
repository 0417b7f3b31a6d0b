"""The parts all three families share: padding masks, multi-head attention over padded rows, exact GELU.

Rows are padded on the right. Every use of a padded position is masked, so a row's result does not depend on the rows
beside it. Padding-free kernels are a matter of speed and belong elsewhere.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def real_tokens(lengths: Tensor, width: int) -> Tensor:
    """Boolean [rows, width]: true where a position holds a token of its row, false where it is padding."""
    return torch.arange(width, device=lengths.device)[None, :] < lengths[:, None]


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[rows, width, hidden] as [rows, heads, width, hidden / heads]."""
    rows, width, hidden = x.shape
    return x.view(rows, width, heads, hidden // heads).transpose(1, 2)


def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    """Softmax attention of [rows, heads, width, head] over the `real` keys, as [rows, width, hidden]."""
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None, :])
    return mixed.transpose(1, 2).flatten(2)


def gelu(x: Tensor) -> Tensor:
    """GELU by the error function, as all three families were trained."""
    return F.gelu(x, approximate="none")
