"""grouped_mm_array: problems with sizes and places of their own, on the model of the SM."""

import ml_dtypes
import numpy as np
import pytest
import warpipe

BF16 = ml_dtypes.bfloat16
SIZES = [(5, 16, 40), (0, 8, 64), (70, 72, 136), (1, 8, 1), (9, 0, 0), (3, 24, 13)]


def values(rng, count):
    """-1, 0 and 1: sums of them are exact."""
    return rng.integers(-1, 2, count).astype(BF16)


def part(memory, problem, operand, rows, columns):
    """Rows of a problem's operand: 0, 1 or 2 for A, B or the result."""
    first, pitch = int(problem[3 + operand]), int(problem[6 + operand])
    return np.stack([memory[first + i * pitch :][:columns] for i in range(rows)])


def check(a, b, problems, out):
    for problem in problems:
        m, n, k = map(int, problem[:3])
        if m * n > 0:
            right = part(a, problem, 0, m, k).astype(float) @ part(b, problem, 1, n, k).astype(float).T
            assert (part(out, problem, 2, m, n).astype(float) == right).all(), problem


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_problems_of_different_sizes(rng, dtype):
    problems, (of_a, of_b, of_out) = warpipe.packed_problems(SIZES)
    a, b = values(rng, of_a), values(rng, of_b)
    result = warpipe.grouped_mm_array(a, b, problems.astype(dtype), output_size=of_out)
    assert (result.dtype, result.shape) == (BF16, (of_out,))
    check(a, b, problems, result)
    # The kernel for large problems computes the same.
    large = warpipe.grouped_mm_array(a, b, problems, output_size=of_out, expected=(4096, 4096, 64))
    check(a, b, problems, large)


def test_a_table_for_problems_one_behind_the_other():
    problems, elements = warpipe.packed_problems([(5, 16, 40), (3, 8, 13)])
    assert problems.dtype == np.int64 and elements == (5 * 40 + 3 * 16, 16 * 40 + 8 * 16, 5 * 16 + 3 * 8)
    assert problems.tolist() == [[5, 16, 40, 0, 0, 0, 40, 40, 16], [3, 8, 13, 200, 640, 80, 16, 16, 8]]
    assert warpipe.packed_problems([])[0].shape == (0, 9)
    for size, words in [((5, 12, 8), "N = 12"), ((5, 8, 0), "K = 0"), ((-1, 8, 8), "M = -1")]:
        with pytest.raises(ValueError, match=f"problem 1 has .*{words}"):
            warpipe.packed_problems([(1, 8, 8), size])


def test_a_shared_a_and_a_result_with_gaps(rng):
    a, b = values(rng, (7, 64)), values(rng, (3, 24, 64))
    # The experts' results stand side by side.
    problems = np.array([(7, 24, 64, 0, i * 24 * 64, i * 24, 64, 64, 80) for i in range(3)])
    out = np.full((7, 80), 5, BF16)
    assert warpipe.grouped_mm_array(a, b, problems, out=out) is out
    right = np.concatenate([a.astype(float) @ of.astype(float).T for of in b], 1)
    assert (out[:, :72].astype(float) == right).all() and (out[:, 72:] == 5).all()


def test_the_device_skips_a_bad_problem_and_says_which(rng):
    problems, (of_a, of_b, of_out) = warpipe.packed_problems([(5, 16, 40), (9, 24, 64), (3, 8, 16)])
    a, b, info = values(rng, of_a), values(rng, of_b), np.full(1, 77, np.int32)
    out = warpipe.grouped_mm_array(a, b, problems, output_size=of_out, info=info)
    check(a, b, problems, out)
    assert info == 0
    for line, word, value in [(1, 3, -8), (1, 2, 0), (2, 0, 1 << 40), (0, 6, 4)]:
        wrong, out = problems.copy(), np.full(of_out, 5, BF16)
        wrong[line, word] = value
        assert warpipe.grouped_mm_array(a, b, wrong, out=out, info=info) is out
        assert info == 1 + line
        check(a, b, np.delete(problems, line, 0), out)
        m, n, _ = size = problems[line, :3]
        assert (part(out, problems[line], 2, m, n) == 5).all(), size


def test_refusals(rng):
    problems, (of_a, of_b, of_out) = warpipe.packed_problems([(5, 16, 40)])
    a, b, out = values(rng, of_a), values(rng, of_b), np.zeros(of_out, BF16)
    info = np.zeros(1, np.int32)

    def refused(error, match, **changed):
        arguments = {"a": a, "b": b, "problems": problems, "out": out, **changed}
        with pytest.raises(error, match=match) as caught:
            warpipe.grouped_mm_array(**arguments)
        assert "\n" not in str(caught.value)

    refused(TypeError, "b has elements of type float16; bfloat16 is right", b=b.astype(np.float16))
    refused(TypeError, "problems has elements of type int32; int64 or uint64 is right", problems=problems.astype(np.int32))
    refused(TypeError, "info has elements of type int64; int32 is right", info=info.astype(np.int64))
    refused(ValueError, r"problems \[1, 8\]: \[problems, 9\] is right", problems=problems[:, :8].copy())
    refused(ValueError, r"problems \[9\]: \[problems, 9\] is right", problems=problems[0])
    refused(ValueError, r"a \[100\] with strides \[2\]: .* there must be no gaps", a=a[::2])
    refused(ValueError, r"info \[2\]: one value is right", info=np.zeros(2, np.int32))
    refused(ValueError, "expected is .*; .M, N, K. of a typical problem is right", expected=(5, 16))
    refused(ValueError, "expected is .*; .M, N, K. of a typical problem is right", expected=(5, -16, 8))
    refused(ValueError, "pointer arrays of 0 problems: from 1 to 1048576 are right", problems=problems[:0])
    refused(ValueError, "neither out nor output_size is given", out=None)
    refused(ValueError, "both out and output_size are given", output_size=80)
    refused(ValueError, "out occupies bytes .* which overlap a", out=a)
    refused(ValueError, "info is in the memory of b; memory of its own is right", info=b[:2].view(np.int32))
    out.flags.writeable = False
    refused(ValueError, "out is read-only")
    info.flags.writeable = False
    refused(ValueError, "info is read-only", out=np.zeros(of_out, BF16), info=info)
