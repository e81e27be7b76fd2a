"""Writes rounded.txt: pip install ml_dtypes==0.6.0 && python3 rounded.py > rounded.txt"""
import ml_dtypes
import numpy

TYPES = [(ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344)]


def inputs():
    """Every value, every tie between two neighbours, and the floats beside them; the ends; random numbers."""
    yield numpy.array([0, 1e-45, 1e-38, 3.4e38, numpy.inf], numpy.float32)
    for dtype, most in TYPES:
        every = numpy.arange(128, dtype=numpy.uint8).view(dtype).astype(numpy.float32)
        every = every[numpy.isfinite(every)]
        ties = (every[1:] + every[:-1]) / 2
        # Beyond the largest number: the tie to where the next would be, and on.
        ties = numpy.append(ties, [most * 17 / 16, most * 1.5]).astype(numpy.float32)
        for beside in (-numpy.inf, numpy.inf):
            yield numpy.nextafter(ties, numpy.float32(beside))
        yield every
        yield ties
    random = numpy.random.default_rng(2026).integers(0, 0x7F800000, 400, numpy.uint32)
    yield random.view(numpy.float32)
    yield (2.0 ** numpy.random.default_rng(1).uniform(-20, 18, 400)).astype(numpy.float32)


def rounded(x, dtype, most):
    """To nearest even; what is beyond the range becomes the largest number."""
    return numpy.clip(x, -most, most).astype(dtype).view(numpy.uint8)


magnitudes = numpy.unique(numpy.concatenate(list(inputs())).view(numpy.uint32))
bits = numpy.concatenate([magnitudes, magnitudes | 0x80000000])
print(f"# rounded.py wrote this with ml_dtypes {ml_dtypes.__version__}. Bits of an f32, of its e4m3 and of its e5m2.")
for x, a, b in zip(bits, *(rounded(bits.view(numpy.float32), *t) for t in TYPES)):
    print(f"{x:08x} {a:02x} {b:02x}")
