"""The bytes of collectives, compared with numbers computed by hand from shapes of arrays and sizes of groups."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from funcnet import functional as F
from funcnet import nn, optim, parallel, train
from funcnet.models import bert
from funcnet.parallel import count_collectives
from funcnet.parallel.collectives import KINDS
from funcnet.tasks.pretraining import objective as losses
from funcnet.tasks.pretraining.task import SEQUENCES

WORDS, ROWS, LENGTH, SLOTS, WIDTH, LAYERS = 1000, 16, 64, 10, 256, 4  # of BERT-mini
FLOAT = 4  # bytes
REPLICATED = PartitionSpec()


def count(function, mesh, *inputs, out=REPLICATED):
    """The collectives of a function under shard_map; `inputs` are (shape, spec)."""
    mesh = parallel.make_mesh(mesh)
    specs = tuple(spec for _, spec in inputs)
    arrays = [jax.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, spec)) for shape, spec in inputs]
    run = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
    return count_collectives(jax.jit(run).lower(*arrays).compile())


def only(found, kind):
    """The bytes of the only kind of collective that there is."""
    assert [one for one, number in found.counts.items() if number] == [kind]
    return found.sent[kind]


ROWS_OF_8 = ((16, 6), PartitionSpec(("data", "model")))  # 2 rows a device
WHOLE = ((16, 6), PartitionSpec())
MESH = {"data": 4, "model": 2}


@pytest.mark.parametrize(
    ("kind", "function", "given", "out", "expected"),
    [
        # an all-reduce sends 2 (n - 1)/n of its operand
        ("all-reduce", lambda x: lax.psum(x, "data"), ROWS_OF_8, PartitionSpec("model"), 2 * 3 / 4 * 2 * 6 * FLOAT),
        ("all-reduce", lambda x: lax.pmax(x, "model"), ROWS_OF_8, PartitionSpec("data"), 2 * 1 / 2 * 2 * 6 * FLOAT),
        ("all-reduce", lambda x: lax.psum(x, ("data", "model")), ROWS_OF_8, PartitionSpec(), 7 / 4 * 2 * 6 * FLOAT),
        # an all-gather sends its own part n - 1 times
        (
            "all-gather",
            lambda x: lax.all_gather(x, "data", tiled=True),
            ROWS_OF_8,
            PartitionSpec("model"),
            3 * 2 * 6 * FLOAT,
        ),
        # a reduce-scatter and an all-to-all keep one of n parts
        (
            "reduce-scatter",
            lambda x: lax.psum_scatter(x, "data", tiled=True),
            WHOLE,
            PartitionSpec("data"),
            3 / 4 * 16 * 6 * FLOAT,
        ),
        (
            "all-to-all",
            lambda x: lax.all_to_all(x, "data", 0, 0, tiled=True),
            WHOLE,
            PartitionSpec("data"),
            3 / 4 * 16 * 6 * FLOAT,
        ),
        # a permutation sends its operand once
        (
            "collective-permute",
            lambda x: lax.ppermute(x, "data", [(i, (i + 1) % 4) for i in range(4)]),
            ROWS_OF_8,
            PartitionSpec(("data", "model")),
            2 * 6 * FLOAT,
        ),
    ],
)
def test_each_kind_sends_its_share(kind, function, given, out, expected):
    found = count(function, MESH, given, out=out)
    assert only(found, kind) == expected
    assert found.counts[kind] == 1 and not found.unknown


def test_an_all_reduce_of_several_arrays_is_one_operation():
    found = count(lambda x: lax.psum((x, x[0] * 2), ("data", "model")), MESH, ROWS_OF_8)
    assert found.counts["all-reduce"] == 1
    assert only(found, "all-reduce") == 2 * 7 / 8 * (2 * 6 + 6) * FLOAT


def test_a_permutation_to_itself_sends_nothing():
    found = count(lambda x: lax.ppermute(x, "data", [(0, 0), (1, 1)]), MESH, ROWS_OF_8, out=PartitionSpec("data"))
    assert sum(found.sent.values()) == 0


# -------------------------------------------------------------------------------------------------------------- loops


def test_a_loop_multiplies_by_its_iterations():
    found = count(lambda x: lax.fori_loop(0, 5, lambda i, x: lax.psum(x * 2, "data"), x), MESH, ROWS_OF_8)
    assert found.counts["all-reduce"] == 5 and len(found.operations) == 1
    assert only(found, "all-reduce") == 5 * 2 * 3 / 4 * 2 * 6 * FLOAT
    assert not found.unknown


def test_loops_in_loops_multiply():
    inner = lambda total, row: (lax.scan(lambda total, one: (lax.psum(total * one, "data"), None), total, row)[0], None)
    found = count(lambda x: lax.scan(inner, x[0, 0], x)[0], MESH, ROWS_OF_8)
    assert found.counts["all-reduce"] == 2 * 6  # 2 rows of 6 numbers
    assert only(found, "all-reduce") == 2 * 6 * 2 * 3 / 4 * FLOAT


def test_a_loop_without_a_known_end_is_named():
    grown = lambda x: lax.while_loop(lambda x: jnp.sum(x) < 5, lambda x: lax.psum(x * 2, "data"), x)
    found = count(grown, MESH, ROWS_OF_8)
    assert found.counts["all-reduce"] == 1
    (name,) = found.unknown
    assert name.startswith("while")
    assert str(found).endswith(f"unknown number of executions, counted as one: {name}")


def test_the_branches_of_a_conditional_are_named():
    either = lambda x: lax.cond(x[0, 0] > 0, lambda x: lax.psum(x, "data"), lambda x: lax.psum(x, "model") + 1, x)
    found = count(either, MESH, ROWS_OF_8)
    assert only(found, "all-reduce") == (2 * 3 / 4 + 2 * 1 / 2) * 2 * 6 * FLOAT
    assert found.unknown and all("conditional" in name for name in found.unknown)


# ---------------------------------------------------------------------------------------------------- forms of the text

HEADER = "HloModule step, num_partitions=8\n\nENTRY %main (x: f32[8]) -> f32[8] {\n  %x = f32[8]{0} parameter(0)\n"


def program(*lines, before=""):
    return HEADER.replace("\n\n", f"\n\n{before}\n", 1) + "".join(f"  {line}\n" for line in lines) + "}\n"


@pytest.mark.parametrize(
    ("lines", "kind", "expected"),
    [
        (
            [
                "%s = f32[8]{0} all-reduce-start(%x), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add",
                "ROOT %d = f32[8]{0} all-reduce-done(%s)",
            ],
            "all-reduce",
            2 * 3 / 4 * 32,
        ),
        (
            [
                "%s = (f32[8]{0}, f32[64]{0}) all-gather-start(%x), replica_groups=[1,8]<=[8], dimensions={0}",
                "ROOT %d = f32[64]{0} all-gather-done(%s)",
            ],
            "all-gather",
            7 * 32,
        ),
        (
            [
                "%s = (f32[8]{0}, f32[8]{0}) collective-permute-start(%x), source_target_pairs={{0,1},{1,0}}",
                "ROOT %d = f32[8]{0} collective-permute-done(%s)",
            ],
            "collective-permute",
            32,
        ),
        (
            [
                "%s = ((f32[8]{0}), f32[2]{0}) reduce-scatter-start(%x), replica_groups=[2,4]<=[8], dimensions={0}",
                "ROOT %d = f32[2]{0} reduce-scatter-done(%s)",
            ],
            "reduce-scatter",
            3 / 4 * 32,
        ),
    ],
)
def test_asynchronous_operations_count_once(lines, kind, expected):
    found = count_collectives(program(*lines))
    assert found.counts[kind] == 1
    assert only(found, kind) == expected


def test_an_operation_in_an_asynchronous_computation_counts_once():
    inside = (
        "%inside (y: f32[8]) -> f32[8] {\n  %y = f32[8]{0} parameter(0)\n"
        "  ROOT %r = f32[8]{0} all-to-all(%y), replica_groups={}, dimensions={0}\n}\n"
    )
    lines = [
        "%s = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(%x), calls=%inside",
        "%u = ((f32[8]{0}), f32[8]{0}, u32[]) async-update(%s), calls=%inside",
        "ROOT %d = f32[8]{0} async-done(%u), calls=%inside",
    ]
    assert only(count_collectives(program(*lines, before=inside)), "all-to-all") == 7 / 8 * 32


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        ("{{0,4},{1,5},{2,6},{3,7}}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("{}", (tuple(range(8)),)),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'b'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'a','b'}", (tuple(range(8)),)),
        ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0) {'b'}", ((7, 6, 5, 4), (3, 2, 1, 0))),
        ("mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
    ],
)
def test_the_groups_of_devices_are_read_in_every_form(written, groups):
    text = program(f"ROOT %s = f32[8]{{0}} all-reduce(%x), replica_groups={written}, to_apply=%add")
    assert count_collectives(text).operations[0].groups == groups


@pytest.mark.parametrize(
    ("dtype", "expected"), [("pred", 8), ("s4", 4), ("u8", 8), ("bf16", 16), ("f8e4m3fn", 8), ("f64", 64), ("c64", 64)]
)
def test_the_bytes_of_types(dtype, expected):
    text = program("ROOT %s = f32[8]{0} all-gather(%x), replica_groups={}, dimensions={0}").replace(
        "f32[8]", f"{dtype}[8]"
    )
    assert count_collectives(text).operations[0].payload == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "the text is not a program; expected HLO with an ENTRY, got 'hello'"),
        (
            program("ROOT %s = f32[8]{0} collective-broadcast(%x), replica_groups={}"),
            "s is of an unknown kind; expected",
        ),
        (program("ROOT %s = f32[8]{0} all-reduce(%x), replica_groups=new"), "the devices of s are unknown; expected"),
    ],
)
def test_what_cannot_be_read_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        count_collectives(text)


def test_the_table_has_the_kinds_that_there_are():
    found = count(lambda x: lax.psum(lax.all_gather(x, "model"), "data"), MESH, ROWS_OF_8)
    _, _, *rows = str(found).splitlines()
    assert [row.split()[0] for row in rows if row[0] != "-"] == ["all-reduce", "all-gather", "all"]
    assert rows[-1].split() == [
        "all",
        "2",
        "2",
        str(2 * 6 * FLOAT + 2 * 3 * 4 * 6 * FLOAT // 4),
    ]  # one part; 2 * 3/4 of both
    assert set(found.counts) == set(found.sent) == set(KINDS)


# ------------------------------------------------------------------------------------------------------ training steps


def step(net, mesh, objective, counts, batch, sequences=()):
    """The collectives of a training step."""
    layout = parallel.make_layout(mesh).for_net(net, sequences)
    optimizer = optax.sgd(0.1) if sequences == () else optim.bert_adamw(1e-3)
    state = jax.eval_shape(lambda: train.create(*net.init(jax.random.key(0)), optimizer))
    placed = lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
    state = jax.tree.map(placed, state, layout.shardings(state))
    run = parallel.parallelize(train.make_step(objective(net), counts, optimizer), layout, state=state, donate=True)
    compiled = run.lower(state, layout.shard(batch), layout.place(jax.random.key(0))).compile()
    parameters = sum(leaf.size for leaf in jax.tree.leaves(state.params))
    return count_collectives(compiled), parameters


def dense(mesh):
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 32))

    def objective(net):
        def run(params, state, batch, *, training, rng):
            out, state = net.apply(params, state, batch["x"], training=training, rng=rng)
            return {"fit": {"loss": jnp.sum((out - batch["y"]) ** 2)}}, state

        return run

    batch = {"x": np.zeros((16, 64), np.float32), "y": np.zeros((16, 32), np.float32)}
    return step(net, mesh, objective, lambda batch: {"fit": batch["x"].shape[0]}, batch)


SCALARS = 100 * FLOAT  # metrics, and whether the gradient is finite


def test_data_parallelism_sums_the_gradients_once():
    found, parameters = dense("data=8")
    gradients = 2 * 7 / 8 * parameters * FLOAT
    assert parameters == 64 * 128 + 128 + 128 * 256 + 256 + 256 * 32 + 32
    assert gradients <= only(found, "all-reduce") <= gradients + SCALARS


def test_fsdp_gathers_the_parameters_and_sums_the_gradients():
    """XLA for CPU sums the whole gradients, and each device takes its part: 2 (n - 1)/n instead of (n - 1)/n."""
    found, _ = dense("fsdp=8")
    weights = 64 * 128 + 128 * 256 + 256 * 32
    forward = 7 / 8 * weights * FLOAT
    backward = 7 / 8 * (128 * 256 + 256 * 32) * FLOAT  # the gradient of the input is not needed
    assert forward <= found.sent["all-gather"] <= forward + backward + SCALARS
    gradients = found.sent["all-reduce"] + found.sent["reduce-scatter"]
    assert 7 / 8 * weights * FLOAT <= gradients <= 2 * 7 / 8 * (weights + 416) * FLOAT + SCALARS


def bert_step(mesh):
    net = bert.BertForPreTraining(bert.BertConfig.preset("mini", vocab_size=WORDS))
    zeros = lambda *shape: np.zeros(shape, np.int32)
    batch = {name: zeros(ROWS, LENGTH) for name in ("input_ids", "attention_mask", "token_type_ids")}
    batch |= {name: zeros(ROWS, SLOTS) for name in ("masked_positions", "masked_ids")}
    batch |= {"masked_weights": np.zeros((ROWS, SLOTS), np.float32), "next_sentence_label": zeros(ROWS)}
    return step(net, mesh, losses.make_objective, losses.counts, batch, SEQUENCES)


@pytest.mark.slow
def test_data_parallelism_of_bert_sums_the_gradients():
    """Those of the positions that occur. XLA for CPU may sum both gradients of the word table, which is used twice."""
    found, parameters = bert_step("data=8")
    positions = bert.BertConfig.preset("mini").max_position_embeddings
    gradients = 2 * 7 / 8 * (parameters - (positions - LENGTH) * WIDTH) * FLOAT
    table = 2 * 7 / 8 * WORDS * WIDTH * FLOAT
    sent = only(found, "all-reduce")
    assert gradients <= sent <= gradients + SCALARS or gradients + table <= sent <= gradients + table + SCALARS


@pytest.mark.slow
def test_tensor_parallelism_of_bert_sums_hidden_states():
    """Megatron-LM's four sums per layer. XLA for CPU may sum the gradients of query, key and value one by one: six.

    The embeddings and the last layer add one sum each.
    """
    found, _ = bert_step("tensor=4,data=2")
    hidden = ROWS // 2 * LENGTH * WIDTH * FLOAT
    sums = [one.payload for one in found.operations if one.groups[0] == (0, 2, 4, 6) and one.payload >= hidden]
    assert all(one.kind == "all-reduce" for one in found.operations)
    assert 4 * LAYERS - 3 <= sum(sums) / hidden <= 6 * LAYERS + 2


def test_a_pair_of_layers_split_as_in_megatron_needs_one_sum_each_way():
    mesh = parallel.make_mesh({"tensor": 8})
    place = lambda shape, *axes: jax.ShapeDtypeStruct(
        shape, "float32", sharding=NamedSharding(mesh, PartitionSpec(*axes))
    )
    layers = lambda x, first, second: jnp.sum(jnp.tanh(x @ first) @ second, where=x > 0)
    arrays = place((32, 64), None, None), place((64, 256), None, "tensor"), place((256, 64), "tensor", None)
    compiled = jax.jit(jax.grad(lambda *given: layers(*given) ** 2)).lower(*arrays).compile()
    assert only(count_collectives(compiled), "all-reduce") == 2 * 2 * 7 / 8 * 32 * 64 * FLOAT


RING = PartitionSpec(None, None, "context")
HEADS, SIZE = 2, 8
PART = 3 * HEADS * 64 // 8 * SIZE * FLOAT  # the keys of a device: 3 rows of 64 tokens on 8 devices


def ring(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, axis_name="context", context_parallel="ring")


def test_the_ring_sends_keys_and_values_to_all_other_devices():
    found = count(ring, {"context": 8}, *[((3, HEADS, 64, SIZE), RING)] * 3, out=RING)
    assert only(found, "collective-permute") == 2 * 7 * PART
    assert not found.unknown


def test_the_ring_sends_keys_and_values_again_for_the_gradients_which_come_home():
    """The last step of keys and values, home, is not needed, and is sent."""
    gradient = jax.grad(lambda q, k, v: jnp.sum(ring(q, k, v) ** 2), argnums=(0, 1, 2))
    found = count(gradient, {"context": 8}, *[((3, HEADS, 64, SIZE), RING)] * 3, out=RING)
    needed = (2 * 7 + 2 * 7 + 2 * 8) * PART
    assert needed <= only(found, "collective-permute") <= needed + 2 * PART
