"""Changes of views that go to the register, for `test_views.py`."""

__all__ = ["REFUSED"]


def with_call(*lines):
    """A row whose last line calls a function that changes its argument."""
    body = "\n    ".join(["y = x * 2", *lines, "return y + z"])
    return f"def f(x):\n    {body}\n\ndef g(values):\n    values += 1\n    return values.sum()\n", lines[-1]


# {what it is: (source, the line that goes to the register)}
REFUSED = {
    "a view of another tensor in each branch": (
        """
def f(x):
    y = x * 2
    v = x[0] if x.size(0) > 100 else y[0]
    v += 1
    return x + y
""",
        "v += 1",
    ),
    "a view that is stored in a list": (
        """
def f(x):
    rows = [x[0], x[1]]
    rows[0] += 1
    return x
""",
        "rows[0] += 1",
    ),
    "an item of a tuple that is read later": (
        """
def f(x):
    found = g(x)
    a, b = found
    a += 1
    return found[0] + b

def g(x):
    return x * 2, x + 1
""",
        "a += 1",
    ),
    "a tensor that is kept in a list": (
        """
def f(x):
    kept = []
    for i in range(2):
        x = x * 2
        kept.append(x)
        x += 1
    return torch.stack(kept)
""",
        "x += 1",
    ),
    "a name that is a view in one place only": (
        """
def f(x):
    v = x.transpose(0, 1)
    v[0].zero_()
    v = v * 2
    return x + v.transpose(0, 1)
""",
        "v[0].zero_()",
    ),
    "a copy or a view": (
        """
def f(x):
    v = x.reshape(-1)
    v += 1
    return x
""",
        "v += 1",
    ),
    "a call in an expression, after what it changes": with_call("z = y.sum() + g(y)"),
    "a call in a branch of an expression": with_call("z = 0 if x.size(0) > 100 else g(y) + 1"),
    "a call after a view of what it changes": with_call("row = y[0]", "z = row + g(y)"),
    "a call with a view": (
        """
def f(x):
    g(x[0])
    return x

def g(values):
    values += 1
""",
        "g(x[0])",
    ),
    "a function that is passed on": (
        """
def f(x):
    y = x * 2
    g(y)
    for one in map(g, [x]):
        pass
    return y

def g(values):
    values += 1
""",
        "g(y)",
    ),
}
