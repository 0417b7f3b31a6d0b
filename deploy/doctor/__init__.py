"""Diagnoses a host: its readings and its plan in; findings with remedies, and a verdict, out. Pure.

roles/doctor asks; `readings` parses; `gpu`, `xids`, `system`, `units` and `ours` judge; `catalogue` says what each
finding means; `report` groups the findings of all hosts. Nothing here raises, whatever a host prints.
"""
