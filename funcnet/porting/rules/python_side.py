"""Rules for the Python code around a model: function transforms, hooks, files, compilers, devices, processes.

A rule whose name ends in `.*` applies to every name of a module for which no other rule exists.
"""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]


def _register(names: str, note: str) -> tuple[tuple, ...]:
    """Return a rule of the kind "register" for each name. Names without "torch." or "Tensor." get "torch."."""
    return tuple(
        rule(name if name.startswith(("torch.", "Tensor.")) else f"torch.{name}", kind="register", note=note)
        for name in names.split()
    )


_TRANSFORMS = (
    *(
        row
        for place in ("torch", "torch.func")
        for row in (
            rule(f"{place}.vmap(func, in_dims=0, out_dims=0, randomness='error', *, chunk_size=None)",
                 "jax.vmap(func, in_dims, out_dims)", when="randomness.is_given or chunk_size.is_given or True",
                 result="function"),
        )
    ),
    rule("torch.func.grad(func, argnums=0, has_aux=False)", "jax.grad(func, argnums, has_aux)", result="function"),
    rule("torch.func.vjp(func, *primals, has_aux=False)", "jax.vjp(func, *primals, has_aux=has_aux)", result="tuple"),
    rule("torch.func.jvp(func, primals, tangents, *, has_aux=False)",
         "jax.jvp(func, primals, tangents, has_aux=has_aux)",
         result="tuple"),
    rule("torch.func.linearize(func, *primals)", "jax.linearize(func, *primals)", result="tuple"),
    rule("torch.func.jacrev(func, argnums=0, *, has_aux=False)", "jax.jacrev(func, argnums, has_aux)",
         result="function"),
    rule("torch.func.jacfwd(func, argnums=0, has_aux=False, *, randomness='error')",
         "jax.jacfwd(func, argnums, has_aux)",
         result="function"),
    rule("torch.func.hessian(func, argnums=0)", "jax.hessian(func, argnums)", result="function"),
    rule("torch.func.functionalize(func)", "func", result="function"),
    *_register("torch.func.grad_and_value",
               "Write jax.value_and_grad, which returns (value, gradient). torch returns (gradient, value)."),
    *_register("torch.func.functional_call", "Write net.apply(params, state, *inputs)."),
    *_register("torch.func.stack_module_state", "Write jax.vmap(net.init) with several keys."),
    *_register("torch.func.*", "Write the function of the same name in jax: grad, vjp, jvp, jacrev, vmap."),
    rule("torch.autograd.functional.jacobian(func, inputs)", "jax.jacrev(func)(inputs)", when="inputs.is_tensor"),
    rule("torch.autograd.functional.hessian(func, inputs)", "jax.hessian(func)(inputs)", when="inputs.is_tensor"),
    *_register("torch.autograd.functional.*", "Write jax.jacrev, jax.hessian, jax.vjp or jax.jvp with argnums."),
    *_register("torch.autograd.grad", "Write jax.grad or jax.vjp of a function of these arrays."),
    *_register("torch.autograd.backward", "Write jax.grad of a function of the params."),
    rule("torch.autograd.Variable(data, requires_grad=False, volatile=False)", "jax.lax.stop_gradient(data)",
         note="An array needs no wrapper. In torch, no gradient goes through it."),
    *_register("torch.autograd.variable", "Leave it out. An array needs no wrapper."),
    *_register("torch.autograd.Function torch.autograd.function.Function",
               "Write a function with jax.custom_vjp, or a class with tl.autograd_function."),
    *_register("torch.autograd.forward_ad.*", "Write jax.jvp."),
    *_register("torch.autograd.graph.*", "Write nn.remat, or jax.checkpoint with a policy."),
    *_register("torch.autograd.*", "Gradients are computed by jax.grad and similar functions, outside of the model."),
    *_register("no_grad inference_mode autograd.no_grad autograd.inference_mode autograd.grad_mode.no_grad",
               "Write jax.lax.stop_gradient around what is computed there."),
    *_register("enable_grad set_grad_enabled autograd.enable_grad autograd.set_grad_enabled",
               "Leave it out, and write jax.lax.stop_gradient where no gradient is wanted."),
    *(
        row
        for name in ("autocast", "amp.autocast", "cuda.amp.autocast", "cpu.amp.autocast")
        for row in (
            rule(f"torch.{name}", "tl.no_context", result="function",
                 note="Cast the params with tree.cast(params, jnp.bfloat16), or single arrays with astype."),
            rule(f"torch.{name}(device_type=None, dtype=None, enabled=True, cache_enabled=None)", "tl.no_context()",
                 result="other"),
        )
    ),
    *_register("GradScaler amp.GradScaler cuda.amp.GradScaler amp.* cuda.amp.*",
               "bfloat16 needs no scaling of the loss."),
    rule("torch.cond(pred, true_fn, false_fn, operands=())", "jax.lax.cond(pred, true_fn, false_fn, *operands)"),
    *_register("torch._higher_order_ops.* torch.ops.higher_order.*", "Write jax.lax.cond, scan or while_loop."),
)  # fmt: skip

