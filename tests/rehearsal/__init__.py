"""Tests on whole machines: the machines, the stand-ins, and the real deploy from bare to rolled back."""
