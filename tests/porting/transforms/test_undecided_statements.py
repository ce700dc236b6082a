"""Statements in which something was not decided, statements that go, and comments, which stay."""

import pytest

from ..ported import check, module, port_text

COMMENTS = """
# above
y = torch.cat([
    x,  # first
    x * 2,  # second
    # before the bracket
], dim=1)  # join
z = torch.cat(
    # the tensors
    [x, x],  # twice
    dim=1,  # wide
)
w = x.view(  # to rows
    -1, 3)
if torch.is_tensor(  # check
        x):
    w = w.permute(
        1,  # one
        0)  # zero
with torch.no_grad():  # no gradient here
    # inner
    u = w.sum(
        0,  # rows
    )
    # end
for t in torch.chunk(x,  # parts
        2):
    w = w + t.sum()
y[0].add_(  # in place
    1)
return (y.sum()  # a
        + z.sum()  # b
        + w.sum() + u.sum()
)
"""


def test_comments_stay(tmp_path):
    with_run, _ = check(tmp_path, module(COMMENTS), training=(False,))
    said = [line.partition("#")[2] for line in COMMENTS.splitlines() if "#" in line]
    for one in said:
        assert with_run.text.count(f"#{one}\n") == COMMENTS.count(f"#{one}\n"), one


def test_a_statement_that_blocks_keeps_its_text(tmp_path):
    ported = port_text(tmp_path, module("# why\ny = F.rrelu_(  # what\n    x)\nreturn y"))
    assert (
        "        # why\n        # y = F.rrelu_(  # what\n        #     x)\n        raise NotImplementedError("
        in ported.text
    )
    (entry,) = ported.entries
    assert entry.text == "y = F.rrelu_(  # what" and entry.line == 18 and entry.message in ported.text


def test_only_the_statement_itself_is_left_out(tmp_path):
    """The body of an `if` whose test is decided runs, apart from the line that is not."""
    ported = port_text(tmp_path, module("if x.ndim > 2:\n    x.backward()\nelse:\n    x = x.t()\nreturn x"))
    assert "if x.ndim > 2:" in ported.text and "x = x.T" in ported.text and ported.text.count("raise") == 1


def test_a_class_attribute_that_is_not_decided(tmp_path):
    ported = port_text(tmp_path, module("return x", more="STREAM = torch.cuda.Stream()"))
    assert "# STREAM = torch.cuda.Stream()\n    pass" in ported.text and ported.levels == {"blocks"}


@pytest.mark.parametrize("line", ["x = x.clone()", "x = x.contiguous()", "x = x.to(x.device)", "x = x.cpu()"])
def test_idle_assignments_go(line, tmp_path):
    with_run, _ = check(tmp_path, module(f"{line}\nreturn x"), training=(False,))
    assert with_run.body.endswith("x = x * self.scale\n        return x")


def test_a_block_that_becomes_empty_still_parses(tmp_path):
    check(tmp_path, module("if x.is_contiguous():\n    x = x.contiguous()\nreturn x"), training=(False,))


def test_long_lines(tmp_path):
    call = ", ".join(["self.a_layer_with_a_long_name(x)"] * 6)
    text = module(
        f"return torch.cat([{call}], dim=-1).view(x.shape[0], -1)", "self.a_layer_with_a_long_name = nn.Linear(3, 3)"
    )
    check(tmp_path, text, training=(False,))
