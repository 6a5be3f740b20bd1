"""Small matrix products inside kernels: C += A B, where B, the weights, is packed once per model.

B is cut into panels of as many columns as fill a cache line. The compiled product goes through C in tiles of
one to six rows and one panel (several panels where there are few rows), whose sums stay in registers while k
runs. The last panel is moved left until it ends where B ends, and is zero in the columns that it shares with
the panel before: so every tile has its full width, and nothing is added twice. (A must be finite for that.)

A sum runs over k in the same order in whatever tile it is: a row's result does not depend on the other rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lrpnumpy.kernels.arguments import R2, R3, W2, Int
from lrpnumpy.kernels.compile import Kernel

LINE = 64  # bytes: two registers of AVX2, and LLVM makes of it what another processor has
# Rows and panels of the tiles: sums that fit 16 registers of half a line, or 32 of a whole line (AVX-512).
NARROW = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (1, 2), (2, 2), (1, 4)]
WIDE = [*NARROW, (3, 2), (4, 2), (5, 2), (6, 2), (2, 4), (1, 8)]

OVERLOADED = ("add_product", "add_tile")


def pack(B: np.ndarray) -> np.ndarray:
    """Return the (K, M) matrix B as panels (panels, K, width), read-only, for add_product."""
    K, M = B.shape
    width = LINE // B.itemsize
    packed = np.zeros((-(-M // width), K, width), B.dtype)
    for panel, j in zip(packed, range(0, M, width), strict=True):
        shared = max(j + min(width, M) - M, 0)  # columns
        panel[:, shared : shared + M - j] = B[:, j : j + width]
    packed.setflags(write=False)
    return packed


def add_product(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
    """C += A B for contiguous A (n, K) and C (n, M), and B from pack."""
    M, width = C.shape[1], B.shape[2]
    for p, panel in enumerate(B):
        j = max(min(p * width, M - width), 0)
        C[:, j : j + width] += A @ panel[:, :M]


@Kernel
def add_rows(A: R2, B: R3, C: W2, most: Int) -> None:
    """add_product, with tiles of at most `most` panels. Compiled once: other kernels call what `publish` names."""
    (n, K), M = A.shape, C.shape[1]
    panels, width = B.shape[0], B.shape[2]
    if n == 0:
        return
    if width > M and K * M <= 8:  # too little for a tile, as with one input or two units: rows are the inner loop
        for k in range(K):
            for j in range(M):
                b = B[0, k, j]
                for i in range(n):
                    C[i, j] += A[i, k] * b
        return
    target = C if width <= M else np.zeros((n, width), C.dtype)
    together = max(most // n, most // 4)  # panels
    p = 0
    while p < panels:
        while p + together > panels:
            together //= 2
        i = 0
        for left in range((n + 5) // 6, 0, -1):  # as equal as possible: 7 rows are 4 + 3
            rows = (n - i + left - 1) // left
            add_tile(A, B, target, i, rows, p, together)
            i += rows
        p += together
    if width > M:
        for i in range(n):
            for j in range(M):
                C[i, j] += target[i, j]


def add_tile(A: np.ndarray, B: np.ndarray, C: np.ndarray, i: int, rows: int, p: int, panels: int) -> None:
    """The part of C += A B in some rows from i on, for some panels from p on."""
    add_product(A[i : i + rows], B[p : p + panels], C[i : i + rows, p * B.shape[2] :])


def _symbol(dtype: Any) -> str:
    """The name by which machine code finds add_rows."""
    return f"lrpnumpy_add_product_{dtype}"


@cache
def publish(dtype: np.dtype) -> None:
    """Have add_rows compiled for a dtype, and its address known to kernels that call it."""
    from llvmlite import binding

    add_rows.compile(dtype)
    code = add_rows.machine_code(dtype)
    binding.add_symbol(_symbol(dtype), code.library.get_pointer_to_function(code.fndesc.llvm_func_name))


def overloads() -> None:
    """Tell Numba what to compile for add_product and add_tile."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import lower_builtin, type_callable

    tiles = WIDE if has_wide_registers() else NARROW
    most = max(panels for _, panels in tiles)
    type_callable(add_product)(lambda context: lambda A, B, C: types.none)
    type_callable(add_tile)(lambda context: lambda A, B, C, i, rows, p, panels: types.none)

    @lower_builtin(add_product, types.Array, types.Array, types.Array)
    def _add_product(context, builder, signature, arguments):
        A, B, C = signature.args  # arrays that may be written to, and that may not, are the same to add_rows
        kinds = (A.copy(readonly=True), B.copy(readonly=True), C, types.int64)
        convention = context.call_conv
        function_type = convention.get_function_type(types.none, kinds)
        function = cgutils.get_or_insert_function(builder.module, function_type, _symbol(C.dtype))
        convention.call_function(
            builder, function, types.none, kinds, [*arguments, context.get_constant(types.int64, most)]
        )
        return context.get_dummy_value()

    @lower_builtin(add_tile, types.Array, types.Array, types.Array, *[types.Integer] * 4)
    def _add_tile(context, builder, signature, arguments):
        a, b, c = (context.make_array(signature.args[k])(context, builder, arguments[k]) for k in range(3))
        K, M = builder.extract_value(a.shape, 1), builder.extract_value(c.shape, 1)
        dtype = signature.args[2].dtype
        vector = ir.VectorType(context.get_data_type(dtype), LINE * 8 // dtype.bitwidth)
        function = _tile_function(builder.module, vector, K.type, tiles)
        builder.call(function, [a.data, b.data, c.data, K, M, *arguments[3:]])
        return context.get_dummy_value()


def has_wide_registers() -> bool:
    """Whether the processor has 32 registers of a whole line."""
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("avx512f"))


