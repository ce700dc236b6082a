"""The same small BERT in transformers."""

import torch
import transformers


def make_reference(sizes, cls=transformers.BertForPreTraining, dtype=torch.float32, **options):
    """transformers' model in eval mode: random weights, with biases and norms moved off their start."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**(sizes | options), attn_implementation="eager")
    model = cls(config).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def run_reference(model, batch):
    """Its two outputs as numpy arrays."""
    with torch.no_grad():
        out = model.eval()(**{name: torch.tensor(array, dtype=torch.long) for name, array in batch.items()})
    return [o.numpy() for o in out[:2]]
