"""What pytest collects."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent

# Triton comes with torch builds for GPUs alone; without it these modules cannot be searched for examples. They are
# named here, because an option that forgives every failing import would forgive broken tests, too.
NEED_TRITON = (
    *HERE.glob("pspns/gpu_kernels/*.py"),
    HERE / "pspns/models/_dense_layers.py",
    HERE / "pspns/models/_gathered_layers.py",
    HERE / "pspns/training/gpu_step.py",
)
collect_ignore = [] if importlib.util.find_spec("triton") else [str(path) for path in NEED_TRITON]
