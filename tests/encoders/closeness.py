"""The distance of two sets of vectors, and its limits: cosine alone is too weak if all vectors are similar.

With random weights all documents lie close together, so an error common to all documents hides in a high cosine. The
same measure after removing the corpus mean shows it, as does the largest difference of any value.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Distance:
    """The worst values over the rows of two matrices."""

    cosine: float
    """1 - cosine."""
    centred: float
    """1 - cosine after both had the mean of the wanted rows taken away."""
    absolute: float

    def within(self, gate: float) -> bool:
        """Returns True if both cosine distances are at most `gate`, and values differ by at most the root of `gate`."""
        return self.cosine <= gate and self.centred <= gate and self.absolute <= gate**0.5


def distance(got: np.ndarray, wanted: np.ndarray) -> Distance:
    """Returns the worst distances between rows of `got` and of `wanted`, in double precision."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    middle = wanted.mean(axis=0)
    return Distance(_worst(got, wanted), _worst(got - middle, wanted - middle), float(np.abs(got - wanted).max()))


def _worst(a: np.ndarray, b: np.ndarray) -> float:
    cosines = (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return float((1 - cosines).max())
