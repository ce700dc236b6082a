"""Functions of torch that change views in place, for `test_views.py`."""

__all__ = ["NAMES", "SOURCE"]

# Each function gets a tensor of shape (4, 6) and returns a tensor, or several.
SOURCE = """
import torch
from torch import nn


def row_augmented(x):
    row = x[0]
    row += 1
    row *= 2
    return x, row


def row_method(x):
    row = x[1]
    row.zero_()
    return x + row.sum()


def row_items(x):
    row = x[2]
    row[1:3] = 7.0
    row[0] -= 3.0
    row[3].mul_(2.0)
    return x


def rows_in_a_loop(x):
    for i in range(3):
        row = x[i]
        row += i
    return x


def two_rows(x):
    a = x[0]
    b = x[1]
    a += 1
    b *= 2
    return x, a, b


def overlapping(x):
    a = x[0:3]
    b = x[1:4]
    a += 1
    b *= 2
    return x, a, b


def base_changed(x):
    row = x[0]
    x *= 2
    x[0, 1] = 9.0
    return row.sum() + row


def reshaped(x):
    y = x.view(2, 2, 6)
    y[:, 1].add_(y[:, 0])
    return x


def transposed(x):
    y = x.transpose(0, 1)
    y[0] = 5.0
    y[1] += y[2]
    z = y.unsqueeze(0)
    z[:, 3:].mul_(2.0)
    return x, y.mean(), z.shape[0]


def swept(x):
    n = x.size(0)
    v = x
    while v.size(0) > 1:
        v = v.view(v.size(0) // 2, 2, 6)
        v[:, 1].add_(v[:, 0])
        v = v[:, 1]
    for k in (1, 2):
        v = x[k:n:2]
        v[0].mul_(3.0)
    return x * 2


def chunks(x):
    a, b = x.chunk(2, dim=1)
    a += b
    a.clamp_(min=0.0)
    return x, b


def each_row(x):
    for row in x:
        row += row.sum()
    return x


def each_counted_row(x):
    for i, row in enumerate(x):
        row *= i
    return x


def unpacked(x):
    a, b, c, d = x.unbind(0)
    a.copy_(b)
    d[0] = 1.0
    return x, c


def alias(x):
    y = x
    y += 1
    return x * y


def alias_of_a_row(x):
    row = x[0]
    same = row
    same += 1
    return x, row, same


def two_steps(x):
    block = x[1]
    part = block[2:4]
    part += 1
    return x, block


def with_mask(x):
    y = x.transpose(0, 1)
    y[y > 0] = 0.0
    return x


def dtype_and_length(x):
    y = x.transpose(0, 1)
    y += torch.ones(len(y), 1, dtype=y.dtype)
    return x, y.dim(), y.numel()


def in_a_branch(x):
    y = x[0]
    if x.size(0) > 2:
        y += 1
    else:
        y -= 1
    return x


def own_base(x):
    z = torch.zeros(4, 6, dtype=x.dtype)
    view = z.view(-1)
    view[3] = 2.0
    view[5:9] += 1
    z = z + x
    return z


def add_to(target, amount):
    target += amount


def called(x):
    y = x * 2
    add_to(y, 3.0)
    return y


def called_with_keyword(x):
    y = x * 2
    add_to(amount=3.0, target=y)
    return y + 1


def called_with_value(x):
    y = x * 2
    total = scaled(y, 2.0)
    scaled(y, 3.0)
    return y, total


def called_in_an_expression(x):
    y, result = x * 2, 3
    # a comment that stays above
    first = scaled(y, 2.0)[..., None] + y[0]
    second = 1 + result * torch.relu(scaled(y, result))
    second += scaled(y, 0.5)
    third = fourth = scaled(y, 2.0)
    return y.mul(scaled(y, 0.5)), first, second, third, fourth, y


def scaled(values, by):
    if by == 2.0:
        values[0] *= by
        return values.sum()
    values.mul_(by)
    return values.mean()


def outer(x):
    y = x.clone()
    middle(y)
    return y


def middle(values):
    first = values[0]
    first += 1
    add_to(values, 1.0)


def swaps(a, b):
    a += b
    if a.size(0) > 100:
        return
    b -= a


def two_arguments(x):
    y, z = x * 2, x + 1
    swaps(y, z)
    return y, z


class Box:
    @staticmethod
    def fill(values):
        values.view(-1)[0] = 1.0
        rows = values.view(2, -1)
        rows[1].zero_()

    def use(self, x):
        return x


def static_method(x):
    y = x + 0
    Box.fill(y)
    return y


def ordinary(x):
    out = x
    out = out * 2
    out += x
    return out


def rebound(x):
    y = x[0]
    y = y * 2
    y += 1
    return x, y


def cloned(x):
    y = x.clone()
    y += 1
    z = x.transpose(0, 1).contiguous()
    z.zero_()
    return x, y


def items_of_a_tuple(x):
    found = pair(x)
    a, b = found
    a += 1
    c, d = pair(x)
    c += 1
    return b, d


def pair(x):
    return x * 2, x + 1


def not_read_again(x):
    q, k = x[0], x[1]
    q *= 2.0
    return q + k
"""
NAMES = [
    "row_augmented", "row_method", "row_items", "rows_in_a_loop", "two_rows", "overlapping", "base_changed", "reshaped",
    "transposed", "swept", "chunks", "each_row", "each_counted_row", "unpacked", "alias", "alias_of_a_row", "two_steps",
    "with_mask", "dtype_and_length", "in_a_branch", "own_base", "called", "called_with_keyword", "called_with_value",
    "called_in_an_expression", "outer", "two_arguments", "static_method", "ordinary", "rebound", "cloned",
    "not_read_again", "items_of_a_tuple",
]  # fmt: skip
