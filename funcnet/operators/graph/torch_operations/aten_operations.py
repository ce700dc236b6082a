"""Torch's differentiable operations, each of which makes one node, and the values that the nodes save.

A row of the table contains the operation, its tensors in the order of torch's signature, the name of the node, and the
names of the saved values. No gradient flows to tensors marked with `-`. `mat1?mat2` means that the node saves `mat1`
only if `mat2` requires a gradient.

Reference: tools/autograd/derivatives.yaml of torch 2.13. `test_aten_operations.py` compares the table with the copy of
this file that torch installs.
"""

from dataclasses import dataclass

__all__ = ["ATEN", "AtenOperation"]


@dataclass(frozen=True)
class AtenOperation:
    """An operation of torch that makes a node.

    Attributes:
        inputs: names of its tensors.
        fixed: names of the tensors to which no gradient flows.
        node: the name of its node.
        saved: {name of a saved value: the input that must require a gradient for the value to be saved, or None}.
    """

    inputs: tuple[str, ...]
    fixed: frozenset[str]
    node: str
    saved: dict[str, str | None]


def _read(table: str) -> dict[str, AtenOperation]:
    found = {}
    for line in table.strip().splitlines():
        name, inputs, node, saved = (part.strip() for part in line.split("|"))
        both = [one.partition("?") for one in saved.split()]
        found[name] = AtenOperation(
            tuple(one.removeprefix("-") for one in inputs.split()),
            frozenset(one[1:] for one in inputs.split() if one.startswith("-")),
            node,
            {what: needed or None for what, _, needed in both},
        )
    return found


