"""What is wrong on a host, and what to type: readings of a host and its plan in, findings out, one verdict. Pure.

roles/doctor asks; `readings` parses; `gpu`, `xids`, `system`, `units` and `ours` judge; `catalogue` says what each
finding means; `report` groups the findings of all hosts. Nothing here raises, whatever a host prints.
"""
