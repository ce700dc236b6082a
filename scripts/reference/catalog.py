"""The order of the reference: its pages, and torch's sections for the layers and the functions.

Only the order is written here. The names of a page are the public names of its module. A public name that no section
has is shown in a last section, `More`, and a name in a section that is not public is an error, as is a module with
public names that is neither on a page nor internal (`problems`).
"""

from typing import NamedTuple

from scripts.reference.public_names import definition, docstring, file_of, is_module, modules, public_names

__all__ = ["INTERNAL", "MODULES", "SECTIONS", "Page", "pages", "problems"]

# {module: {section: names}}: torch.nn and torch.nn.functional, in the order of torch's documentation.
SECTIONS = {
    "funcnet.nn": {
        "Containers": (
            "Module Sequential ModuleList ModuleDict ParameterList ParameterDict Parameter Buffer Repeat remat"
        ),
        "Hooks and inspection": (
            "Hooks RemovableHandle capture capture_gradients checked checking_hooks output_shape dry_run"
        ),
        "Convolution layers": (
            "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d "
            "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d Unfold Fold"
        ),
        "Pooling layers": (
            "MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d AvgPool2d AvgPool3d "
            "FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
            "AdaptiveMaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d"
        ),
        "Padding layers": (
            "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d "
            "ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d CircularPad1d CircularPad2d "
            "CircularPad3d"
        ),
        "Activations (weighted sum, nonlinearity)": (
            "ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid MultiheadAttention PReLU ReLU ReLU6 "
            "RReLU SELU CELU GELU Sigmoid SiLU Mish Softplus Softshrink Softsign Tanh Tanhshrink Threshold GLU"
        ),
        "Activations (other)": "Softmin Softmax Softmax2d LogSoftmax AdaptiveLogSoftmaxWithLoss",
        "Normalization layers": (
            "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d GroupNorm "
            "SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
            "LazyInstanceNorm3d LayerNorm LocalResponseNorm CrossMapLRN2d RMSNorm"
        ),
        "Recurrent layers": "RNNBase RNN LSTM GRU RNNCellBase RNNCell LSTMCell GRUCell",
        "Transformer layers": (
            "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer"
        ),
        "Linear layers": "Identity Linear Bilinear LazyLinear",
        "Dropout layers": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
        "Sparse layers": "Embedding EmbeddingBag",
        "Distance functions": "CosineSimilarity PairwiseDistance",
        "Loss functions": (
            "L1Loss MSELoss CrossEntropyLoss LinearCrossEntropyLoss LinearCrossEntropyOptions CTCLoss NLLLoss "
            "NLLLoss2d PoissonNLLLoss GaussianNLLLoss KLDivLoss BCELoss BCEWithLogitsLoss MarginRankingLoss "
            "HingeEmbeddingLoss MultiLabelMarginLoss HuberLoss SmoothL1Loss SoftMarginLoss MultiLabelSoftMarginLoss "
            "CosineEmbeddingLoss MultiMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss"
        ),
        "Vision layers": "PixelShuffle PixelUnshuffle Upsample UpsamplingNearest2d UpsamplingBilinear2d",
        "Shuffle layers": "ChannelShuffle",
        "Flatten and unflatten": "Flatten Unflatten",
        "Modules": "functional init parameter utils",
    },
    "funcnet.functional": {
        "Convolution functions": (
            "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc unfold fold"
        ),
        "Pooling functions": (
            "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d "
            "lp_pool1d lp_pool2d lp_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
            "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d fractional_max_pool2d fractional_max_pool3d"
        ),
        "Attention mechanisms": (
            "scaled_dot_product_attention multi_head_attention_forward in_projection in_projection_packed split_heads "
            "merge_heads"
        ),
        "Activation functions": (
            "threshold relu hardtanh hardswish relu6 elu selu celu leaky_relu prelu rrelu glu gelu logsigmoid "
            "hardshrink tanhshrink softsign softplus softmin softmax softshrink gumbel_softmax log_softmax tanh "
            "sigmoid hardsigmoid silu mish"
        ),
        "Normalization functions": (
            "batch_norm group_norm instance_norm layer_norm local_response_norm rms_norm normalize"
        ),
        "Recurrent functions": "rnn_tanh rnn_relu lstm gru rnn_tanh_cell rnn_relu_cell lstm_cell gru_cell",
        "Linear functions": "linear bilinear",
        "Dropout functions": "dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d",
        "Sparse functions": "embedding embedding_renorm embedding_bag one_hot",
        "Distance functions": "pairwise_distance cosine_similarity pdist",
        "Loss functions": (
            "binary_cross_entropy binary_cross_entropy_with_logits poisson_nll_loss cosine_embedding_loss "
            "cross_entropy linear_cross_entropy ctc_loss gaussian_nll_loss hinge_embedding_loss kl_div l1_loss "
            "mse_loss margin_ranking_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss "
            "nll_loss huber_loss smooth_l1_loss soft_margin_loss triplet_margin_loss "
            "triplet_margin_with_distance_loss"
        ),
        "Vision functions": (
            "pixel_shuffle pixel_unshuffle pad interpolate upsample upsample_nearest upsample_bilinear grid_sample "
            "affine_grid"
        ),
        "Shuffle functions": "channel_shuffle native_channel_shuffle",
    },
}

