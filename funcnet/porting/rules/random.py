"""Random numbers. In a template, the name `rng` is replaced with an expression for a new key."""

from funcnet.porting.rule_engine.rule import Rule, rule

__all__ = ["ROWS"]

_NOTE = "The numbers are those of JAX's generator."


def _draws(signature: str, template: str, *, when: str = "", note: str = _NOTE) -> tuple[Rule, ...]:
    """Return the rules for a function of torch that draws random numbers."""
    return rule(signature, template, when=when, kind="structural", note=note)


# {torch's name: name in jax.random}, for functions that take a shape and a dtype
_SHAPED = {"rand": "uniform", "randn": "normal"}

_NEW = (
    *(
        row
        for name, ours in _SHAPED.items()
        for row in (
            _draws(f"torch.{name}(*shape, dtype=None)", f"jax.random.{ours}(rng, shape, dtype)"),
            _draws(f"torch.{name}_like(input)", f"jax.random.{ours}(rng, input.shape, input.dtype)"),
            _draws(f"torch.{name}_like(input)", f"tl.{name}_like(input, rng=rng)"),
            _draws(f"torch.{name}_like(input, *, dtype)", f"jax.random.{ours}(rng, input.shape, dtype)"),
        )
    ),
    _draws("torch.randint(high, shape)", "jax.random.randint(rng, shape, 0, high)"),
    _draws("torch.randint(low, high, shape)", "jax.random.randint(rng, shape, low, high)"),
    _draws("torch.randint(high, shape, *, dtype)", "jax.random.randint(rng, shape, 0, high).astype(dtype)"),
    _draws("torch.randint(low, high, shape, *, dtype)", "jax.random.randint(rng, shape, low, high).astype(dtype)"),
    _draws("torch.randint_like(input, high)", "jax.random.randint(rng, input.shape, 0, high).astype(input.dtype)"),
    _draws("torch.randint_like(input, low, high)",
           "jax.random.randint(rng, input.shape, low, high).astype(input.dtype)"),
    _draws("torch.randint_like(input, high, *, dtype)", "jax.random.randint(rng, input.shape, 0, high).astype(dtype)"),
    _draws("torch.randint_like(input, low, high, *, dtype)",
           "jax.random.randint(rng, input.shape, low, high).astype(dtype)"),
    _draws("torch.randperm(n)", "jax.random.permutation(rng, n)"),
    _draws("torch.randperm(n, *, dtype)", "jax.random.permutation(rng, n).astype(dtype)"),
)  # fmt: skip

_PARAMETERS = (
    _draws("torch.normal(mean, std, shape, *, dtype=None)", "std * jax.random.normal(rng, shape, dtype)",
           when="0 in (mean.value,)"),
    _draws("torch.normal(mean, std, shape, *, dtype=None)", "mean + std * jax.random.normal(rng, shape, dtype)"),
    _draws("torch.normal(mean, std=1.0)", "tl.normal(mean, std, rng=rng)"),
    _draws("torch.normal(std, mean=0.0)", "tl.normal(mean, std, rng=rng)"),
    _draws("both.bernoulli(input)", "jax.random.bernoulli(rng, input).astype(input.dtype)"),
    _draws("both.bernoulli(input, p=None)", "tl.bernoulli(input, p, rng=rng)"),
    _draws("Tensor.bernoulli(input, *, p=None)", "tl.bernoulli(input, p, rng=rng)"),
    _draws("both.multinomial(input, num_samples, replacement=False)",
           "tl.multinomial(input, num_samples, replacement, rng=rng)"),
    _draws("torch.poisson(input)", "jax.random.poisson(rng, input).astype(input.dtype)"),
    _draws("torch.poisson(input)", "tl.poisson(input, rng=rng)"),
    _draws("torch.binomial(count, prob)", "jax.random.binomial(rng, count, prob)"),
)  # fmt: skip

# Methods that fill a tensor. The template is the tensor's new value.
_IN_PLACE = (
    _draws("Tensor.normal_(input)", "jax.random.normal(rng, input.shape, input.dtype)"),
    _draws("Tensor.normal_(input, mean=0, std=1)", "std * jax.random.normal(rng, input.shape, input.dtype)"),
    _draws("Tensor.normal_(input, mean=0, std=1)", "mean + std * jax.random.normal(rng, input.shape, input.dtype)"),
    _draws("Tensor.normal_(input)", "tl.randn_like(input, rng=rng)"),
    _draws("Tensor.normal_(input, mean=0, std=1)", "std * tl.randn_like(input, rng=rng)"),
    _draws("Tensor.normal_(input, mean=0, std=1)", "mean + std * tl.randn_like(input, rng=rng)"),
    _draws("Tensor.uniform_(input, low=0, to=1)", "jax.random.uniform(rng, input.shape, input.dtype, low, to)"),
    _draws("Tensor.uniform_(input)", "tl.rand_like(input, rng=rng)"),
    _draws("Tensor.uniform_(input, low=0, to=1)", "low + (to - low) * tl.rand_like(input, rng=rng)"),
    _draws("Tensor.exponential_(input)", "jax.random.exponential(rng, input.shape, input.dtype)"),
    _draws("Tensor.exponential_(input, lambd=1)", "jax.random.exponential(rng, input.shape, input.dtype) / lambd"),
    _draws("Tensor.bernoulli_(input, p=0.5)", "jax.random.bernoulli(rng, p, input.shape).astype(input.dtype)"),
    _draws("Tensor.bernoulli_(input, p=0.5)", "tl.bernoulli(input, p, rng=rng)"),
    _draws("Tensor.geometric_(input, p)", "jax.random.geometric(rng, p, input.shape).astype(input.dtype)"),
    _draws("Tensor.cauchy_(input)", "jax.random.cauchy(rng, input.shape, input.dtype)"),
    _draws("Tensor.cauchy_(input, median=0, sigma=1)",
           "median + sigma * jax.random.cauchy(rng, input.shape, input.dtype)"),
    _draws("Tensor.log_normal_(input, mean=1, std=2)",
           "jnp.exp(mean + std * jax.random.normal(rng, input.shape, input.dtype))"),
    _draws("Tensor.random_(input, to)", "jax.random.randint(rng, input.shape, 0, to).astype(input.dtype)"),
    _draws("Tensor.random_(input, low, to)", "jax.random.randint(rng, input.shape, low, to).astype(input.dtype)"),
    rule("Tensor.random_(input)", kind="register",
         note="Write the range: jax.random.randint(self.make_rng(), x.shape, low, high)."),
)  # fmt: skip

_GENERATORS = (rule("torch.Generator", "jax.Array", kind="structural", note="In annotations: a key."),)

ROWS = (*_NEW, *_PARAMETERS, *_IN_PLACE, *_GENERATORS)
