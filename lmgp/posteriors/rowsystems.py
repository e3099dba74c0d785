"""Thousands of small systems, each of the rows near to one row, in compiled loops: for sums and products of radial
kernels, and of periodic ones, which are radial on circles.

numba is imported with this module: what uses it imports it where it is used. All that is compiled is in this file, by
whose date numba knows whether what it keeps on disk is of today.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic, overload
from numpy.typing import NDArray

from lmgp.data import Floats, Indices
from lmgp.kernels.base import Kernel
from lmgp.kernels.derivatives import Pullback
from lmgp.kernels.stationary import VAST
from lmgp.utils.compiled import exact, indices, kept, many_indices, matrices, matrix, real, summed, vector
from lmgp.utils.lazy import Tensor, torch

# The names of `RadialPart.profile`, and their numbers in compiled code.
PROFILES = ("gaussian", "matern12", "matern32", "matern52", "rational_quadratic")
GAUSSIAN, MATERN12, MATERN32, MATERN52, RATIONAL_QUADRATIC = range(5)

# Of larger systems torch makes the covariances, in threads of its own.
MOST = 1024

# Pairs of rows that are taken at a time, in a processor's first cache; and rows of a factor, of which four at a time
# are subtracted from two below them. From this number of rows on, LAPACK takes less time.
PAIRS, PANEL, LARGE = 1024, 8, 100

# The addresses of the factorisation and of the triangular solution of scipy's LAPACK and BLAS, in double and in single
# precision.
LAPACK = np.array(
    [
        get_cython_function_address(f"scipy.linalg.cython_{library}", f"{kind}{name}")
        for kind in "ds"
        for library, name in (("lapack", "potrf"), ("blas", "trsm"))
    ],
    dtype=np.intp,
)
# What these are told: lower triangle; right side, transposed, with a diagonal.
LETTERS = np.frombuffer(b"LRTN", dtype=np.uint8)

# e^x = 2^n e^r: n is rounded by adding a number beyond which there are no fractions. That leaves n + 1023, the exponent
# of 2^n, in the last bits; in single precision n + 127. Of each precision: the number that is added, the least x, below
# which e^x is zero, log₂ e, log 2 in two parts, and the terms of the series of e^r, the last one first.
SERIES = tuple(1.0 / math.factorial(degree) for degree in reversed(range(13)))
DOUBLE: Any = 1.5 * 2.0**52 + 1023.0, -708.0, math.log2(math.e), 0.6931471803691238, 1.9082149292705877e-10, SERIES
SINGLE: Any = *map(np.float32, (1.5 * 2.0**23 + 127.0, -87.0, DOUBLE[2], 0.693359375, -2.12194440e-4)), SERIES[5:]

# Compiled functions are told np.intp(0) and np.bool_(True), not 0 and True: for each literal numba compiles them anew.
KERNEL = (indices, types.Tuple((indices, indices, many_indices, many_indices, indices, matrix, matrix, vector, vector)))
ROWS = (matrix, matrix, vector, real)


@intrinsic
def _power_of_two(typing: Any, shifted: Any) -> Any:
    """Return 2^n of n shifted as `DOUBLE` or `SINGLE` says."""
    whole, mantissa = (ir.IntType(64), 52) if shifted == types.float64 else (ir.IntType(32), 23)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        exponent = builder.shl(builder.bitcast(arguments[0], whole), ir.Constant(whole, mantissa))
        return builder.bitcast(exponent, arguments[0].type)

    return shifted(shifted), generate


def _exp(x):
    """Return e^x of x ≤ 0, in arithmetic that vectorises: to 2e-16 of it, and of single precision to 1e-7."""
    return math.exp(x)


@overload(_exp, jit_options={"fastmath": {"contract"}, "error_model": "numpy"})
def _exp_of(x):
    number = np.float64 if x == types.float64 else np.float32
    shift, least, log2_e, high, low, series = DOUBLE if x == types.float64 else SINGLE
    terms, zero = tuple(map(number, series)), number(0.0)

    def exponential(x):
        shifted = max(x, least) * log2_e + shift
        n = shifted - shift
        r = (max(x, least) - n * high) - n * low
        total = terms[0]
        for degree in range(1, len(terms)):
            total = total * r + terms[degree]
        return total * _power_of_two(shifted) if x > least else zero

    return exponential


@exact
def _evaluate(profile, alpha, variance, squares, values):
    """Write a part of the kernel at squared distances."""
    number = values.dtype.type  # what numbers are multiplied with must be of the same precision
    variance, most, one = number(variance), number(VAST), number(1.0)
    if profile == GAUSSIAN:
        for p in range(len(squares)):
            values[p] = variance * _exp(number(-0.5) * squares[p])
    elif profile == MATERN12:
        for p in range(len(squares)):
            values[p] = variance * _exp(-math.sqrt(min(squares[p], most)))
    elif profile == MATERN32:
        for p in range(len(squares)):
            r = math.sqrt(min(number(3.0) * squares[p], most))
            values[p] = variance * (one + r) * _exp(-r)
    elif profile == MATERN52:
        for p in range(len(squares)):
            r = math.sqrt(min(number(5.0) * squares[p], most))
            values[p] = variance * (one + r + r * r * number(1.0 / 3.0)) * _exp(-r)
    else:
        for p in range(len(squares)):
            values[p] = variance * math.exp(-alpha * math.log1p(squares[p] / (2.0 * alpha)))


@exact
def _slope(profile, alpha, squares, values, slopes):
    """Write −2 dk/dr² of a part of the kernel, of whose term the values are k; 0 where it has no bound."""
    if profile == GAUSSIAN:
        for p in range(len(squares)):
            slopes[p] = values[p]
    elif profile == MATERN12:
        for p in range(len(squares)):
            slopes[p] = values[p] / math.sqrt(squares[p]) if squares[p] > 0.0 else 0.0
    elif profile == MATERN32:
        for p in range(len(squares)):
            slopes[p] = 3.0 * values[p] / (1.0 + math.sqrt(min(3.0 * squares[p], VAST)))
    elif profile == MATERN52:
        for p in range(len(squares)):
            r = math.sqrt(min(5.0 * squares[p], VAST))
            slopes[p] = (5.0 / 3.0) * values[p] * (1.0 + r) / (1.0 + r + r * r * (1.0 / 3.0))
    else:
        for p in range(len(squares)):
            slopes[p] = values[p] / (1.0 + squares[p] / (2.0 * alpha))


@exact
def _difference(x, first, last, squares):
    """Write (xᵢ − xⱼ)² of i in [first, last) and all j > i."""
    start = 0
    for i in range(first, last):
        after, into, center = x[i + 1 :], squares[start : start + len(x) - i - 1], x[i]
        for j in range(len(after)):
            into[j] = (after[j] - center) * (after[j] - center)
        start += len(after)


@exact
def _differences(columns, n, first, last, squares):
    """Write the sum over a group of columns."""
    _difference(columns[0, :n], first, last, squares)
    for column in range(1, len(columns)):
        start, x = 0, columns[column, :n]
        for i in range(first, last):
            after, into, center = x[i + 1 :], squares[start : start + n - i - 1], x[i]
            for j in range(len(after)):
                into[j] += (after[j] - center) * (after[j] - center)
            start += len(after)


@exact
def _prior(kernel):
    """Return the prior variance: that of all terms."""
    terms, variances, total = kernel[1], kernel[7], 0.0
    for term in range(len(terms) - 1):
        total += variances[terms[term]]
    return total


@exact
def _tile(first, n):
    """Return up to which row all pairs with later rows are taken at a time, and their number."""
    last, pairs = first + 1, n - first - 1
    while last < n and pairs + n - last - 1 <= PAIRS:
        pairs += n - last - 1
        last += 1
    return last, pairs


@exact
def _add(factor, values, into):
    for p in range(len(into)):
        into[p] += factor * values[p]


@summed
def _dot(left, right):
    total = 0.0
    for p in range(len(left)):
        total += left[p] * right[p]
    return total


@exact
def _covariances(kernel, m, t, n, room):
    """Add the covariances of the first m of n points with all that are later to the system; keep them where asked to.

    What is kept is r² of each part of the kernel, and the values of its term, of all pairs.
    """
    profiles, terms, _, _, groups, ratios, _, variances, alphas = kernel
    system, points, difference, squares, values, keeps, _ = room
    first, start, number = np.intp(0), np.intp(0), system.dtype.type
    while first < m:
        last, pairs = _tile(first, n)
        of_tile, place = difference[:pairs], slice(start, start + pairs)
        squares[:, place] = 0.0
        for group in range(len(groups) - 1):
            if not ratios[:, group].any():  # of a derivative alone
                continue
            _differences(points[groups[group] : groups[group + 1]], n, first, last, of_tile)
            for part in range(len(profiles)):
                if ratios[part, group] > 0.0:  # a part may not see these columns, whose differences may overflow
                    _add(number(ratios[part, group]), of_tile, squares[part, place])
        for term in range(len(terms) - 1):
            into, at = values[terms[term], place], 0
            for part in range(terms[term], terms[term + 1]):
                variance, of_factor = variances[part] if part == terms[term] else 1.0, values[part, place]
                _evaluate(profiles[part], alphas[part], variance, squares[part, place], of_factor)
                if part > terms[term]:
                    for p in range(pairs):
                        into[p] *= of_factor[p]
            for part in range(terms[term] + 1, terms[term + 1]):
                values[part, place] = into
            for i in range(first, min(last, m)):
                _add(number(1.0), into[at : at + m - i - 1], system[i, i + 1 : m])
                _add(number(1.0), into[at + m - i - 1 : at + n - i - 1], system[i, m + t : n + t])
                at += n - i - 1
        first, start = last, start + pairs if keeps else np.intp(0)


@intrinsic
def _call(typing: Any, address: Any, arguments: Any) -> Any:
    """Call a function of C, all of whose arguments are addresses."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place, (function, given) = ir.IntType(8).as_pointer(), values
        kind = ir.FunctionType(ir.VoidType(), [place] * arguments.count).as_pointer()
        places = [builder.inttoptr(builder.extract_value(given, i), place) for i in range(arguments.count)]
        builder.call(builder.inttoptr(function, kind), places)
        return context.get_dummy_value()

    return types.void(address, arguments), generate


