"""What optax lacks: BERT's AdamW, clipping with torch's formula, BERT's schedules. For all else take optax's own."""

from funcnet.optim.adamw import bert_adamw, scale_by_bert_adam
from funcnet.optim.clipping import clip_by_global_norm
from funcnet.optim.schedules import bert_schedule, warmup_linear_decay

__all__ = ["bert_adamw", "bert_schedule", "clip_by_global_norm", "scale_by_bert_adam", "warmup_linear_decay"]
