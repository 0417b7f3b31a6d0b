"""Tests on whole machines: the machines, what is stood in for, and the real deploy from bare to rolled back."""
