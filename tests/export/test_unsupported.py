"""What the forms do not support: the tables in the code, in docs/export.md, and in the errors."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import primitives

from funcnet.export import tracing
from funcnet.export.onnx import lowering
from funcnet.export.onnx import unsupported as onnx
from funcnet.export.onnx.export import to_onnx
from funcnet.export.unsupported import EVERY_FORM, NO_RULE, reason_for
from funcnet.export.wasm import rules
from funcnet.export.wasm import unsupported as wasm
from funcnet.export.wasm.module import to_wasm
from funcnet.operators import jaxprs

TABLES = {"all": EVERY_FORM, "ONNX": onnx.UNSUPPORTED, "WebAssembly": wasm.UNSUPPORTED}
RULES = {"ONNX": lowering.RULES, "WebAssembly": rules.RULES}
FORMS = {"ONNX": to_onnx, "WebAssembly": to_wasm}
X = np.eye(4, dtype=np.float32)
# Primitives of JAX that a function for inference on one device does not have.
INTERNAL = {"add_any", "after_all", "create_token", "custom_linear_solve", "empty2", "eq_to", "get", "le_to", "lt_to"}
INTERNAL |= {"approx_top_k", "custom_lin", "ragged_all_to_all", "swap"}


@pytest.mark.parametrize("form", TABLES)
def test_the_guide_has_the_rows_of_the_code(form):
    guide = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8").splitlines()
    table = guide[guide.index("| form | not supported | reason |") :]
    rows = [line for line in table[: table.index("")] if line.startswith(f"| {form} | ")]
    written = [row for row in rows if "functions that draw" not in row and "nets that change" not in row]
    assert written == [f"| {form} | {one.text} | {one.reason} |" for one in TABLES[form]]


@pytest.mark.parametrize("form", RULES)
def test_primitives_have_either_a_rule_or_a_reason(form):
    refused = [name for one in TABLES[form] if not one.use for name in one.primitives]
    assert len(refused) == len({*refused}) > 30 and not {*refused} & {*RULES[form]}
    used = {name for one in TABLES[form] if one.use for name in one.primitives}
    assert used <= {*RULES[form]} | {name.replace("_", "-") for name in RULES[form]}
    known = {primitive.name for name, primitive in vars(primitives).items() if name.endswith("_p")}
    missing = known - {*RULES[form]} - {*refused} - INTERNAL - jaxprs.CALLS - tracing.CALLBACKS - tracing.RANDOM
    assert not missing, "add the reason to the table of the form"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "run, name",
    [
        (lambda x: jax.lax.lgamma(x), "lgamma"),
        (jnp.linalg.cholesky, "cholesky"),
        (lambda x: jnp.abs(jnp.fft.rfft(x)), "fft"),
        (lambda x: jax.lax.cumlogsumexp(x), "cumlogsumexp"),
    ],
)
def test_errors_name_the_reason(form, run, name):
    with pytest.raises(ValueError, match=f"got '{name}'") as error:
        FORMS[form](run, X)
    assert reason_for(name, TABLES[form]).advice in str(error.value)


def test_other_primitives_have_no_rule():
    assert reason_for("no_such_primitive", wasm.UNSUPPORTED) is NO_RULE
    assert reason_for("sort", onnx.UNSUPPORTED) is NO_RULE  # its row is about several keys
