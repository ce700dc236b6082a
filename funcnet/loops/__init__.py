"""Loop nests and their C: operations on arrays become kernels, a plan of the memory, and the text of C functions.

    operations --fusion--> stored values --lowering--> kernels and steps --memory--> the body of a function in C

The package knows arrays, loops and C. It traces and compiles nothing: the caller makes a `Block` of operations, gets a
`Program`, and passes the C of the program to a compiler. The words:

- An **array value** (`ArrayValue`) is an array of a program: an input, a constant, or a result of an operation.
- An **operation** computes array values from others. A **block** is a list of operations (`operations.py`).
- A **location** is the place in memory at which a stored array begins. Values that are not stored have none: they are
  computed wherever they are read (`fusion.py` decides).
- An **index** is a sum of loop variables with factors, in C an integer. Views of arrays change indices, and copy
  nothing (`index.py`).
- A **nest** is a nest of loops with the statements inside (`nest.py`). A **kernel** is a function in C, of one nest
  (`nest_kernels.py`) or in a special form (`matmul.py`, `conv.py`, `sorting.py`, `piecewise_kernels.py`).
- A **program** is the list of steps of a function: calls of kernels, and the loops and branches of `control.py` around
  them (`program.py`). `lowering.py` makes the program of a block.
- **Weights** are the constants of all programs of a module, which are in memory as the kernels read them (`store.py`).
  `memory.py` plans the places of all other arrays.

The C consists of `MATH` (`c_math.py`), `MATMUL`, `IM2COL`, the kernels, and the bodies of the programs, in this order.
It calls no library. Before it, the caller includes `wasm_simd128.h`, whose names for vectors of 128 bits the kernels
use, and defines `WEIGHTS` and `ARRAYS`, the addresses of the constants and of all other arrays.

Letters: `M` rows, `N` columns and `K` products in each sum of a matrix product; `B` batch, `I` and `O` input and output
channels, `G` groups, `S` and `K` sizes of the input and of the kernel of a convolution. In the generated C, `p` is an
array, `i` and `r` are variables of loops (`r` of a reduction), `t` is a number that is computed once, and `c` is a
number that may differ between kernels that share a function. Each of them has a number at its end.

Example:
    >>> import numpy as np
    >>> from funcnet.loops.lowering import lowered
    >>> from funcnet.loops.operations import ArrayValue, Block, Operation
    >>> from funcnet.loops.program import Kernels
    >>> from funcnet.loops.constant_storage import Weights
    >>> x, y = (ArrayValue((4,), np.dtype("float32")) for _ in range(2))
    >>> y.operation = Operation("neg", [x], {}, "", results=[y])
    >>> kernels = Kernels()
    >>> program = lowered(Block([x], [y.operation], [y]), Weights(), kernels)
    >>> print(kernels.source(), end="")
    static __attribute__((noinline)) void k0(float *restrict p0, const float *restrict p1) {
    const int c0 = 4;
    for (int i0 = 0; i0 < c0; i0++) {
    float t1 = p1[i0];
    float t2 = -t1;
    p0[i0] = t2;
    }
    }
    >>> program.source(program.lives([x], [y]))[0]
    'k0((float *)(ARRAYS + 16), (float *)(ARRAYS + 0));\\n'
"""