_TREES = (
    rule("torch.utils._pytree.tree_map(func, tree, *rests)", "jax.tree.map(func, tree, *rests)", result="other"),
    rule("torch.utils._pytree.tree_leaves(tree)", "jax.tree.leaves(tree)", result="list"),
    rule("torch.utils._pytree.tree_flatten(tree)", "jax.tree.flatten(tree)", result="tuple"),
    rule("torch.utils._pytree.tree_unflatten(leaves, treespec)", "jax.tree.unflatten(treespec, leaves)",
         result="other"),
    *_register("torch.utils._pytree.*", "Write the function of the same name in jax.tree_util."),
)  # fmt: skip

_SIZES = (
    rule("torch.sym_float(a)", "float(a)", result="float"),
    rule("torch.sym_int(a)", "int(a)", result="int"),
    rule("torch.sym_max(a, b)", "max(a, b)", result="int"),
    rule("torch.sym_min(a, b)", "min(a, b)", result="int"),
    rule("torch.sym_not(a)", "not a", result="bool"),
    rule("torch.sym_sum(args)", "sum(args)", result="int"),
    rule("torch.sym_sqrt(a)", "math.sqrt(a)", result="float"),
    rule("torch.sym_ite(b, t, f)", "t if b else f", result="int"),
    *_register("SymInt SymFloat SymBool sym_fresh_size sym_constrain_range sym_constrain_range_for_size",
               "Sizes are Python numbers when JAX traces. Leave it out."),
)  # fmt: skip

_ANSWERS = (
    rule("torch.get_float32_matmul_precision()", "'highest'", result="str", note="See jax_default_matmul_precision."),
    rule("torch.get_deterministic_debug_mode()", "0", result="int"),
    *(
        rule(f"torch.{name}()", "False", result="bool")
        for name in ("is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "is_vulkan_available",
                     "is_anomaly_check_nan_enabled", "is_autocast_ipu_enabled", "is_autocast_xla_enabled",
                     "distributed.is_nccl_available", "distributed.is_gloo_available", "distributed.is_mpi_available",
                     "distributed.is_torchelastic_launched", "backends.opt_einsum.is_available")
    ),
    rule("both.is_distributed(input)", "False", when="input.is_given", result="bool"),
    *(
        rule(f"torch.{one}", "None", when=f"{one.partition('(')[2].rstrip(')').partition('=')[0] or 'True'}.is_given"
             if not one.endswith("()") else "", kind="structural", result="none")
        for one in ("set_warn_always(b)", "set_flush_denormal(mode)", "set_deterministic_debug_mode(debug_mode)",
                    "init_num_threads()", "_dynamo.reset()", "distributed.barrier()", "cuda.ipc_collect()",
                    "compiler.reset()", "compiler.cudagraph_mark_step_begin()")
    ),
    *(
        rule(f"torch.nn.modules.utils.{name}(x)", f"tl.ntuple(x, {n})", result="tuple")
        for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1)
    ),
    rule("torch.nn.init._calculate_fan_in_and_fan_out(tensor)", "nn.init.fans(tensor.shape)", result="tuple"),
    rule("torch.nn.init._calculate_correct_fan(tensor, mode)",
         "nn.init.fans(tensor.shape)[('fan_in', 'fan_out').index(mode.lower())]", result="int"),
    rule("torch.nn.modules.utils._ntuple(n)", "functools.partial(tl.ntuple, n=n)", result="function"),
    rule("torch.fft", "jnp.fft", result="other"),
    rule("torch.typename(obj)", "type(obj).__name__", result="str"),
    *(
        rule(f"torch._assert{name}(condition, message)", kind="register",
             note="Write an assert statement for sizes, and jax.experimental.checkify.check for values under jit.")
        for name in ("_async",)
    ),
    rule("torch.jit.fork(func, *args)", "func(*args)", result="other"),
    rule("torch.jit.wait(future)", "future", result="other"),
    rule("torch.fork(func, *args)", "func(*args)", result="other"),
    rule("torch.wait(future)", "future", result="other"),
    rule("torch._C._is_tracing()", "False", result="bool"),
    rule("torch._C._get_tracing_state()", "None", result="none"),
    rule("torch.overrides.has_torch_function(relevant_args)", "False", when="relevant_args.is_given", result="bool"),
    *(
        rule(f"torch.overrides.{name}(*args)", "False", when="args.is_given or True", result="bool")
        for name in ("has_torch_function_unary", "has_torch_function_variadic")
    ),
    rule("torch.overrides.is_tensor_like(inp)", "isinstance(inp, jax.Array)", result="bool"),
    *_register("torch.overrides.*", "Leave it out. Arrays have no __torch_function__."),
    rule("torch.utils.dlpack.from_dlpack(ext_tensor)", "jnp.from_dlpack(ext_tensor)"),
    *_register("torch.utils.dlpack.*", "Pass the array itself: it has __dlpack__."),
)  # fmt: skip

