"""Which tests cover a module that has no test file of its own: {modules below the package: files or folders in tests}.

`{a,b}` stands for several modules of a folder. Every module has a row of its own or a test file at its own path; a row
whose module or test does not exist is an error.
"""

COVERED_BY = {
    "arguments.py": "train/test_refusals.py",
    "bridges/foreign_module.py": "bridges/test_from_nnx.py bridges/test_from_linen.py",
    "bridges/nested_dicts.py": "bridges/test_to_nnx.py bridges/test_to_linen.py",
    "cli/commands.py": "tasks/pretraining/test_task.py tasks/finetuning/test_task.py",
    "cli/fill_mask.py": "tasks/pretraining/test_task.py",
    "cli/predict.py": "tasks/finetuning/test_task.py",
    "cli/resume.py": "tasks/pretraining/test_task.py tasks/finetuning/test_task.py",
    "comparison/{against_torch,comparison_table,differences,recorded_runs,torch_objects}.py": "test_comparison.py",
    "data/loader_arguments.py": "data/test_dataloader.py data/torch_tests/test_torch_tests.py",
    "data/checks.py": "data/test_wrong_calls.py",
    "data/describe.py": "data/test_dataset.py",
    "data/distributed.py": "data/test_sampler.py",
    "data/endless.py": "data/test_positions.py train/test_fit.py",
    "data/global_draws_warning.py": "data/test_item_rng.py",
    "data/inline.py": "data/test_dataloader.py",
    "data/iterator.py": "data/test_dataloader.py data/test_threads.py",
    "data/joined.py": "tasks/pretraining_data/test_build.py tasks/pretraining_data/test_packing.py",
    "data/padded.py": "tasks/images/test_data.py tasks/test_meshes.py",
    "data/make_workers.py": "data/test_dataloader.py data/test_threads.py data/test_processes.py",
    "data/plan.py": "data/test_positions.py data/test_sampler.py",
    "data/subset.py": "data/test_dataset.py",
    "data/torch_worker_info.py": "data/test_sharing.py",
    "data/worker.py": "data/test_threads.py data/test_processes.py",
    "export/tflite/{layout,normalisation}.py": "export/tflite/test_export.py export/tflite/test_transformers.py",
    "export/tflite/{operators,writing}.py": "export/tflite/test_export.py export/tflite/test_transformers.py",
    "export/onnx/emitter.py": "export/onnx/test_lowering.py",
    "export/onnx/unsupported.py": "export/test_unsupported.py",
    "export/wasm/description.py": "export/wasm/test_module.py",
    "export/wasm/rules_control.py": "export/wasm/test_rules.py",
    "export/wasm/runner.py": "export/wasm/test_module.py",
    "export/wasm/unsupported.py": "export/test_unsupported.py",
    "figures.py": "train/test_surroundings.py quantization/test_quantization_loss.py sklearn/test_pictures.py",
    "functional/absent.py": "functional/test_signatures.py",
    "functional/attention_blocks.py": "functional/test_context_parallel.py",
    "functional/batch_records.py": "functional/test_batchnorm.py operators/native/test_batchnorm.py",
    "functional/channelshuffle.py": "functional/test_shuffle.py",
    "functional/checks.py": "functional/test_signatures.py",
    "functional/conv_transpose.py": "functional/test_conv.py",
    "functional/convolve.py": "functional/test_conv.py functional/test_platforms.py",
    "functional/convolve_kernel.py": "operators/native/test_convolution.py functional/test_conv.py",
    "functional/hard.py": "functional/test_activation.py",
    "functional/hyperbolic.py": "functional/test_activation.py",
    "functional/{pack_and_pad,packed_sequence}.py": "nn/utils/test_rnn.py",
    "functional/pixelshuffle.py": "functional/test_shuffle.py",
    "functional/recurrence.py": "functional/test_rnn.py",
    "functional/reduction.py": "functional/test_loss.py",
    "functional/relu.py": "functional/test_activation.py",
    "functional/rnn_cells.py": "functional/test_rnn.py",
    "functional/vector_norm.py": "functional/test_distance.py functional/test_normalization.py",
    "functional/windows.py": "functional/test_pooling.py",
    "heads/buckets.py": "serving/test_inference.py",
    "heads/entities.py": "heads/test_metrics.py",
    "heads/fill_mask.py": "serving/test_inference.py",
    "heads/input_settings.py": "serving/test_inference.py tasks/finetuning/test_task.py",
    "heads/reading/{examples,glue,squad,tables}.py": "heads/test_reading.py",
    "operators/argument_binding.py": "operators/test_operator.py",
    "operators/graph/{jaxpr_equation,jaxpr_evaluation,jax_shape_primitives}.py": (
        "operators/graph/test_jax_primitives.py"
    ),
    "operators/graph/picture.py": "operators/graph/test_backward_graph.py",
    "operators/graph/function_plans/{attention,circular_padding,class_losses,distances,losses}.py": (
        "operators/graph/test_layers.py operators/graph/test_functions.py operators/graph/test_bert.py"
    ),
    "operators/graph/function_plans/{linear_and_convolution,normalization,pooling,recurrent,single_operations}.py": (
        "operators/graph/test_layers.py operators/graph/test_functions.py"
    ),
    "operators/graph/torch_operations/aten_values.py": (
        "operators/graph/test_layers.py operators/graph/test_functions.py"
    ),
    "operators/graph/torch_operations/composite_operations.py": (
        "operators/graph/test_layers.py operators/graph/test_jax_primitives.py"
    ),
    "operators/graph/torch_operations/tape.py": "operators/graph/test_jax_primitives.py",
    "operators/derivatives.py": "operators/test_operator.py",
    "operators/schema.py": "operators/test_schema_parsing.py",
    "operators/varying_axes.py": "functional/test_linear_cross_entropy.py operators/test_primitives.py",
    "heads/windows.py": "heads/test_answer.py",
    "heads/{choice,encoding,head,table,text,tokens}.py": "heads/test_directory.py tasks/finetuning/test_rows.py",
    "loops/control.py": "export/wasm/test_rules.py",
    "loops/lowering.py": "loops/test_fusion.py export/wasm/test_module.py",
    "loops/nest.py": "loops/test_fusion.py export/wasm/test_rules.py",
    "loops/nest_kernels.py": "export/wasm/test_rules.py export/wasm/test_module.py",
    "loops/operations.py": "export/wasm/test_trace.py",
    "loops/{piecewise_kernels,pointwise,sorting}.py": "export/wasm/test_rules.py",
    "loops/program.py": "loops/test_fusion.py export/wasm/test_module.py",
    "models/bert/architectures.py": "heads/test_directory.py",
    "models/bert/activation.py": "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py",
    "models/bert/attention.py": "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py",
    "models/bert/classification.py": (
        "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py"
    ),
    "models/bert/configuration.py": (
        "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py"
    ),
    "models/bert/embeddings.py": "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py",
    "models/bert/encoder.py": "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py",
    "models/bert/pretraining_heads.py": (
        "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py"
    ),
    "models/bert/initialise.py": "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py",
    "models/bert/modeling.py": "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py",
    "models/bert/question_answering.py": (
        "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py"
    ),
    "models/bert/vocabulary_padding.py": (
        "models/bert/test_model.py models/bert/test_parity.py models/bert/test_pretrained.py"
    ),
    "models/loading/{checkpoint_arrays,naming}.py": "models/loading/test_model_weights.py",
    "nn/core/absent.py": "nn/test_public_names.py",
    "nn/module/computed_attributes.py": "nn/utils/test_parametrize.py nn/utils/test_prune.py",
    "nn/state_dict/sliced_array.py": "models/test_sharded_loading.py",
    "nn/module/initial_arrays.py": "nn/utils/test_parametrize.py nn/utils/test_prune.py",
    "nn/state_dict/torch_tensors.py": "nn/state_dict/test_state_dict.py",
    "nn/core/{binding,description,rebinding,unbound_calls}.py": "nn/module/test_module.py",
    "nn/module/{display,sharding}.py": "nn/module/test_module.py",
    "nn/functional.py": "nn/test_public_names.py",
    "nn/init/arrays.py": "nn/init/test_initialisers.py",
    "nn/parameter.py": "nn/test_public_names.py",
    "nn/utils/absent.py": "nn/utils/test_public_names.py",
    "nn/utils/prune_methods.py": "nn/utils/test_prune.py",
    "nn/utils/update_bn.py": "optim/test_swa_utils.py",
    "nn/utils/{orthogonal,parametrized,prefix}.py": "nn/utils/test_parametrize.py nn/utils/test_parametrizations.py",
    "nn/utils/{renamed,spectral_norm,weight_norm}.py": "nn/utils/test_parametrize.py nn/utils/test_parametrizations.py",
    "nn/adaptive_pooling.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/channelshuffle.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/conv_transpose.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/distance.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/flatten.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/fold.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/fractional_pooling.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/hard.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/instancenorm.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/lazy_conv.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/lazy_norm.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/linear.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/loss.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/loss_base.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/loss_classification.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/loss_distance.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/loss_margin.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/loss_regression.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/lp_pooling.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/normalization.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/padding.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/parameter_container.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/pixelshuffle.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/pooling.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/relu.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/rnn_cells.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/softmax.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/transformer_layer.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "nn/unpooling.py": "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers",
    "nn/upsampling.py": (
        "nn/test_layers.py nn/test_layer_axes.py nn/test_layer_init.py nn/test_layer_refusals.py layers"
    ),
    "optim/clipping.py": "nn/utils/test_clip_grad.py",
    "optim/hyperparameters.py": "train/test_refusals.py",
    "parallel/checks.py": "parallel/test_layout.py",
    "parallel/{coordinator,errors,launchers,proposal}.py": "parallel/test_processes.py",
    "parallel/watchers.py": "parallel/test_processes.py",
    "porting/analysis/aliasing.py": "porting/transforms/test_views.py",
    "porting/analysis/name_effects.py": "porting/transforms/test_views.py",
    "porting/analysis/aliasing_findings.py": "porting/transforms/test_views.py",
    "porting/analysis/hoisting.py": "porting/transforms/test_calls.py porting/test_published_models.py cli/test_port.py",  # noqa: E501
    "porting/analysis/mutations.py": "porting/transforms/test_views.py",
    "porting/analysis/shared_storage.py": "porting/transforms/test_views.py",
    "porting/analysis/torch_results.py": "porting/analysis/test_type_inference.py",
    "porting/analysis/{view_expressions,view_plans}.py": "porting/transforms/test_views.py",
    "porting/port.py": "porting/transforms/test_calls.py porting/test_published_models.py cli/test_port.py",
    "porting/expression_facts/named_facts.py": "porting/analysis/test_type_inference.py",
    "porting/proving/{parameter_defaults,torch_random_functions}.py": (
        "porting/transforms/test_calls.py porting/test_published_models.py cli/test_port.py"
    ),
    "porting/rules/{attention,internal,joining}.py": "porting/rules/test_cover_torch.py porting/rules/test_shape.py",
    "porting/rules/{linalg,sorting,sparse,special}.py": "porting/rules/test_cover_torch.py porting/rules/test_shape.py",
    "porting/transforms/docstrings.py": (
        "porting/transforms/test_calls.py porting/test_published_models.py cli/test_port.py"
    ),
    "porting/transforms/rewrite_context.py": (
        "porting/rewriting/test_rewriter.py porting/rewriting/test_rewritten_file.py"
    ),
    "quantization/batch_products.py": "quantization/test_transformer_parts.py",
    "quantization/layer_norm.py": "quantization/test_transformer_parts.py",
    "quantization/loss_report.py": "quantization/test_quantization_loss.py",
    "quantization/softmax.py": "quantization/test_transformer_parts.py",
    "quantization/{calibration,evaluation,graph}.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "quantization/{integer_operations,network}.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "quantization/{placement,recognised_functions}.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "quantization/recognised_pooling.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "quantization/recognised_products.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "quantization/recognised_shapes.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "quantization/recognised_transformers.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "quantization/{recognition,residuals,tracing}.py": "quantization/test_conversion.py export/tflite/test_export.py",
    "table.py": "nn/module/test_summary.py",
    "tasks/features/{extract,files}.py": "tasks/features/test_command.py",
    "tasks/finetuning/batches.py": "tasks/finetuning/test_rows.py",
    "tasks/finetuning/{data,directory,settings,show}.py": "tasks/finetuning/test_task.py",
    "tasks/images/settings.py": "tasks/images/test_task.py",
    "tasks/pretraining/{report_panels,settings}.py": "tasks/pretraining/test_task.py",
    "tasks/pretraining_data/cache.py": "tasks/pretraining_data/test_known_files.py",
    "tasks/pretraining_data/dataset.py": "tasks/pretraining_data/test_reader.py",
    "tasks/pretraining_data/data_report.py": (
        "tasks/pretraining_data/test_build.py tasks/pretraining_data/test_masking.py"
    ),
    "tasks/pretraining_data/{build_state,commands,manifest,pair_shards}.py": "tasks/pretraining_data/test_build.py",
    "tasks/pretraining_data/{progress,shard,text_shards,vocabulary}.py": "tasks/pretraining_data/test_build.py",
    "tasks/quantizing/{settings,source,texts}.py": "tasks/quantizing/test_task.py",
    "text/bulk_tokenizer.py": "tasks/pretraining_data/test_token_shards.py",
    "text/compressed.py": "text/test_readers.py",
    "text/sentences.py": "text/test_corpus.py",
    "text/tokenizer.py": "text/test_wordpiece.py",
    "sklearn/{classifier,criteria,fingerprint,networks,scikit_parameters}.py": "sklearn/test_estimators.py",
    "sklearn/{regressor,traced_parameters,training}.py": "sklearn/test_estimators.py",
    "sklearn/keras/{constraints,layers,losses,models,optimizers}.py": "sklearn/keras/test_against_keras.py",
    "sklearn/results.py": "sklearn/test_pictures.py",
    "sklearn/joint_training.py": "sklearn/test_search.py",
    "train/user_functions.py": "train/test_step.py train/test_refusals.py",
    "train/best_evaluation.py": "train/test_run.py tasks/finetuning/test_task.py",
    "train/fit_checks.py": "train/test_fit.py train/test_refusals.py",
    "train/fit_data.py": "train/test_batches.py train/test_refusals.py",
    "train/fit_loss.py": "train/test_fit.py train/test_refusals.py",
    "train/{fit_task,setting_types}.py": "train/test_fit.py",
    "train/continuation.py": "train/test_loop.py train/test_recovery.py",
    "train/means.py": "train/test_loop.py",
    "train/precision.py": "train/test_step.py",
    "train/seeds.py": "tasks/finetuning/test_task.py",
    "train/setting_types.py": "train/test_refusals.py",
    "train/setting_groups.py": "train/test_run.py train/test_refusals.py",
    "train/state.py": "train/test_step.py",
    "train/task_interface.py": "train/test_run.py",
    "train/{compilation_cache,errors,interruption}.py": "train/test_surroundings.py train/test_loop.py",
    "train/{faults,replay,trials}.py": "train/test_recovery.py",
    "train/{nan_trace,pending_metrics,progress,report_picture}.py": "train/test_surroundings.py train/test_loop.py",
    "train/stored_arrays.py": "train/test_checkpoints.py train/test_storable.py train/test_damage.py",
    "train/versions.py": "train/test_surroundings.py train/test_loop.py",
    "weights/admitted_names.py": "weights/test_plain_data.py weights/test_hostile_files.py",
    "weights/errors.py": "weights/test_hostile_files.py",
    "weights/unpickle.py": (
        "weights/test_plain_data.py weights/test_hostile_files.py weights/test_torch_files_parity.py"
    ),
    "weights/{file_formats,mapped,pickle_writer}.py": (
        "weights/test_load_and_save.py weights/test_torch_files_parity.py"
    ),
    "weights/{safetensors_format,sharded,storages}.py": (
        "weights/test_load_and_save.py weights/test_torch_files_parity.py"
    ),
    "weights/{torch_legacy,torch_zip}.py": "weights/test_load_and_save.py weights/test_torch_files_parity.py",
}
