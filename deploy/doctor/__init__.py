"""Diagnoses a host: its readings and its plan in; findings with remedies, and a verdict, out. Pure.

roles/doctor asks; `readings` parses; `gpu`, `xids`, `system`, `units` and `ours` judge; `catalogue` explains each
finding; `report` groups the findings of all hosts. No output of a host makes a function here raise.
"""