ATEN = _read("""
relu | self | ReluBackward0 | result
hardtanh | self | HardtanhBackward0 | self min_val max_val
threshold | self | ThresholdBackward0 | self threshold
hardsigmoid | self | HardsigmoidBackward0 | self
hardswish | self | HardswishBackward0 | self
hardshrink | self | HardshrinkBackward0 | self lambd
softshrink | self | SoftshrinkBackward0 | self lambd
leaky_relu | self | LeakyReluBackward0 | self negative_slope
_prelu_kernel | self weight | PreluKernelBackward0 | self weight
view | self | ViewBackward0 |
rrelu_with_noise | self -noise | RreluWithNoiseBackward0 | self noise lower upper training
elu | self | EluBackward0 | self alpha scale input_scale
celu | self | CeluBackward0 | self alpha
silu | self | SiluBackward0 | self
mish | self | MishBackward0 | self
gelu | self | GeluBackward0 | self approximate
tanh | self | TanhBackward0 | result
sigmoid | self | SigmoidBackward0 | result
log_sigmoid_forward | self | LogSigmoidBackward0 | self buffer
softplus | self | SoftplusBackward0 | self beta threshold
div.Tensor | self other | DivBackward0 | self?other other
div.Scalar | self | DivBackward1 | other
add.Tensor | self other | AddBackward0 | alpha
add.Scalar | self | AddBackward1 |
sub.Tensor | self other | SubBackward0 | alpha
sub.Scalar | self | SubBackward1 |
rsub.Tensor | self other | RsubBackward0 | alpha
rsub.Scalar | self | RsubBackward1 | alpha
mul.Tensor | self other | MulBackward0 | self?other other?self
mul.Scalar | self | MulBackward1 | other
abs | self | AbsBackward0 | self
glu | self | GluBackward0 | self dim
_softmax | self | SoftmaxBackward0 | dim result
_safe_softmax | self | SafeSoftmaxBackward0 | dim result
_log_softmax | self | LogSoftmaxBackward0 | dim result
neg | self | NegBackward0 |
transpose.int | self | TransposeBackward0 | dim0 dim1
mean | self | MeanBackward0 |
mean.dim | self | MeanBackward1 | dim keepdim
addmm | self mat1 mat2 | AddmmBackward0 | mat2?mat1 alpha mat1?mat2 beta
t | self | TBackward0 |
_unsafe_view | self | UnsafeViewBackward0 |
clone | self | CloneBackward0 |
bmm | self mat2 | BmmBackward0 | self?mat2 mat2?self
baddbmm | self batch1 batch2 | BaddbmmBackward0 | batch2?batch1 alpha batch1?batch2 beta
mm | self mat2 | MmBackward0 | self?mat2 mat2?self
split.Tensor | self | SplitBackward0 | split_size dim
cat | tensors | CatBackward0 | dim
repeat | self | RepeatBackward0 | repeats
native_layer_norm | input weight bias | NativeLayerNormBackward0 | input normalized_shape weight bias result1 result2
permute | self | PermuteBackward0 | dims
_scaled_dot_product_flash_attention_for_cpu | query key value -attn_mask | ScaledDotProductFlashAttentionForCpuBackward0 | query key value dropout_p is_causal attn_mask scale output logsumexp
select.int | self | SelectBackward0 | dim index
squeeze | self | SqueezeBackward0 |
squeeze.dim | self | SqueezeBackward1 | dim
squeeze_.dim | self | SqueezeBackward4 | dim
_reshape_alias | self | ReshapeAliasBackward0 |
squeeze.dims | self | SqueezeBackward2 | dim
unsqueeze | self | UnsqueezeBackward0 | dim
split_with_sizes | self | SplitWithSizesBackward0 | split_sizes dim
native_batch_norm | input weight bias -running_mean -running_var | NativeBatchNormBackward0 | input weight running_mean running_var training eps result1 result2
convolution | input weight bias | ConvolutionBackward0 | input weight stride padding dilation transposed output_padding groups
slice.Tensor | self | SliceBackward0 | dim start end step
reflection_pad1d | self | ReflectionPad1DBackward0 | self padding
reflection_pad2d | self | ReflectionPad2DBackward0 | self padding
reflection_pad3d | self | ReflectionPad3DBackward0 | self padding
replication_pad1d | self | ReplicationPad1DBackward0 | self padding
replication_pad2d | self | ReplicationPad2DBackward0 | self padding
replication_pad3d | self | ReplicationPad3DBackward0 | self padding
sum | self | SumBackward0 |
sum.dim_IntList | self | SumBackward1 | dim keepdim
linalg_vector_norm | self | LinalgVectorNormBackward0 | self ord dim keepdim result
norm.ScalarOpt_dim | self | NormBackward1 | self p dim keepdim result
_trilinear | i1 i2 i3 | TrilinearBackward0 | i1 i2 i3 expand1 expand2 expand3 sumdim
nll_loss_forward | self -target -weight | NllLossBackward0 | self target weight reduction ignore_index total_weight
nll_loss2d_forward | self -target -weight | NllLoss2DBackward0 | self target weight reduction ignore_index total_weight
masked_fill.Scalar | self -mask | MaskedFillBackward0 | mask
binary_cross_entropy_with_logits | self target -weight -pos_weight | BinaryCrossEntropyWithLogitsBackward0 | self target weight pos_weight reduction
binary_cross_entropy | self target -weight | BinaryCrossEntropyBackward0 | self target weight reduction
_ctc_loss.Tensor | log_probs -targets -input_lengths -target_lengths | CtcLossBackward1 | log_probs targets input_lengths target_lengths blank zero_infinity result0 result1
_ctc_loss | log_probs -targets | CtcLossBackward0 | log_probs targets input_lengths target_lengths blank zero_infinity result0 result1
where.self | -condition self other | WhereBackward0 | condition
mse_loss | self target | MseLossBackward0 | self target reduction
smooth_l1_loss | self target | SmoothL1LossBackward0 | self target reduction beta
huber_loss | self target | HuberLossBackward0 | self target reduction delta
xlogy.Tensor | self other | XlogyBackward0 | self other
exp | self | ExpBackward0 | result
log | self | LogBackward0 | self
pow.Tensor_Scalar | self | PowBackward0 | self exponent
pow.Tensor_Tensor | self exponent | PowBackward1 | self exponent result
pow.Scalar | exponent | PowBackward2 | self exponent result
clamp_min | self | ClampMinBackward0 | self min
clamp_max | self | ClampMaxBackward0 | self max
clamp | self | ClampBackward1 | self min max
soft_margin_loss | self -target | SoftMarginLossBackward0 | self target reduction
multi_margin_loss | self -target -weight | MultiMarginLossBackward0 | self target p margin weight reduction
multilabel_margin_loss_forward | self -target | MultilabelMarginLossBackward0 | self target reduction is_target
sqrt | self | SqrtBackward0 | result
minimum | self other | MinimumBackward0 | self other
maximum | self other | MaximumBackward0 | self other
gather | self -index | GatherBackward0 | self dim index sparse_grad
index_copy | self -index source | IndexCopyBackward0 | dim index
index_select | self -index | IndexSelectBackward0 | dim index
native_group_norm | input weight bias | NativeGroupNormBackward0 | input weight N C HxW group eps result1 result2
rsqrt | self | RsqrtBackward0 | result
avg_pool2d | self | AvgPool2DBackward0 | self kernel_size stride padding ceil_mode count_include_pad divisor_override
avg_pool3d | self | AvgPool3DBackward0 | self kernel_size stride padding ceil_mode count_include_pad divisor_override
constant_pad_nd | self | ConstantPadNdBackward0 | pad
max_pool2d_with_indices | self | MaxPool2DWithIndicesBackward0 | self kernel_size stride padding dilation ceil_mode result1
max_pool3d_with_indices | self | MaxPool3DWithIndicesBackward0 | self kernel_size stride padding dilation ceil_mode result1
max_unpool2d | self -indices | MaxUnpool2DBackward0 | indices
max_unpool3d | self -indices | MaxUnpool3DBackward0 | indices
fractional_max_pool2d | self -random_samples | FractionalMaxPool2DBackward0 | self kernel_size output_size result1
fractional_max_pool3d | self -random_samples | FractionalMaxPool3DBackward0 | self kernel_size output_size result1
sign | self | SignBackward0 |
_adaptive_avg_pool2d | self | AdaptiveAvgPool2DBackward0 | self
_adaptive_avg_pool3d | self | AdaptiveAvgPool3DBackward0 | self
adaptive_max_pool2d | self | AdaptiveMaxPool2DBackward0 | self result1
adaptive_max_pool3d | self | AdaptiveMaxPool3DBackward0 | self result1
col2im | self | Col2ImBackward0 | kernel_size dilation padding stride
im2col | self | Im2ColBackward0 | kernel_size dilation padding stride
pixel_shuffle | self | PixelShuffleBackward0 | upscale_factor
pixel_unshuffle | self | PixelUnshuffleBackward0 | downscale_factor
channel_shuffle | self | ChannelShuffleBackward0 | groups
upsample_nearest1d | self | UpsampleNearest1DBackward0 | output_size scales
upsample_nearest2d | self | UpsampleNearest2DBackward0 | output_size scales_h scales_w
upsample_nearest3d | self | UpsampleNearest3DBackward0 | output_size scales_d scales_h scales_w
upsample_linear1d | self | UpsampleLinear1DBackward0 | output_size align_corners scales
upsample_bilinear2d | self | UpsampleBilinear2DBackward0 | output_size align_corners scales_h scales_w
upsample_bicubic2d | self | UpsampleBicubic2DBackward0 | output_size align_corners scales_h scales_w
upsample_trilinear3d | self | UpsampleTrilinear3DBackward0 | output_size align_corners scales_d scales_h scales_w
_upsample_nearest_exact1d | self | UpsampleNearestExact1DBackward0 | output_size scales
_upsample_nearest_exact2d | self | UpsampleNearestExact2DBackward0 | output_size scales_h scales_w
_upsample_nearest_exact3d | self | UpsampleNearestExact3DBackward0 | output_size scales_d scales_h scales_w
_upsample_bilinear2d_aa | self | UpsampleBilinear2DAaBackward0 | output_size align_corners scales_h scales_w
_upsample_bicubic2d_aa | self | UpsampleBicubic2DAaBackward0 | output_size align_corners scales_h scales_w
stack | tensors | StackBackward0 | dim
unsafe_split.Tensor | self | UnsafeSplitBackward0 | split_size dim
unbind.int | self | UnbindBackward0 | dim
embedding | weight -indices | EmbeddingBackward0 | indices padding_idx scale_grad_by_freq sparse
_embedding_bag | weight -indices -offsets per_sample_weights | EmbeddingBagBackward0 | weight?per_sample_weights indices offsets mode padding_idx result1 scale_grad_by_freq sparse per_sample_weights?weight result2 result3
index.Tensor | self -indices | IndexBackward0 | indices
expand | self | ExpandBackward0 |
sin | self | SinBackward0 | self
cos | self | CosBackward0 | self
tan | self | TanBackward0 | result
asin | self | AsinBackward0 | self
acos | self | AcosBackward0 | self
atan | self | AtanBackward0 | self
sinh | self | SinhBackward0 | self
cosh | self | CoshBackward0 | self
asinh | self | AsinhBackward0 | self
acosh | self | AcoshBackward0 | self
atanh | self | AtanhBackward0 | self
log1p | self | Log1PBackward0 | self
expm1 | self | Expm1Backward0 | result
erf | self | ErfBackward0 | self
erfc | self | ErfcBackward0 | self
erfinv | self | ErfinvBackward0 | self
log2 | self | Log2Backward0 | self
log10 | self | Log10Backward0 | self
reciprocal | self | ReciprocalBackward0 | result
amax | self | AmaxBackward0 | self dim keepdim result
amin | self | AminBackward0 | self dim keepdim result
max | self | MaxBackward1 | self result
min | self | MinBackward1 | self result
cumsum | self | CumsumBackward0 | dim
cumprod | self | CumprodBackward0 | self dim result
prod | self | ProdBackward0 | self result
prod.dim_int | self | ProdBackward1 | self dim keepdim result
sort.stable | self | SortBackward1 | dim indices
topk | self | TopkBackward0 | dim indices
_to_copy | self | ToCopyBackward0 |
flip | self | FlipBackward0 | dims
var.correction | self | VarBackward0 | self dim correction keepdim
dot | self tensor | DotBackward0 | tensor?self self?tensor
mv | self vec | MvBackward0 | vec?self self?vec
alias | self | AliasBackward0 |
logsumexp | self | LogsumexpBackward0 | self dim keepdim result
_cdist_forward | x1 x2 | CdistBackward0 | x1 x2 p result
_pdist_forward | self | PdistBackward0 | self p result
grid_sampler_2d | input grid | GridSampler2DBackward0 | input grid interpolation_mode padding_mode align_corners
grid_sampler_3d | input grid | GridSampler3DBackward0 | input grid interpolation_mode padding_mode align_corners
affine_grid_generator | theta | AffineGridGeneratorBackward0 | size align_corners
conv_tbc | self weight bias | ConvTbcBackward0 | self weight bias pad
atan2 | self other | Atan2Backward0 | self other
floor | self | FloorBackward0 |
ceil | self | CeilBackward0 |
round | self | RoundBackward0 |
fmod.Tensor | self other | FmodBackward1 | self?other other?other
remainder.Tensor | self other | RemainderBackward1 | self?other other?other
lgamma | self | LgammaBackward0 | self
digamma | self | DigammaBackward0 | self
index_put | self -indices values | IndexPutBackward0 | indices accumulate
scatter.src | self -index src | ScatterBackward0 | dim index
scatter_add | self -index src | ScatterAddBackward0 | dim index?src
logaddexp | self other | LogaddexpBackward0 | self other
mkldnn_rnn_layer | input weight0 weight1 weight2 weight3 hx_ cx_ | MkldnnRnnLayerBackward0 | input weight0 weight1 weight2 weight3 hx_ cx_ reverse batch_sizes mode hidden_size num_layers has_biases bidirectional batch_first train result0 result1 result2 result3
exp2 | self | Exp2Backward0 | result
sinc | self | SincBackward0 | self
diagonal | self | DiagonalBackward0 | offset dim1 dim2
tril | self | TrilBackward0 | diagonal
triu | self | TriuBackward0 | diagonal
norm.ScalarOpt_dtype | self | NormBackward2 | self p result
roll | self | RollBackward0 | shifts dims
masked_fill.Tensor | self -mask value | MaskedFillBackward1 | mask
""")  # noqa: E501
