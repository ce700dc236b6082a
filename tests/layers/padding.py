"""Rows of `padding`: see row.py."""

from tests.layers.row import EXACT, Row, floats

SHAPES = {1: (2, 4), 2: (2, 4, 3), 3: (1, 3, 2, 3)}
PADS = {1: (2, 1), 2: (1, 2, 0, 3), 3: (1, 0, 0, 1, 2, 1)}

ROWS = [
    *(Row(f"ConstantPad{n}d", (PADS[n], 3.5), floats(*shape), EXACT) for n, shape in SHAPES.items()),
    *(
        Row(f"{kind}Pad{n}d", (PADS[n],), floats(*shape), EXACT)
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for n, shape in SHAPES.items()
    ),
    Row("ZeroPad2d", ((-1, 1, 2, -2),), floats(2, 4, 3), EXACT),
    Row("ReflectionPad2d", (1,), floats(2, 4, 3), EXACT),
    Row("ReplicationPad1d", ((-2, 5),), floats(2, 4), EXACT),
    Row("CircularPad1d", ((4, -1),), floats(2, 5), EXACT),
]
