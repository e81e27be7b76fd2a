"""Shapes (M, N, K), the same as those of ``warpipe bench``."""

from __future__ import annotations

SUITES: dict[str, list[tuple[int, int, int]]] = {
    "square": [(n, n, n) for n in (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)],
    "llm": [
        (tokens, n, k)
        for tokens in (2048, 4096, 8192)
        for n, k in (
            (4096, 4096),
            (14336, 4096),
            (4096, 14336),
            (8192, 28672),
            (28672, 8192),
            (7168, 2048),
            (2112, 7168),
            (7168, 16384),
        )
    ],
    "decode": [
        (tokens, n, k)
        for n, k in ((4096, 4096), (14336, 4096), (7168, 18432), (8192, 8192))
        for tokens in (1, 8, 16, 32, 64, 128, 256)
    ],
    "ragged": [
        (5000, 3000, 1000),
        (1111, 2222, 3336),
        (8191, 8193, 4104),
        (65536, 256, 1024),
        (256, 65536, 1024),
        (300, 520, 7200),
        (8192, 8192, 512),
    ],
}


def parse_shape(text: str) -> tuple[int, ...]:
    """``2048x4096x4096`` or ``2048,4096,4096`` as numbers."""
    parts = text.replace(",", "x").lower().split("x")
    try:
        shape = tuple(int(part) for part in parts)
    except ValueError:
        raise ValueError(f"shape {text!r}: numbers with x between them are needed, such as 2048x2048x2048") from None
    if any(size < 1 for size in shape):
        raise ValueError(f"shape {text!r}: every size must be at least 1")
    return shape
