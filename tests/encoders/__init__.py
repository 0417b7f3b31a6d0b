"""Tests of the encoder backends; the helpers they share are modules of this package."""
