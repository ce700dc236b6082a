"""`tl.autograd_function` against torch.autograd.Function: each class is written once and runs in both libraries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

A = np.random.default_rng(0).normal(size=(3, 4))
B = np.random.default_rng(1).normal(size=(3, 4))


class Scaled:
    """A gradient that is not the true one, so that only `backward` explains it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 5


class Product:
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.factor = 3.0
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return ctx.factor * gradient * y, gradient * x


class Clipped:
    """An argument that is a number, an attribute, and None as its gradient."""

    @staticmethod
    def forward(ctx, x, bound, reverse=False):
        ctx.bound, ctx.sign = bound, -1.0 if reverse else 1.0
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return ctx.sign * gradient.clip(-ctx.bound, ctx.bound), None, None


class Half:
    """None as the gradient of an argument that has one."""

    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


class Two:
    """Several outputs."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x + y, x * y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensors
        return first + second * y, first * 2 + second * x


class Kept:
    """`setup_context` apart from `forward`, and a tensor as an attribute."""

    @staticmethod
    def forward(x, y):
        return x * y.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_backward(x, output)
        ctx.total = y.sum()

    @staticmethod
    def backward(ctx, gradient):
        x, output = ctx.saved_tensors
        return gradient * ctx.total, gradient.sum() * x * 2 + output * 0


class Asked:
    """What `needs_input_grad` says."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y if ctx.needs_input_grad[0] else None, gradient * x if ctx.needs_input_grad[1] else None


CASES = {
    "Scaled": (Scaled, (A,)),
    "Product": (Product, (A, B)),
    "Clipped": (Clipped, (A, 0.5)),
    "Clipped, reversed": (Clipped, (A, 0.5, True)),
    "Half": (Half, (A, B)),
    "Two": (Two, (A, B)),
    "Kept": (Kept, (A, B)),
    "Asked": (Asked, (A, B)),
}


def torchs(cls):
    return type(cls.__name__, (torch.autograd.Function,), dict(vars(cls))).apply


def ours(cls):
    return tl.autograd_function(type(cls.__name__, (), dict(vars(cls)))).apply


def total(found, where):
    found = found if isinstance(found, tuple) else (found,)
    return sum(where.sin(one).sum() * (place + 1) for place, one in enumerate(found))


def split(arguments):
    """The arrays, and a function that puts the other arguments back."""
    arrays = [one for one in arguments if isinstance(one, np.ndarray)]
    return arrays, arguments[len(arrays) :]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("jit", [False, True])
def test_values_and_gradients(name, jit):
    cls, arguments = CASES[name]
    arrays, rest = split(arguments)
    tensors = [torch.tensor(one, requires_grad=True) for one in arrays]
    want = torchs(cls)(*tensors, *rest)
    total(want, torch).backward()
    with jax.enable_x64(True):
        apply = ours(cls)
        run = lambda *arrays: apply(*arrays, *rest)
        gradient = jax.grad(lambda *arrays: total(apply(*arrays, *rest), jnp), argnums=tuple(range(len(arrays))))
        if jit:
            run, gradient = jax.jit(run), jax.jit(gradient)
        got = run(*map(jnp.asarray, arrays))
        for a, b in zip(jax.tree.leaves(got), want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(a, b.detach(), rtol=1e-12)
        for a, one in zip(gradient(*map(jnp.asarray, arrays)), tensors, strict=True):
            wanted = np.zeros(one.shape) if one.grad is None else one.grad
            np.testing.assert_allclose(a, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["Scaled", "Product", "Two", "Kept"])
def test_second_derivatives(name):
    cls, arguments = CASES[name]
    tensors = [torch.tensor(one, requires_grad=True) for one in arguments]
    first = torch.autograd.grad(total(torchs(cls)(*tensors), torch), tensors, create_graph=True)
    want = torch.autograd.grad(sum(one.square().sum() for one in first), tensors, allow_unused=True)
    with jax.enable_x64(True):
        apply, places = ours(cls), tuple(range(len(arguments)))

        def squares(*arrays):
            found = jax.grad(lambda *arrays: total(apply(*arrays), jnp), argnums=places)(*arrays)
            return sum((one**2).sum() for one in found)

        got = jax.grad(squares, argnums=places)(*map(jnp.asarray, arguments))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, np.zeros(a.shape) if b is None else b, rtol=1e-10)


@pytest.mark.parametrize("name", ["Scaled", "Product", "Two"])
def test_vmap(name):
    cls, arguments = CASES[name]
    rows = [[torch.tensor(row, requires_grad=True) for row in one] for one in arguments]
    for each in zip(*rows, strict=True):
        total(torchs(cls)(*each), torch).backward()
    with jax.enable_x64(True):
        apply, places = ours(cls), tuple(range(len(arguments)))
        gradient = jax.grad(lambda *arrays: total(apply(*arrays), jnp), argnums=places)
        got = jax.vmap(gradient)(*map(jnp.asarray, arguments))
        for a, one in zip(got, rows, strict=True):
            np.testing.assert_allclose(a, np.stack([row.grad for row in one]), rtol=1e-12)


def test_arrays_inside_a_list_are_not_differentiated_by_torch():
    """Torch gives no gradient to tensors in a list, and so does `apply`."""

    class Sum:
        @staticmethod
        def forward(ctx, x, others):
            return x + others[0] * others[1]

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2, None

    x, y = torch.tensor(A, requires_grad=True), torch.tensor(B, requires_grad=True)
    torchs(Sum)(x, [y, y]).sum().backward()
    assert y.grad is None
    with jax.enable_x64(True):
        apply = ours(Sum)
        got = jax.grad(lambda x, y: apply(x, [y, y]).sum(), argnums=(0, 1))(jnp.asarray(A), jnp.asarray(B))
    np.testing.assert_allclose(got[0], x.grad)
    np.testing.assert_array_equal(got[1], 0)


def test_integers_have_no_gradient():
    class Taken:
        @staticmethod
        def forward(ctx, x, index):
            ctx.save_for_backward(index)
            ctx.zeros = 0 * x
            return x[index]

        @staticmethod
        def backward(ctx, gradient):
            (index,) = ctx.saved_tensors
            return gradient.sum() * len(index) + ctx.zeros, None

    x = torch.tensor(A, requires_grad=True)
    torchs(Taken)(x, torch.tensor([2, 0])).sum().backward()
    with jax.enable_x64(True):
        apply = ours(Taken)
        got = jax.jit(jax.grad(lambda x: apply(x, jnp.array([2, 0])).sum()))(jnp.asarray(A))
    np.testing.assert_allclose(got, x.grad)


def test_it_keeps_the_class():
    """Other methods of the class stay, and `apply` can be passed on."""

    @tl.autograd_function
    class Doubled:
        @staticmethod
        def helper(x):
            return 2 * x

        @staticmethod
        def forward(ctx, x):
            return Doubled.helper(x)

        @staticmethod
        def backward(ctx, gradient):
            return Doubled.helper(gradient)

    double = Doubled.apply
    assert float(double(jnp.float32(3.0))) == 6.0
    assert float(jax.grad(double)(3.0)) == 2.0


def test_the_old_name_of_the_saved_arrays():
    @tl.autograd_function
    class Square:
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_variables
            return 2 * x * gradient

    assert float(jax.grad(Square.apply)(3.0)) == 6.0
