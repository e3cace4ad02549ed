"""Makes the package importable from the source tree, with its stubs up to date."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

# Threads beyond the free cores make small models slow, not fast.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_PYTHON = Path(__file__).absolute().parents[1]
for path in (_PYTHON.parent, _PYTHON):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))

subprocess.run([sys.executable, str(_PYTHON / "generate_protos.py")], check=True)

# torch's own, about modules of torch's own.
warnings.filterwarnings("ignore", module=r"torch\..*")