@exact
def _factorise(lapack, room, m, width):
    """Write the Cholesky factor U of the first m columns, and U⁻ᵀ times the others; say whether there is one."""
    return _by_lapack(lapack, room, m, width) if m >= LARGE else _by_panels(room[0], m, width)


@exact
def _by_panels(system, m, width):
    number = system.dtype.type
    for start in range(0, m, PANEL):
        stop = min(start + PANEL, m)
        for i in range(start, stop):
            row = system[i, i:width]
            for k in range(start, i):
                above = system[k, i:width]
                _add(-above[0], above, row)
            if not row[0] > 0.0:
                return False
            factor = number(1.0) / math.sqrt(row[0])
            for j in range(len(row)):
                row[j] *= factor
        for i in range(stop, m, 2):
            row, other = system[i, i:width], system[i + 1, i:width]  # below the last one there is room
            for k in range(start, stop, 4):
                a, b = system[k, i:width], system[k + 1, i:width]
                c, d = system[k + 2, i:width], system[k + 3, i:width]
                of_a, of_b, of_c, of_d = a[0], b[0], c[0], d[0]
                on_a, on_b, on_c, on_d = a[1], b[1], c[1], d[1]
                for j in range(len(row)):
                    row[j] -= of_a * a[j] + of_b * b[j] + of_c * c[j] + of_d * d[j]
                    other[j] -= on_a * a[j] + on_b * b[j] + on_c * c[j] + on_d * d[j]
    return True