# {chapter: modules}, each with a page of its own. The first module that has an object is where it is described.
MODULES = {
    "Layers": (
        "funcnet.nn funcnet.nn.init funcnet.nn.utils funcnet.nn.utils.rnn funcnet.nn.utils.parametrize "
        "funcnet.nn.utils.parametrizations funcnet.nn.utils.prune funcnet.nn.parameter funcnet.nn.einops"
    ),
    "Functions": "funcnet.functional funcnet.nn.functional",
    "Training": (
        "funcnet.optim funcnet.optim.swa_utils funcnet.data funcnet.train funcnet.parallel funcnet.tree funcnet.random"
    ),
    "Models and text": (
        "funcnet.weights funcnet.models.bert funcnet.models.resnet funcnet.models.loading funcnet.models.integers "
        "funcnet.losses funcnet.heads funcnet.text funcnet.serving funcnet.serving.bench funcnet.tasks.features"
    ),
    "Tasks": (
        "funcnet.tasks.pretraining.task funcnet.tasks.pretraining.settings funcnet.tasks.pretraining_data "
        "funcnet.tasks.finetuning.task funcnet.tasks.finetuning.settings funcnet.tasks.finetuning.predict "
        "funcnet.tasks.images.task funcnet.tasks.images.settings funcnet.tasks.quantizing.task "
        "funcnet.tasks.quantizing.settings"
    ),
    "Operators": "funcnet.operators funcnet.operators.graph funcnet.operators.native",
    "Export and integers": (
        "funcnet.export funcnet.export.onnx funcnet.export.wasm funcnet.export.web funcnet.export.tflite "
        "funcnet.export.host funcnet.quantization"
    ),
    "From torch and Flax": (
        "funcnet funcnet.comparison funcnet.porting.port funcnet.porting.errors "
        "funcnet.porting.running.loading funcnet.cli.port funcnet.torchlike funcnet.torchlike.linalg "
        "funcnet.torchlike.windows funcnet.bridges"
    ),
    "Search": "funcnet.sklearn funcnet.sklearn.keras funcnet.sklearn.skorch",
    "Shared parts": "funcnet.settings funcnet.arguments funcnet.files funcnet.table funcnet.figures funcnet.cli",
}

