"""Rules for settings and queries of torch: devices, gradient modes, compilers, versions, and names in annotations."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_ONE_PATH = "The value in a torch run without a compiler, an exporter, a GPU or autocast."
_TRUE = "A function does not know whether it is differentiated. The value is the same as in training."

_CAST = "Cast the params: tree.cast(params, jnp.bfloat16)."

_FALSE = (
    "jit.is_scripting", "jit.is_tracing", "_dynamo.is_compiling", "compiler.is_compiling", "compiler.is_exporting",
    "compiler.is_dynamo_compiling", "onnx.is_in_onnx_export", "is_autocast_cpu_enabled", "is_autocast_cache_enabled",
    "is_inference_mode_enabled", "cuda.is_available", "cuda.is_bf16_supported", "cuda.is_initialized",
    "cuda.is_current_stream_capturing", "xpu.is_available", "mps.is_available", "accelerator.is_available",
    "backends.mps.is_available", "backends.mps.is_built", "backends.cuda.is_built", "backends.cudnn.is_available",
    "backends.mkldnn.is_available", "distributed.is_available", "distributed.is_initialized",
    "are_deterministic_algorithms_enabled", "is_anomaly_enabled",
)  # fmt: skip

_FALSE_VALUES = (
    "backends.cudnn.enabled", "backends.cudnn.benchmark", "backends.cudnn.deterministic", "backends.cudnn.allow_tf32",
    "backends.cuda.matmul.allow_tf32",
)  # fmt: skip

# functions that are called for their effect on a GPU, on a generator or on torch itself
_NO_EFFECT = (
    "cuda.empty_cache()", "cuda.synchronize(device=None)", "cuda.set_device(device)", "cuda.manual_seed(seed)",
    "cuda.manual_seed_all(seed)", "cuda.reset_peak_memory_stats(device=None)", "use_deterministic_algorithms(mode)",
    "set_float32_matmul_precision(precision)", "set_num_threads(number)", "set_num_interop_threads(number)",
    "set_default_device(device)", "set_anomaly_enabled(mode)", "clear_autocast_cache()", "mps.empty_cache()",
    "xpu.empty_cache()", "_dynamo.mark_static_address(t)", "_dynamo.graph_break()", "_dynamo.mark_dynamic(t, index)",
)  # fmt: skip


def _parameter(signature: str) -> str:
    """Return a condition of a rule that mentions every parameter of torch's signature.

    A rule does not apply to a call that passes an argument which neither the template nor the condition uses. With this
    condition, the rule applies although the template ignores the arguments.
    """
    names = [part.partition("=")[0] for part in signature.partition("(")[2].removesuffix(")").split(", ") if part]
    return " and ".join(f"{name}.is_given" for name in names if name != "device")


_FUNCTIONS = (
    *(rule(f"torch.{name}()", "False", result="bool", note=_ONE_PATH) for name in _FALSE),
    *(rule(f"torch.{name}", "False", result="bool", note=_ONE_PATH) for name in _FALSE_VALUES),
    *(rule(f"torch.{one}", "None", when=_parameter(one), kind="structural", result="none") for one in _NO_EFFECT),
    rule("torch.is_autocast_enabled(device_type=None)", "False", when="device_type.is_given or True",
         result="bool", note=_ONE_PATH),
    rule("torch.get_autocast_dtype(device_type)", 'jnp.float16 if device_type == "cuda" else jnp.bfloat16', note=_CAST,
         result="dtype"),
    rule("torch.get_autocast_gpu_dtype()", "jnp.float16", note=_CAST, result="dtype"),
    rule("torch.get_autocast_cpu_dtype()", "jnp.bfloat16", note=_CAST, result="dtype"),
    rule("torch.jit.isinstance(obj, target_type)", kind="register", result="bool",
         note="Write isinstance for the container, and all(isinstance(…) for one in …) for what is in it."),
    rule("torch.is_grad_enabled()", "True", result="bool", note=_TRUE),
    rule("torch.cuda.device_count()", "0", result="int", note=_ONE_PATH),
    rule("torch.cuda.current_device()", "None", result="none"),
    rule("torch.distributed.get_rank()", "jax.process_index()", result="int"),
    rule("torch.distributed.get_world_size()", "jax.process_count()", result="int"),
    rule("torch.device(type, index=None)", "None", when="type.is_given and (index.is_given or True)",
         kind="structural", result="none",
         note="Arrays stay where the params are."),
    rule("torch.device", "jax.Device", note="In annotations."),
    rule("torch.get_default_device()", "None", result="none"),
    rule("torch.Size", "tuple"),
    rule("torch.layout", "object"),
    rule("torch.memory_format", "object"),
    rule("torch.__version__", "'2.13.0'", result="str", note="The release whose behaviour is ported."),
    rule("torch.version.__version__", "'2.13.0'", result="str", note="The release whose behaviour is ported."),
    rule("torch.version.cuda", "None", result="none"),
    rule("torch.version.hip", "None", result="none"),
    rule("torch._assert(condition, message)", kind="register", note="Write an assert statement."),
)  # fmt: skip

_CALLS = (
    # jax.checkpoint is left out: it changes no value, and a module inside it could not draw keys or assign buffers.
    rule("torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True)",
         "function(*args)", kind="semantic", when="use_reentrant.is_given or preserve_rng_state.is_given or True",
         note="All activations are stored. nn.remat(layer) in the constructor gives a layer that computes them again."),
    rule("torch.jit.script(obj)", "obj", note="Use jax.jit on the function that is called from outside."),
    rule("torch.jit.annotate(the_type, the_value)", "the_value", when="the_type.is_given"),
    rule("torch.jit.ignore(fn)", "fn"),
    rule("torch.jit.unused(fn)", "fn"),
    rule("torch.jit.export(fn)", "fn"),
    rule("torch.jit.script_if_tracing(fn)", "fn"),
    rule("torch.compile(model)", "model", note="Use jax.jit on the function that is called from outside."),
    rule("torch.compiler.disable(fn)", "fn"),
    rule("torch.fx.wrap(fn_or_name)", "fn_or_name"),
)  # fmt: skip

_CONSTANTS = (
    rule("torch.pi", "jnp.pi", result="float"),
    rule("torch.inf", "jnp.inf", result="float"),
    rule("torch.nan", "jnp.nan", result="float"),
    rule("torch.e", "jnp.e", result="float"),
    rule("torch.newaxis", "None", result="none"),
    *(
        rule(f"torch.{name}", "None", result="none", note="XLA chooses layouts.")
        for name in ("strided", "contiguous_format", "preserve_format", "channels_last", "channels_last_3d",
                     "legacy_contiguous_format")
    ),
)  # fmt: skip

ROWS = (*_FUNCTIONS, *_CALLS, *_CONSTANTS)
