"""Names that torch exports but that models do not need: functions of one backend, types of TorchScript, storages.

These names have rules so that every public name of torch has one. Most of the rules only say in the register what to
write instead.
"""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_BACKENDS = {
    "F.batch_norm": "cudnn_batch_norm miopen_batch_norm batch_norm_elemt batch_norm_stats batch_norm_gather_stats "
    "batch_norm_gather_stats_with_counts batch_norm_update_stats batch_norm_backward_elemt batch_norm_backward_reduce",
    "F.conv2d": "convolution cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu miopen_convolution "
    "miopen_convolution_add_relu miopen_convolution_relu miopen_depthwise_convolution mkldnn_convolution",
    "F.conv_transpose2d": "cudnn_convolution_transpose miopen_convolution_transpose",
    "F.grid_sample": "cudnn_grid_sampler",
    "F.affine_grid": "cudnn_affine_grid_generator",
    "F.ctc_loss": "miopen_ctc_loss",
    "F.lstm": "miopen_rnn mkldnn_rnn_layer",
    "F.adaptive_avg_pool2d": "mkldnn_adaptive_avg_pool2d",
    "F.max_pool2d": "mkldnn_max_pool2d",
    "F.max_pool3d": "mkldnn_max_pool3d",
    "F.linear": "mkldnn_linear_backward_weights",
    "F.embedding_renorm": "embedding_renorm_",
    "tl.norm": "native_norm",
    "jnp.can_cast": "can_cast",
}

_SCRIPT = (
    "AVG SUM AggregationType AliasDb AnyType Argument ArgumentSpec AwaitType BenchmarkConfig "
    "BenchmarkExecutionStats Block BoolType BufferDict CallStack Capsule ClassType Code CompilationUnit "
    "CompleteArgumentSpec ComplexType ConcreteModuleType ConcreteModuleTypeBuilder DeepCopyMemoTable "
    "DeserializationStorageContext DeviceObjType DictType DisableTorchFunction DisableTorchFunctionSubclass "
    "DispatchKey DispatchKeySet EnumType ErrorReport ExcludeDispatchKeyGuard ExecutionPlan FileCheck FloatType "
    "FunctionSchema Future FutureType Gradient Graph GraphExecutorState IODescriptor InferredType IntType "
    "InterfaceType ListType LiteScriptModule LockingLogger ModuleDict Node NoneType NoopLogger NumberType "
    "OperatorInfo OptionalType ParameterDict PyObjectType PyTorchFileReader PyTorchFileWriter RRefType ScriptClass "
    "ScriptClassFunction ScriptDict ScriptDictIterator ScriptDictKeyIterator ScriptFunction ScriptList "
    "ScriptListIterator ScriptMethod ScriptModule ScriptModuleSerializer ScriptObject ScriptObjectProperty "
    "SerializationStorageContext StaticModule StreamObjType StringType SymBoolType SymIntType Tag TensorType "
    "ThroughputBenchmark TracingState TupleType Type UnionType Use Value autocast_decrement_nesting "
    "autocast_increment_nesting cpp cudnn_is_acceptable get_autocast_ipu_dtype get_autocast_xla_dtype "
    "import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema "
    "parse_type_comment set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled "
    "set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled "
    "set_autocast_xla_dtype set_autocast_xla_enabled unify_type_list"
)
_STORAGES = (
    "BoolStorage ByteStorage CharStorage DoubleStorage FloatStorage IntStorage LongStorage ShortStorage TypedStorage "
    "UntypedStorage HalfStorage BFloat16Storage ComplexFloatStorage ComplexDoubleStorage"
)
_ERRORS = {
    "AcceleratorError": "jax.errors.JaxRuntimeError",
    "OutOfMemoryError": "jax.errors.JaxRuntimeError",
    "FatalError": "jax.errors.JaxRuntimeError",
    "JITException": "jax.errors.JAXTypeError",
    "cuda.OutOfMemoryError": "jax.errors.JaxRuntimeError",
}

ROWS = (
    *(
        rule(f"torch.{name}", kind="register", note=f"It is a part of one backend. Write {ours}.")
        for ours, names in _BACKENDS.items()
        for name in names.split()
    ),
    *(rule(f"torch.{name}", kind="register", note="It serves TorchScript or torch itself. Leave it out.")
      for name in _SCRIPT.split()),
    *(rule(f"torch.{name}", kind="register", note="Arrays have no storage. Use the array itself.")
      for name in _STORAGES.split()),
    *(rule(f"torch.{name}", ours, result="class") for name, ours in _ERRORS.items()),
    *(
        rule(f"torch.{name}", kind="register", note="Write jax.nn.scaled_matmul, or (x * scale) @ y.")
        for name in ("_scaled_mm", "_scaled_mm_v2")
    ),
    rule("torch.view_as_complex_copy(input)", "tl.view_as_complex(input)"),
    rule("torch.view_as_real_copy(input)", "tl.view_as_real(input)"),
    rule("torch.get_device(input)", "-1", when="input.is_given", result="int"),
    *(
        rule(f"torch.{name}", kind="register", note="jax.grad computes it. Differentiate the function itself.")
        for name in ("native_dropout_backward", "ops.aten.*", "_C.*")
    ),
)  # fmt: skip