_FILES = (
    *_register("load serialization.load", "Write weights.load(path): it needs no torch and runs no code of the file."),
    *_register("save serialization.save", "Write weights.save(path, net.state_dict(params, state))."),
    *_register("hub.load_state_dict_from_url utils.model_zoo.load_url hub.download_url_to_file",
               "Download the file, then write net.load_state_dict(weights.load(path))."),
    *_register("hub.* utils.model_zoo.*", "Leave it out. Construct the model, and load the weights with weights.load."),
    *_register("serialization.*", "Leave it out, and load with weights.load."),
    *_register("from_file", "Write jnp.asarray(np.memmap(path, dtype))."),
    *_register("set_printoptions", "Write np.set_printoptions."),
    *_register("utils.data.*", "funcnet.data has the same names."),
    *_register("utils.tensorboard.*", "Write metrics as funcnet.train does, or use tensorboardX."),
    *_register("utils.cpp_extension.*",
               "Write the kernel with jax.experimental.pallas, or as a foreign function of jax.ffi."),
    *_register("utils.checkpoint.checkpoint_sequential utils.checkpoint.*",
               "Write nn.remat(layer) in the constructor. It computes activations again in the backward pass."),
    *_register("utils.hooks.*", "Write nn.Hooks."),
    *_register("utils.*", "It serves torch itself. Leave it out."),
    *_register("manual_seed random.manual_seed seed initial_seed get_rng_state set_rng_state random.* "
               "thread_safe_generator",
               "Keys are passed: net.apply(params, state, x, rng=jax.random.key(0))."),
    *_register("default_generator", "Write jax.random.key(0), and pass it as rng."),
)  # fmt: skip

_COMPILERS = (
    *_register(
        "export jit.trace jit.trace_module jit.save jit.load jit.freeze jit.optimize_for_inference",
        "Write jax.jit, or jax.export for a file.",
    ),
    *_register(
        "jit.ScriptModule jit.ScriptFunction jit.Attribute jit.Final jit.*", "Leave it out. JAX has no TorchScript."
    ),
    *_register("fx.*", "Write jax.make_jaxpr to see what a function computes."),
    *_register("compiler.* _dynamo.* _inductor.*", "Leave it out, or write jax.jit around the function."),
    *_register("export.*", "Write jax.export."),
    *_register("onnx.*", "Leave it out. The model is exported from JAX."),
    *_register("library.* ops.*", "Write the function with jax.numpy, or register it with jax.ffi."),
    *_register("profiler.* autograd.profiler.*", "Write jax.profiler.trace and jax.named_scope."),
)