def _tile_function(module, vector, integer, tiles) -> Any:
    """The function of a module that adds a tile of any shape. Not inlined: LLVM would compile it for every product."""
    from llvmlite import ir

    name = f"lrpnumpy_add_tile_{vector.element}"
    if name in module.globals:
        return module.globals[name]
    arrays = [vector.element.as_pointer()] * 3
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arrays + [integer] * 6), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    *known, i, rows, p, panels = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    done = function.append_basic_block()
    switch = builder.switch(builder.add(builder.mul(rows, integer(16)), panels), done)
    for shape in tiles:
        switch.add_case(integer(shape[0] * 16 + shape[1]), function.append_basic_block())
        builder.position_at_end(function.basic_blocks[-1])
        _emit_tile(builder, vector, *known, i, p, *shape)
        builder.branch(done)
    builder.position_at_end(done)
    builder.ret_void()
    return function


def _emit_tile(builder, vector, A, B, C, K, M, i, p, rows, panels) -> None:
    """LLVM instructions that add one tile: these many rows from i on, these many panels from p on."""
    from llvmlite import ir
    from numba.core import cgutils

    lanes, integer = vector.count, K.type
    size, width = LINE // lanes, integer(lanes)
    first_lane = ir.VectorType(ir.IntType(32), lanes)(None)  # zeros

    def line(start, offset):
        return builder.bitcast(builder.gep(start, [offset]), vector.as_pointer())

    i = [builder.add(i, integer(r)) for r in range(rows)]
    p = [builder.add(p, integer(g)) for g in range(panels)]
    a_rows = [builder.gep(A, [builder.mul(r, K)]) for r in i]
    b_panels = [builder.gep(B, [builder.mul(builder.mul(g, K), width)]) for g in p]
    sums = [[cgutils.alloca_once_value(builder, vector([0.0] * lanes)) for _ in p] for _ in i]
    with cgutils.for_range(builder, K) as loop:
        b_k = [builder.load(line(panel, builder.mul(loop.index, width)), align=size) for panel in b_panels]
        for a_row, row_sums in zip(a_rows, sums, strict=True):
            a_k = builder.load(builder.gep(a_row, [loop.index]))
            a_k = builder.insert_element(vector(ir.Undefined), a_k, ir.IntType(32)(0))
            a_k = builder.shuffle_vector(a_k, a_k, first_lane)
            for b, total in zip(b_k, row_sums, strict=True):
                # Not the instruction fma: where the processor has none, that would be a function call.
                product = builder.fmul(a_k, b, flags=["contract"])
                builder.store(builder.fadd(builder.load(total), product, flags=["contract"]), total)
    last = builder.sub(M, width)
    for g, panel in enumerate(p):
        j = builder.mul(panel, width)
        j = builder.select(builder.icmp_signed("<", j, last), j, last)
        for r, row_sums in zip(i, sums, strict=True):
            c = line(C, builder.add(builder.mul(r, M), j))
            builder.store(builder.fadd(builder.load(c, align=size), builder.load(row_sums[g])), c, align=size)
