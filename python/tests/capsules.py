"""Tensors that export DLPack capsules made by hand."""

import ctypes

_API = ctypes.pythonapi
_API.PyCapsule_New.restype = ctypes.py_object
_API.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Plain(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


class FakeCuda:
    """A tensor that says that it lies on a GPU. Counts the capsules that are not given back."""

    def __init__(self, shape, strides, addr=0x10000, device=0, kind=2, version=(1, 0), flags=0, offset=0, dtype=(2, 16)):
        self.shape, self.strides = shape, strides
        self.addr, self.device_id, self.kind = addr, device, kind
        self.version, self.flags, self.offset = version, flags, offset
        self.dtype = dtype  # DLPack's code and bits: float16
        self.lent = 0
        self.streams = []
        self._alive = []

    def __dlpack_device__(self):
        return (self.kind, self.device_id)

    def __dlpack__(self, *, stream=None, **later):
        if self.version is None and later:
            raise TypeError(f"unexpected arguments {sorted(later)}")
        self.streams.append(stream)
        ndim = len(self.shape)
        shape = (ctypes.c_int64 * ndim)(*self.shape)
        strides = None if self.strides is None else (ctypes.c_int64 * ndim)(*self.strides)
        pointer = ctypes.POINTER(ctypes.c_int64)
        tensor = _Tensor(
            self.addr, self.kind, self.device_id, ndim, *self.dtype, 1,
            ctypes.cast(shape, pointer), ctypes.cast(strides, pointer), self.offset,
        )  # fmt: skip

        def delete(_):
            self.lent -= 1

        deleter = _DELETER(delete)
        if self.version is None:
            managed, name = _Plain(tensor, None, deleter), b"dltensor"
        else:
            managed = _Versioned(*self.version, None, deleter, self.flags, tensor)
            name = b"dltensor_versioned"
        self.lent += 1
        self._alive.append((shape, strides, deleter, managed))
        return _API.PyCapsule_New(ctypes.addressof(managed), name, None)


class FakeHost(FakeCuda):
    """The same of an array of numpy, without numpy's own interfaces."""

    def __init__(self, array, **more):
        strides = tuple(s // array.itemsize for s in array.strides)
        super().__init__(array.shape, strides, addr=array.ctypes.data, kind=1, **more)
        self.array = array
