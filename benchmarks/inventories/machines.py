"""The machines on which `benchmarks/converge.py` runs 29 operations. CONVERGE_MACHINES names them."""

import os as _os
from pathlib import Path as _Path

_number = int(_os.environ.get("ENGINEHOUSE_REHEARSAL_NUMBER", "0"))
_state = _Path(".rehearsal") if _number == 0 else _Path(f".rehearsal/number-{_number}")
_data = {"ssh_config_file": str(_state / "ssh_config"), "_sudo": True}

machines = [(name, _data) for name in _os.environ.get("CONVERGE_MACHINES", "").split()]
