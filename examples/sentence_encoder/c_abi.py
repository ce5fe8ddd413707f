"""Attention through splitq's C interface (include/splitq/splitq.h) and ctypes: no files, no copies.

What is left at 0 or NULL is off; a library newer than these declarations takes what they lack as off too.
"""

import ctypes
from ctypes import POINTER, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p

import numpy as np

_DTYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int32): 3}
_MAX_RANK = 4


class _Sized(ctypes.Structure):
    """A struct that begins with its own size, its other members set by name."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(self), **members)


class _Tensor(_Sized):
    _fields_ = [("struct_size", c_size_t), ("data", c_void_p), ("dtype", c_int32), ("rank", c_int32),
                ("shape", c_int64 * _MAX_RANK), ("strides", c_int64 * _MAX_RANK),
                ("device_kind", c_int32), ("device_index", c_int32)]

    CPU = 1

    @classmethod
    def of(cls, array):
        return cls(data=array.ctypes.data, dtype=_DTYPES[array.dtype], rank=array.ndim, shape=array.shape,
                   strides=tuple(s // array.itemsize for s in array.strides), device_kind=cls.CPU)


class _Options(_Sized):
    _fields_ = [("struct_size", c_size_t), ("has_scale", c_int32), ("causal", c_int32), ("scale", c_double),
                ("window_left", c_int64), ("window_right", c_int64), ("softcap", c_double), ("dropout", c_double),
                ("seed", c_uint64), ("offset", c_uint64), ("deterministic", c_int32), ("reserved", c_int32),
                *((name, POINTER(_Tensor)) for name in
                  ("bias", "mask", "alibi_slopes", "sink", "cu_seqlens_q", "cu_seqlens_k", "seqlens_q", "seqlens_k",
                   "block_table"))]


class _ForwardTensors(_Sized):
    _fields_ = [("struct_size", c_size_t),
                *((name, POINTER(_Tensor)) for name in ("q", "k", "v", "out", "softmax_lse"))]


class CAbi:
    """libsplitq.so in this process."""

    def __init__(self, library, dtype=np.float32):
        self.splitq, self.dtype = ctypes.CDLL(str(library)), dtype
        self.splitq.splitq_last_error.restype = ctypes.c_char_p

    def __call__(self, q, k, v, cu_seqlens):
        arrays = {name: array.astype(self.dtype) for name, array in {"q": q, "k": k, "v": v}.items()}
        arrays["out"] = np.empty_like(arrays["v"])
        tensors = _ForwardTensors(**{name: ctypes.pointer(_Tensor.of(array)) for name, array in arrays.items()})
        lengths = ctypes.pointer(_Tensor.of(cu_seqlens))
        options = _Options(window_left=-1, window_right=-1, cu_seqlens_q=lengths, cu_seqlens_k=lengths)
        if self.splitq.splitq_forward(ctypes.byref(tensors), ctypes.byref(options), None) != 0:
            raise RuntimeError(f"splitq_forward: {self.splitq.splitq_last_error().decode()}")
        return arrays["out"].astype(np.float64)