@exact
def _by_lapack(lapack, room, m, width):
    # U by rows is the lower factor by columns, as LAPACK has it.
    system, (letters, sizes, one) = room[0], room[-1]
    of_single, size = 2 * (system.itemsize == 4), sizes.itemsize
    sizes[0], sizes[1], sizes[2], sizes[3] = m, width - m, system.shape[1], 0
    left, lower, n = system.ctypes.data, letters.ctypes.data, sizes.ctypes.data
    n_right, step, info, right = n + size, n + 2 * size, n + 3 * size, left + m * system.itemsize
    _call(lapack[of_single], (lower, n, left, step, info))
    if sizes[3] != 0:
        return False
    settings = lower + 1, lower, lower + 2, lower + 3
    _call(lapack[of_single + 1], (*settings, n_right, n, one.ctypes.data, left, step, right, step))
    return True


@exact
def _told(like):
    """Return the letters, the room for sizes and the number one that LAPACK is told, in the precision of an array."""
    return LETTERS.copy(), np.empty(4, np.int32), np.ones(1, like.dtype)


@exact
def _room(like, keeps, kernel, n_columns, m, n_tests, t):
    """Return room for a system in the precision of an array, and say whether the values of the kernel are kept."""
    n, n_parts, kind = m + n_tests, len(kernel[0]), like.dtype
    pairs = PAIRS + (m * (m - 1) // 2 + m * n_tests if keeps else n)  # the last tile may have some pairs of tests
    squares, values = np.empty((n_parts, pairs), kind), np.empty((n_parts, pairs), kind)
    system, points = np.zeros((m + 1, n + t), kind), np.empty((n_columns, n), kind)
    return system, points, np.empty(PAIRS + n, kind), squares, values, keeps, _told(like)


@exact
def _fill(kernel, scale, rows, near, tests, room):
    """Write the system of the m rows near to tests: the upper triangle of K + Σ, y, and k beside each other."""
    X, Y, noise, factor = rows
    system, points, m, t, prior = room[0], room[1], len(near), Y.shape[1], _prior(kernel)
    for column in range(len(points)):
        origin = X[near[0], column] * scale[column] if m else 0.0  # near it single precision tells points apart
        for i in range(m):
            points[column, i] = X[near[i], column] * scale[column] - origin
        for j in range(len(tests)):
            points[column, m + j] = tests[j, column] * scale[column] - origin
    for i in range(m):
        row = system[i]
        row[i], row[i + 1 : m], row[m + t :] = prior + factor * noise[near[i]], 0.0, 0.0
        for target in range(t):  # an assignment of arrays would compile the errors of their shapes
            row[m + target] = Y[near[i], target]
    _covariances(kernel, m, t, m + len(tests), room)


@exact
def _solve(lapack, kernel, scale, rows, near, tests, room, solved):
    """Solve the system of the m rows near to tests: U, U⁻ᵀy and U⁻ᵀk beside each other; say whether it can be.

    Only the first of the tests are `solved`, and k is left of the others.
    """
    _fill(kernel, scale, rows, near, tests, room)
    return _factorise(lapack, room, len(near), len(near) + rows[1].shape[1] + solved)


@exact
def _back(system, m, x):
    """Write U⁻¹x into x."""
    for i in range(m - 1, -1, -1):
        x[i] = (x[i] - _dot(system[i, i + 1 : m], x[i + 1 : m])) / system[i, i]


def _predictions(
    like, lapack, kernel, scale, X, Y, noise, factor, near, tests, variance, means, reductions, surprises, solved,
):  # fmt: skip
    """Write the predictions of sets of tests, by systems in the precision of an array."""
    rows, t, n_tests = (X, Y, noise, factor), Y.shape[1], tests.shape[1]
    room = _room(like, np.bool_(False), kernel, len(scale), near.shape[1], n_tests, t)
    system, of_targets = room[0], np.empty(n_tests, like.dtype)
    for number in range(len(near)):
        there = near[number][near[number] >= 0]
        m = len(there)
        solved[number] = _solve(lapack, kernel, scale, rows, there, tests[number], room, n_tests if variance else 0)
        for target in range(t):
            weights = system[:m, m + target].copy()
            surprises[number, target] = _dot(weights, weights) / max(m, 1)
            if not variance:
                _back(system, m, weights)
            of_targets[:] = 0.0
            for i in range(m):
                _add(weights[i], system[i, m + t : m + t + n_tests], of_targets)
            for j in range(n_tests):
                means[number, target, j] = of_targets[j]
        reductions[number] = 0.0
        if variance:
            for i in range(m):
                for j in range(n_tests):
                    reductions[number, j] += system[i, m + t + j] ** 2


# By whether systems are solved in single precision.
PREDICTIONS = [
    kept(
        number[::1], *KERNEL, vector, *ROWS, many_indices, matrices, types.boolean, real[:, :, ::1], real[:, ::1],
        real[:, ::1], types.boolean[::1],
    )(_predictions)
    for number in (types.float64, types.float32)
]  # fmt: skip


@kept(*KERNEL, vector, *ROWS, many_indices, matrix, matrices, real[:, ::1], real[::1])
def _weights(
    lapack, kernel, scale, X, Y, noise, factor, near, tests, less,
    weights, reductions,
):  # fmt: skip
    rows, t = (X, Y, noise, factor), Y.shape[1]
    room = _room(reductions, np.bool_(False), kernel, X.shape[1], near.shape[1], np.intp(1), t)
    system = room[0]
    for number in range(len(near)):
        there = near[number][near[number] >= 0]
        m = len(there)
        _fill(kernel, scale, rows, there, tests[number : number + 1], room)
        for i in range(m if len(less) else 0):
            _add(-1.0, less[number, i, i:m], system[i, i:m])
            system[i, m + t] -= less[number, i, m]
        weights[number], reductions[number] = 0.0, np.nan
        if _factorise(lapack, room, m, m + t + 1):
            of_there = system[:m, m + t].copy()
            reductions[number] = _dot(of_there, of_there)
            _back(system, m, of_there)
            at = 0
            for place in range(near.shape[1]):
                if near[number, place] >= 0:
                    weights[number, place] = of_there[at]
                    at += 1


@exact
def _derivatives(kernel, n, room, directions, work, derivatives):
    """Add uᵀ dK v of n points for each direction v, the first of which is u, by the logarithms of the free numbers."""
    slots, variances = kernel[2], kernel[7]
    first, start, weights, u = np.intp(0), np.intp(0), work[1], directions[0, :n]
    for a in range(len(directions)):
        for part in range(len(slots)):
            derivatives[a, slots[part, 0]] += variances[part] * _dot(u, directions[a, :n])
    while first < n:
        last, pairs = _tile(first, n)
        for a in range(len(directions)):
            at, v = 0, directions[a, :n]
            for i in range(first, last):
                into, of_v, of_u = weights[a, at : at + n - i - 1], v[i + 1 :], u[i + 1 :]
                of_i, v_of_i = u[i], v[i]
                for j in range(len(into)):
                    into[j] = of_i * of_v[j] + v_of_i * of_u[j]
                at += len(into)
        _derivatives_of_tile(kernel, first, last, start, pairs, n, room, work, derivatives)
        first, start = last, start + pairs


@exact
def _derivatives_of_tile(kernel, first, last, start, pairs, n, room, work, derivatives):
    """Add Σ w dk over the pairs of a tile, for each row of their weights w."""
    profiles, _, slots, places, groups, _, by_square, _, alphas = kernel
    _, points, difference, squares, values, _, _ = room
    slope, weights, pulled = work
    for part in range(len(profiles)):
        r2, k = squares[part, start : start + pairs], values[part, start : start + pairs]
        by_variance, by_alpha = slots[part]
        _slope(profiles[part], alphas[part], r2, k, slope)
        for a in range(len(weights)):
            of_pairs, into = weights[a, :pairs], pulled[part, a, :pairs]
            for p in range(pairs):
                into[p] = of_pairs[p] * slope[p]
            derivatives[a, by_variance] += _dot(of_pairs, k)
            if profiles[part] == RATIONAL_QUADRATIC:
                for p in range(pairs):
                    x = r2[p] / (2.0 * alphas[part])
                    derivatives[a, by_alpha] += alphas[part] * of_pairs[p] * k[p] * (x / (1.0 + x) - math.log1p(x))
    for group in range(len(groups) - 1):
        _differences(points[groups[group] : groups[group + 1]], n, first, last, difference)
        for part in range(len(profiles)):
            for a in range(len(weights) if by_square[part, group] != 0.0 else 0):
                pull = _dot(pulled[part, a, :pairs], difference[:pairs])
                derivatives[a, places[part, group]] += by_square[part, group] * pull


@kept(*KERNEL, *(real[:, ::1],) * 4)
def _pairs(lapack, kernel, points, system, squares, values):
    """Write the covariances of all pairs of points above the diagonal, and r² and the values of each part."""
    n = points.shape[1]
    system[:] = 0.0
    for i in range(n):
        system[i, i] = _prior(kernel)
    room = system, points, np.empty(PAIRS + n), squares, values, np.bool_(True), _told(system)
    _covariances(kernel, n, np.intp(0), n, room)


@kept(*KERNEL, *(real[:, ::1],) * 5)
def _pair_derivatives(lapack, kernel, points, squares, values, weights_of, derivatives):
    """Add Σ G dk over all pairs of points, for a symmetric matrix G."""
    n, slots, variances = points.shape[1], kernel[2], kernel[7]
    room = derivatives, points, np.empty(PAIRS + n), squares, values, np.bool_(True), _told(derivatives)
    weights, first, start = np.empty((1, PAIRS + n)), np.intp(0), np.intp(0)
    work = np.empty(PAIRS + n), weights, np.empty((len(slots), 1, PAIRS + n))
    for part in range(len(slots)):
        for i in range(n):
            derivatives[0, slots[part, 0]] += variances[part] * weights_of[i, i]
    while first < n:
        last, pairs = _tile(first, n)
        at = 0
        for i in range(first, last):
            into = weights[0, at : at + n - i - 1]
            into[:] = 0.0
            _add(2.0, weights_of[i, i + 1 :], into)
            at += len(into)
        _derivatives_of_tile(kernel, first, last, start, pairs, n, room, work, derivatives)
        first, start = last, start + pairs


@kept(
    *KERNEL, vector, *ROWS, types.boolean, many_indices, indices, vector, matrix, real, real[::1], real[:, ::1],
    real[::1], real[:, ::1],
)  # fmt: skip
def _conditionals(
    lapack, kernel, scale, X, Y, noise, factor, noisy, near, own,
    shares, signs, inverse_degrees, of_variance, squared, score, information,
):  # fmt: skip
    rows, t = (X, Y, noise, factor), Y.shape[1]
    m, n_directions = near.shape[1], 2 + (t > 1)
    room = _room(of_variance, np.bool_(True), kernel, X.shape[1], m, np.intp(1), t)
    system, by_noise = room[0], len(score) - 2
    directions, derivatives = np.empty((n_directions, m + 1)), np.empty((n_directions, len(score)))
    pulls, pulled = np.empty(t), np.empty((len(kernel[0]), n_directions, PAIRS + m))
    work = np.empty(PAIRS + m), np.empty((n_directions, PAIRS + m)), pulled
    for number in range(len(near)):
        there, row, share = near[number][near[number] >= 0], own[number], shares[number]
        m = len(there)
        solved = _solve(lapack, kernel, scale, rows, there, X[row : row + 1], room, np.intp(1))
        directions[:, m] = 0.0
        directions[0, m] = 1.0
        variance = _prior(kernel) + factor * noise[row]
        for i in range(m):
            directions[0, i] = -system[i, m + t]
            variance -= system[i, m + t] ** 2
        if not (solved and variance > 0.0):
            variance = np.nan
        of_variance[number] = variance
        excess = 0.0
        for target in range(t):
            residual = Y[row, target]
            for i in range(m):
                residual -= system[i, m + t] * system[i, m + target]
            square = residual**2 / variance
            pull = (1.0 + inverse_degrees) / (1.0 + inverse_degrees * square)
            pulls[target], squared[number, target] = pull * residual / variance, square
            excess += pull * square - 1.0
        directions[1:, :m] = 0.0
        for target in range(t):
            for i in range(m):
                directions[1, i] += signs[number, target] * system[i, m + target]
                if t > 1:
                    directions[2, i] += pulls[target] * system[i, m + target]
        for a in range(n_directions):
            _back(system, m, directions[a, :m])
        derivatives[:] = 0.0
        _derivatives(kernel, m + 1, room, directions, work, derivatives)
        if noisy:
            for a in range(n_directions):
                for i in range(m):
                    derivatives[a, by_noise] += directions[0, i] * directions[a, i] * factor * noise[there[i]]
            derivatives[0, by_noise] += factor * noise[row]
        of_pull = 1.0 if t > 1 else pulls[0]
        by_variance, of_mean, of_score = derivatives[0], derivatives[1], derivatives[n_directions - 1]
        for a in range(len(score)):
            score[a] += share * (of_pull * of_score[a] + 0.5 * excess / variance * by_variance[a])
            weight = share / (1.0 + 3.0 * inverse_degrees)  # Lange, Little and Taylor (1989)
            _add((1.0 + inverse_degrees) * weight / variance * of_mean[a], of_mean, information[a])
            # One after the other: the square of a variance leaves the range of float64 long before the variance does.
            _add(0.5 * t * weight * (by_variance[a] / variance) / variance, by_variance, information[a])


@kept(matrix, indices, real[:, ::1], types.intp[:, ::1])
def _nearest_before(columns, positions, squares, neighbors):
    n_columns, k = len(columns), neighbors.shape[1]
    squares[:] = np.inf
    neighbors[:] = -1
    farthest, of_tile = np.zeros(len(positions), dtype=np.intp), np.empty(PAIRS)
    for start in range(0, positions.max(), PAIRS):
        for number in range(len(positions)):
            position, best, place = positions[number], squares[number], farthest[number]
            r2 = of_tile[: max(0, min(PAIRS, position - start))]
            r2[:] = 0.0
            for column in range(n_columns):
                x, center = columns[column, start : start + len(r2)], columns[column, position]
                for j in range(len(r2)):
                    r2[j] += (x[j] - center) * (x[j] - center)
            most = best[place]
            for j in range(len(r2)):
                if r2[j] < most:
                    best[place], neighbors[number, place] = r2[j], start + j
                    place, most = 0, best[0]
                    for other in range(1, k):
                        if best[other] > most:
                            place, most = other, best[other]
            farthest[number] = place


def nearest_before(columns: Floats, positions: Indices, n_neighbors: int) -> Indices:
    """Find the rows nearest to each position among all before it, by looking at each.

    Parameters
    ----------
    columns : ndarray of shape (d, n)
        The rows, in their order.
    positions : ndarray of int of shape (m,)
    n_neighbors : int

    Returns
    -------
    ndarray of int of shape (m, n_neighbors)
        In no order, and −1 for those that there are not.
    """
    neighbors = np.empty((len(positions), n_neighbors), dtype=np.intp)
    _nearest_before(columns, positions, np.empty(neighbors.shape), neighbors)
    return neighbors


class Circle(NamedTuple):
    """The circle that a column is wound on by its period, and what squared distances there are multiplied with.

    Attributes
    ----------
    column : int
    period : float
    moved : float
        How far points are moved along their derivative by the logarithm of the period.
    part : int
        The part of the kernel that sees them.
    place : int
        The free number by which the derivative is.
    ratio, by_square : float
        What squared distances are multiplied with, in the kernel and in the derivative.
    """

    column: int
    period: float
    moved: float
    part: int
    place: int
    ratio: float
    by_square: float


def _circles(
    part: int, column: int, period: float, ratio: float, by_lengthscale: int, by_period: int, n_free: int
) -> list[Circle]:
    """Return the circle of a column, and where the period is free two by which its derivative is."""
    circle = Circle(column, period, 0.0, part, by_lengthscale, ratio, ratio)
    if by_period >= n_free:
        return [circle]
    # |a + b/2|² − |a − b/2|² = 2ab, of the difference a of two points and its derivative b.
    halves = [Circle(column, period, moved, part, by_period, 0.0, -moved * ratio) for moved in (0.5, -0.5)]
    return [circle, *halves]


@dataclass(frozen=True)
class Points:
    """What rows become for compiled functions: their columns, and then their points on circles.

    Attributes
    ----------
    columns : ndarray of int of shape (d,)
        The order of the columns.
    circles : list of Circle
    origin : ndarray of shape (d,)
        Where angles are zero.
    """

    columns: Indices
    circles: list[Circle]
    origin: Floats

    def of(self, X: Floats) -> Floats:
        """Return the points of rows, shape (n, d + 2 · number of circles), and X itself where they are no others."""
        if not self.circles:
            return np.ascontiguousarray(X if np.all(np.diff(self.columns) == 1) else X[:, self.columns])
        on_circles = []
        for circle in self.circles:
            angle = 2.0 * np.pi * (X[:, circle.column] - self.origin[circle.column]) / circle.period
            cosine, sine = np.cos(angle), np.sin(angle)
            on_circles += [cosine + circle.moved * angle * sine, sine - circle.moved * angle * cosine]
        return np.ascontiguousarray(np.column_stack((X[:, self.columns], *on_circles)))


@dataclass(frozen=True)
class RowSystems:
    """Training rows and a kernel, as compiled functions take them.

    Attributes
    ----------
    kernel : tuple of ndarray
        Of each part its profile; the first part of each term, of which the others are factors, and the end; the places
        of its variance and its alpha among the free numbers; those of the lengthscale of each group of columns; the
        first column of each group, and the end; the squared ratio of each group's shortest lengthscale to its own; what
        squared distances in a group are multiplied with in the derivative; the variance of its term; and its alpha.
        What is not free has the last place, after that of the noise variance.
    points : Points
        Columns whose lengthscales have the same ratios in all parts, and the same free numbers behind them where there
        are derivatives, are a group beside each other.
    scale : ndarray of shape (d + 2 · number of circles,)
        What the columns of points are multiplied by: one over the shortest lengthscale of any part; 1 on circles.
    rows : tuple
        The points of X, Y, and the noise variances of rows, as the product of an array and a number.
    n_free : int
    """

    kernel: tuple[Any, ...]
    points: Points
    scale: Floats
    rows: tuple[Floats, Floats, Floats, float]
    n_free: int

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        theta: Floats | None,
        X: Floats,
        Y: Floats,
        noise: Floats,
        factor: float = 1.0,
        ties: Indices | None = None,
    ) -> Self | None:
        """Return the systems of a kernel at given logarithms of its free parameters, if its parts are all radial.

        Of `ties`, each says which free number stands behind one of these; none is shared if they are not given.
        """
        parts = (kernel if theta is None else kernel.with_theta(theta)).radial_parts()
        if parts is None:
            return None
        free = np.array([not parameter.fixed for parameter in kernel.parameters for _ in range(parameter.value.size)])
        ties = np.arange(np.count_nonzero(free)) if ties is None else ties
        n_free, d, n_parts = int(ties.max(initial=-1)) + 1, X.shape[1], len(parts)
        place, slots, start = np.full(len(free), n_free + 1), [], 0
        # Columns that a part does not see have infinite lengthscales there, which are not free.
        lengthscales = np.full((n_parts, d), np.inf)
        places = np.full(lengthscales.shape, n_free + 1)
        if theta is not None:  # there are no derivatives otherwise, and columns are alike by their ratios alone
            place[free] = ties
        circles: list[Circle] = []
        for number, part in enumerate(parts):
            period, lengthscale = part.period, part.lengthscale
            by_lengthscale = start + (0 if period is None else period.size)
            by_variance, rational = by_lengthscale + lengthscale.size, part.profile == "rational_quadratic"
            slots.append((place[by_variance], place[by_variance + 1] if rational else n_free + 1))
            seen = np.arange(d) if part.columns is None else np.array(part.columns)
            of_period, of_lengthscale = place[start:by_lengthscale], place[by_lengthscale:by_variance]
            if period is None:
                places[number, seen], lengthscales[number, seen] = of_lengthscale, lengthscale
            else:
                given = np.broadcast_arrays(seen, period, lengthscale**-2.0, of_lengthscale, of_period)
                for column, each_period, ratio, *at_places in zip(*(each.tolist() for each in given), strict=True):
                    circles += _circles(number, column, each_period, ratio, at_places[0], at_places[1], n_free)
            start = by_variance + (2 if rational else 1)
        least = np.minimum(lengthscales.min(axis=0), np.finfo(np.float64).max)
        ratios, groups = np.square(least / lengthscales), dict[tuple[object, ...], list[int]]()
        for column in range(d):  # rounding makes no group of its own
            alike = (*(f"{ratio:.12g}" for ratio in ratios[:, column]), *places[:, column].tolist())
            groups.setdefault(alike, []).append(column)
        columns, first = np.concatenate(list(groups.values())), [some[0] for some in groups.values()]
        on_circles = np.zeros((2, n_parts, len(circles)))
        of_circles = np.full((n_parts, len(circles)), n_free + 1)
        for group, circle in enumerate(circles):
            of_circles[circle.part, group] = circle.place
            on_circles[:, circle.part, group] = circle.ratio, circle.by_square
        firsts = [number for number, part in enumerate(parts) if not part.factor]
        of_terms = np.multiply.reduceat([part.variance for part in parts], firsts)
        arrays = (
            np.array([PROFILES.index(part.profile) for part in parts], dtype=np.intp),
            np.array([*firsts, n_parts], dtype=np.intp),
            np.array(slots, dtype=np.intp),
            np.ascontiguousarray(np.hstack((places[:, first], of_circles))),
            np.cumsum([0, *map(len, groups.values()), *[2] * len(circles)]),
            *(np.ascontiguousarray(np.hstack((ratios[:, first], some))) for some in on_circles),
            np.repeat(of_terms, np.diff([*firsts, n_parts])),
            np.array([part.alpha for part in parts]),
        )
        points = Points(columns, circles, np.zeros(d) if theta is None else X.mean(axis=0))
        scale = np.append(1.0 / least[columns], np.ones(2 * len(circles)))
        return cls(arrays, points, scale, (points.of(X), np.ascontiguousarray(Y), noise, factor), n_free)

    def over(self, X: Floats, Y: Floats, noise: Floats) -> Self:
        """Return the systems of other rows."""
        return replace(self, rows=(self.points.of(X), np.ascontiguousarray(Y), noise, 1.0))

    def predict(
        self, near: Indices, tests: Floats, variance: bool = True, single: bool = False
    ) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Predict tests from the same rows, or each from the rows near to it.

        Parameters
        ----------
        near : ndarray of int of shape (m,) or (n, m)
            −1 where there is no row.
        tests : ndarray of shape (n, d)
        variance : bool, default=True
            Whether to compute the reductions: of tests that share their rows, most of the work.
        single : bool, default=False
            Whether systems are solved in single precision.

        Returns
        -------
        means : ndarray of shape (n, t)
        reductions : ndarray of shape (n,)
            By how much the rows reduce the variance; 0 where they are not asked for.
        surprises : ndarray of shape (n, t)
            yᵀC⁻¹y of the rows, over their number.
        solved : ndarray of bool of shape (n,)
            Whether float64 allows a Cholesky factorisation; without, there is no prediction.
        """
        sets, ordered, t = np.atleast_2d(near), self.points.of(tests), self.rows[1].shape[1]
        ordered = ordered[None] if near.ndim == 1 else ordered[:, None]
        n, each = ordered.shape[:2]
        means, reductions, surprises = np.empty((n, t, each)), np.empty((n, each)), np.empty((n, t))
        solved = np.empty(n, dtype=bool)
        results = means, reductions, surprises, solved
        like = np.empty(0, np.float32 if single else np.float64)
        PREDICTIONS[single](like, LAPACK, self.kernel, self.scale, *self.rows, sets, ordered, variance, *results)
        of_tests = np.swapaxes(means, 1, 2).reshape(-1, t)
        return of_tests, reductions.ravel(), np.repeat(surprises, each, axis=0), np.repeat(solved, each)

    def weights(self, near: Indices, tests: Floats, less: Floats | None = None) -> tuple[Floats, Floats]:
        """Weigh the rows near to each test in its mean given them.

        Parameters
        ----------
        near : ndarray of int of shape (n, m)
            −1 where there is no row.
        tests : ndarray of shape (n, d)
        less : ndarray of shape (n, m, m + 1), optional
            What each kernel has more than the covariance of the m rows, with each other and with the test last.

        Returns
        -------
        weights : ndarray of shape (n, m)
            0 where there is no row, and where float64 does not allow a Cholesky factorisation.
        reductions : ndarray of shape (n,)
            By how much the rows reduce the variance; not a number where float64 does not allow a factorisation.
        """
        results, less = (np.empty(near.shape), np.empty(len(near))), np.empty((0, 0, 0)) if less is None else less
        _weights(LAPACK, self.kernel, self.scale, *self.rows, near, self.points.of(tests), less, *results)
        return results

    def rows_at(self, own: Indices) -> tuple[Floats, Floats]:
        """Return the rows at some places, as the caller has their columns, and their prior variances with noise."""
        (points, _, noise, factor), columns = self.rows, self.points.columns
        rows, terms, variances = np.empty((len(own), len(columns))), self.kernel[1], self.kernel[7]
        rows[:, columns] = points[own, : len(columns)]
        return rows, variances[terms[:-1]].sum() + factor * noise[own]

    def errors(self, near: Indices, own: Indices) -> tuple[Floats, Floats]:
        """Evaluate the first two results of `conditionals` alone."""
        tests, variances = self.rows_at(own)
        means, reductions, _, solved = self.predict(near, tests)
        variances = variances - reductions
        variances[~solved | ~(variances > 0.0)] = np.nan
        return variances, (self.rows[1][own] - means) ** 2 / variances[:, None]

    def conditionals(
        self, near: Indices, own: Indices, shares: Floats, signs: Floats, noisy: bool, inverse_degrees: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Evaluate conditional densities of rows given those near to them, with derivatives.

        Parameters
        ----------
        near : ndarray of int of shape (n, m)
            −1 where there is no row.
        own : ndarray of int of shape (n,)
        shares : ndarray of shape (n,)
            By which derivatives are multiplied.
        signs : ndarray of shape (n, t)
            See `VecchiaLikelihood`.
        noisy : bool
            Whether the noise variances have a common factor, by whose logarithm derivatives are.
        inverse_degrees : float
            1/ν of the t of the densities; 0 of normal ones.

        Returns
        -------
        variances : ndarray of shape (n,)
            Not a number where float64 does not allow a Cholesky factorisation.
        squares : ndarray of shape (n, t)
            (y − mean)² over the variance.
        score : ndarray of shape (n_free + 1,)
        information : ndarray of shape (n_free + 1, n_free + 1)
        """
        n, t, size = len(near), self.rows[1].shape[1], self.n_free + 2
        results = np.empty(n), np.empty((n, t)), np.zeros(size), np.zeros((size, size))
        _conditionals(
            LAPACK, self.kernel, self.scale, *self.rows, noisy, near, own, shares, signs, inverse_degrees, *results
        )
        return results[0], results[1], results[2][:-1], results[3][:-1, :-1]