# Packages whose modules have no pages, although no public name of the package stands for them.
INTERNAL = {
    "funcnet.nn.core": "the machinery of descriptions; funcnet.nn has its public names",
    "funcnet.nn.inspection": "hooks and checks; funcnet.nn has the public names",
    "funcnet.nn.module": "the class Module and its methods; funcnet.nn has the public names",
    "funcnet.nn.state_dict": "conversion to torch's names; Module has the public methods",
    "funcnet.heads.reading": "readers of labelled files, which the heads call",
    "funcnet.loops": "loop nests and their C, which the export to WebAssembly calls",
    "funcnet.porting": "the parts of `funcnet port`; porting.port has the public function",
    "funcnet.tasks": "the parts of the tasks; each task, its settings and its predictions have pages",
    "funcnet.operators.graph.function_plans": "tables of torch's backward nodes",
    "funcnet.operators.graph.torch_operations": "the tape that records torch's operations as nodes",
}


class Page(NamedTuple):
    """A page of the reference.

    Attributes:
        chapter: the part of the reference that has the page.
        module: the module with the names.
        title: the section, or the module for a page of a whole module.
        names: the public names on the page, in their order.
    """

    chapter: str
    module: str
    title: str
    names: tuple[str, ...]

    @property
    def file(self) -> str:
        """The name of the page's file, without a suffix."""
        short = self.module.removeprefix("funcnet.")
        words = "" if self.title == self.module else "." + "-".join(self.title.lower().split())
        return short + "".join(letter for letter in words if letter.isalnum() or letter in ".-")


def pages() -> list[Page]:
    """Return all pages in their order. A module with sections has a page for each, after a page without names."""
    found = []
    for chapter, names in MODULES.items():
        for module in names.split():
            sections = SECTIONS.get(module)
            if sections is None:
                found.append(Page(chapter, module, module, _in_order(module)))
                continue
            found.append(Page(chapter, module, module, ()))
            listed = [name for row in sections.values() for name in row.split()]
            more = [name for name in public_names(module) if name not in listed]
            for title, row in {**sections, **({"More": " ".join(more)} if more else {})}.items():
                found.append(Page(chapter, module, title, tuple(row.split())))
    return found


def _in_order(module: str) -> tuple[str, ...]:
    """Return the public names of a module: classes, functions, constants, modules, each in the module's order."""
    kinds = ("Classes", "Functions", "Constants", "Modules")
    return tuple(sorted(public_names(module), key=lambda name: kinds.index(definition(module, name).kind)))


def problems(shown: list[Page]) -> list[str]:
    """Return a line for each public name that no page shows or that has no docstring, each name of a section that is
    not public, and each module with public names that is neither on a page nor internal.
    """
    found = []
    on_pages: dict[str, set[str]] = {}
    for page in shown:
        on_pages.setdefault(page.module, set()).update(page.names)
    for module, names in on_pages.items():
        found += [f"{module}.{name}: the public name is on no page" for name in set(public_names(module)) - names]
        found += [
            f"{module}.{name}: a section of the reference has this name, which is not public"
            for name in names - set(public_names(module))
        ]
        for one in (definition(module, name) for name in names & set(public_names(module))):
            if not docstring(one):
                found.append(f"{file_of(one.module)}:{one.line}: {one.name} is public and has no docstring")
    for module in modules():
        if module not in on_pages and not _stands_for(module, on_pages) and public_names(module):
            found.append(f"{module}: the module has public names and is on no page; see scripts/reference/catalog.py")
    found += [
        f"{module}: internal in scripts/reference/catalog.py, but it does not exist"
        for module in INTERNAL
        if not is_module(module)
    ]
    return sorted(found)


def _stands_for(module: str, on_pages: dict[str, set[str]]) -> bool:
    """Return whether a module is internal: it or its package is listed, or its package is a page with public names."""
    package, _, name = module.rpartition(".")
    if module in INTERNAL or any(package == one or package.startswith(f"{one}.") for one in INTERNAL):
        return True
    if package == "funcnet" or not on_pages.get(package):
        return False
    return name not in public_names(package) or definition(package, name).kind != "Modules"
