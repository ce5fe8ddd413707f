"""Attention on packed sequences, q, k, v (total, heads, head_dim): in NumPy, and by the splitq command line."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np


def reference(q, k, v, cu_seqlens):
    """softmax(q kᵀ / √head_dim) v of every sequence and head, in fp64."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    out = np.empty_like(v)
    for begin, end in zip(cu_seqlens, cu_seqlens[1:]):
        scores = np.einsum("ihd,jhd->hij", q[begin:end], k[begin:end]) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out[begin:end] = np.einsum("hij,jhd->ihd", weights, v[begin:end])
    return out


class CommandLine:
    """`splitq attend` on .npy files."""

    def __init__(self, binary, dtype="fp32"):
        self.binary, self.dtype = str(binary), dtype

    def __call__(self, q, k, v, cu_seqlens):
        with tempfile.TemporaryDirectory() as folder:
            def path(name):
                return str(Path(folder, name + ".npy"))

            for name, array in {"q": q, "k": k, "v": v}.items():
                np.save(path(name), array.astype(np.float32))
            np.save(path("cu_seqlens"), cu_seqlens)
            result = subprocess.run(
                [self.binary, "attend", "--dtype", self.dtype, "--q", path("q"), "--k", path("k"), "--v", path("v"),
                 "--cu-seqlens-q", path("cu_seqlens"), "--cu-seqlens-k", path("cu_seqlens"), "--out", path("out")],
                capture_output=True, text=True)
            if result.returncode != 0:
                raise RuntimeError(f"splitq attend: exit status {result.returncode}: {result.stderr.strip()}")
            return np.load(path("out")).astype(np.float64)