class PairPullback(Pullback):
    """Derivatives of a radial kernel, or a sum of such, over all pairs of rows.

    Parameters
    ----------
    systems : RowSystems
        Of the rows, at the logarithms by which derivatives are.

    Attributes
    ----------
    covariance : Tensor of shape (n, n)
        Its lower triangle alone; zero above.
    """

    def __init__(self, systems: RowSystems) -> None:
        points = systems.rows[0] * systems.scale
        self._systems, self._points = systems, np.ascontiguousarray((points - points.mean(axis=0)).T)
        n, n_parts = len(points), len(systems.kernel[0])
        covariance, shape = np.empty((n, n)), (n_parts, PAIRS + n * (n - 1) // 2)
        self._kept = np.empty(shape), np.empty(shape)
        _pairs(LAPACK, systems.kernel, self._points, covariance, *self._kept)
        self.covariance = torch.from_numpy(covariance).T

    def of_matrix(self, weights: Tensor) -> Tensor:  # noqa: D102
        derivatives, of_pairs = np.zeros((1, self._systems.n_free + 2)), np.ascontiguousarray(weights.numpy())
        _pair_derivatives(LAPACK, self._systems.kernel, self._points, *self._kept, of_pairs, derivatives)
        return torch.from_numpy(derivatives[0, : self._systems.n_free])