_DEVICES = (
    *_register("cuda.amp.custom_fwd cuda.amp.custom_bwd", "Leave it out."),
    *_register("cuda.memory_allocated cuda.max_memory_allocated cuda.memory_reserved cuda.mem_get_info "
               "cuda.memory_summary",
               "Write jax.local_devices()[0].memory_stats()."),
    *_register("cuda.* xpu.* mps.* mtia.* cpu.* accelerator.* get_device_module",
               "Leave it out. jax.devices() lists the devices, and jax.device_put moves arrays."),
    *_register("Stream Event", "Leave it out. JAX orders its work itself. To wait, write jax.block_until_ready(x)."),
    *_register("backends.* nn.attention.*", "Leave it out. XLA chooses how it computes."),
    *_register("get_num_threads get_num_interop_threads", "Leave it out. XLA chooses the number of threads."),
    *_register("has_lapack has_mkl has_openmp has_spectral", "Leave it out. JAX always has these functions."),
    *_register("distributed.all_gather distributed.all_gather_into_tensor",
               "Write jax.lax.all_gather with the axis's name."),
    *_register("distributed.all_reduce distributed.reduce",
               "Write jax.lax.psum, pmean, pmax or pmin with the axis's name."),
    *_register("distributed.reduce_scatter distributed.reduce_scatter_tensor",
               "Write jax.lax.psum_scatter with the axis's name."),
    *_register("distributed.all_to_all distributed.all_to_all_single",
               "Write jax.lax.all_to_all with the axis's name."),
    *_register("distributed.send distributed.recv distributed.isend distributed.irecv distributed.broadcast",
               "Write jax.lax.ppermute with the axis's name."),
    *_register("distributed.init_process_group distributed.destroy_process_group",
               "Write jax.distributed.initialize()."),
    *_register("distributed.*", "A model on several devices is the same model under jax.jit with a mesh."),
    *_register("multiprocessing.* futures.*", "Leave it out. One process uses all its devices."),
)  # fmt: skip

_SAMPLE = (
    "Write jax.random.{0} for a sample, and jax.scipy.stats.{1} for the density. For example, "
    "Normal(m, s).rsample() is m + s * jax.random.normal(key, m.shape)."
)
_DISTRIBUTIONS = (
    *(
        row
        for name, draw, density in (
            ("Normal", "normal", "norm"), ("Bernoulli", "bernoulli", "bernoulli"), ("Categorical", "categorical",
                                                                                    "multinomial"),
            ("Uniform", "uniform", "uniform"), ("Beta", "beta", "beta"), ("Gamma", "gamma", "gamma"),
            ("Exponential", "exponential", "expon"), ("Laplace", "laplace", "laplace"), ("Poisson", "poisson",
                                                                                         "poisson"),
            ("Dirichlet", "dirichlet", "dirichlet"), ("Cauchy", "cauchy", "cauchy"), ("StudentT", "t", "t"),
            ("Gumbel", "gumbel", "gumbel_r"), ("Pareto", "pareto", "pareto"),
            ("Binomial", "binomial", "binom"), ("Multinomial", "multinomial", "multinomial"),
            ("MultivariateNormal", "multivariate_normal", "multivariate_normal"), ("Chi2", "chisquare", "chi2"),
        )
        for row in _register(f"distributions.{name}", _SAMPLE.format(draw, density))
    ),
    *_register("distributions.Geometric",
               "Write jax.random.geometric(key, p) - 1 for a sample, and jax.scipy.stats.geom.logpmf(x, p, loc=-1) for "
               "the density: torch counts the failures before the first success, and JAX all trials."),
    *_register("distributions.VonMises",
               "JAX draws no samples of this distribution: draw them with NumPy (np.random.Generator.vonmises) outside "
               "of jit. Write jax.scipy.stats.vonmises for the density."),
    *_register("distributions.*", "Write jax.random for samples, and jax.scipy.stats for densities."),
)  # fmt: skip

_TENSORS = (
    rule("Tensor.is_pinned(input)", "False", when="input.is_given", result="bool"),
    rule("Tensor.is_maia", "False", result="bool"),
    rule("Tensor.is_mtia", "False", result="bool"),
    *(rule(f"Tensor.{name}(input, device=None)", "input", note="An array stays where the params are.")
      for name in ("ipu", "xpu", "mtia")),
    rule("Tensor.as_subclass(input, cls)", "input", when="cls.is_given"),
    rule("Tensor.retains_grad", "False", result="bool"),
    *_register("Tensor.register_post_accumulate_grad_hook Tensor.reinforce",
               "jax.grad returns the gradients: apply the function to them."),
    *_register("Tensor.output_nr Tensor.grad_dtype Tensor.volatile Tensor.module_load", "Leave it out."),
    *_register("Tensor.apply_ Tensor.map_ Tensor.map2_", "Write jnp.vectorize or jax.vmap of the function."),
)  # fmt: skip

ROWS = (
    *_TRANSFORMS, *_TREES, *_SIZES, *_ANSWERS, *_FILES, *_COMPILERS, *_DEVICES, *_DISTRIBUTIONS, *_TENSORS,
)  # fmt: skip
