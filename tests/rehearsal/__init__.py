"""Tests on whole machines: the machines themselves, what is stood in for, and the real deploy from bare to rolled back."""
