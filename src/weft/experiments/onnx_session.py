"""ONNX models on one thread, for timings beside compiled code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from weft.errors import MissingExtra


def onnx_session(path: Path) -> Any:
    """Open a model; `run(None, {name: array})` returns its outputs."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra("onnxruntime", "learn")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
