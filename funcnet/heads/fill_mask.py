"""The head of the task `fill-mask`, which pretraining trains. The head predicts words for `[MASK]`.

Letters: `B rows, T tokens, S masks, D hidden size`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from tokenizers import Tokenizer

from funcnet import nn, text
from funcnet.heads.encoding import Encoded, TextEncoder
from funcnet.heads.head import Batch, Forward, Head
from funcnet.heads.reading.examples import TextExample
from funcnet.tree import Params, State

__all__ = ["Guess", "MaskedWords"]

SLOTS = 8  # number of masks for which the head scores the vocabulary at a time


class Guess(NamedTuple):
    """A token that the model predicts for a `[MASK]`.

    Attributes:
        token: token of the vocabulary. A token that continues a word begins with `##`.
        probability: probability of the token among all tokens.
    """

    token: str
    probability: float


@dataclasses.dataclass(frozen=True)
class MaskedWords(Head):
    """Predicts the most likely words for each `[MASK]`.

    Attributes:
        guesses: number of guesses per `[MASK]`.
    """

    name: str = "fill-mask"
    guesses: int = 5
    architecture = "BertForMaskedLM"
    names = ("fill-mask",)
    takes = "a text with [MASK] in it"
    needs = "[MASK]"
    extra_tokens = 3

    @classmethod
    def architectures(cls) -> tuple[str, ...]:
        return "BertForPreTraining", cls.architecture

    def example(self, item: object, where: str) -> TextExample | None:
        return TextExample(item, None, None, where) if isinstance(item, str) else None

    def encode(self, examples: Iterable[TextExample], encoder: TextEncoder) -> Iterator[Encoded]:
        for example in examples:
            (found,) = encoder.whole([example.text], special_tokens=True)
            if len(found.ids) > encoder.seq_len:
                raise ValueError(
                    f"fill-mask: {example.where} is too long; expected at most {encoder.seq_len} tokens, including "
                    f"[CLS] and [SEP], got {len(found.ids)}. Shorten the text, but keep the [MASK]."
                )
            if "[MASK]" not in found.tokens:
                raise ValueError(
                    f"fill-mask: {example.where} has no [MASK]; expected [MASK] in the text, got none. Replace a word "
                    "with [MASK]."
                )
            name = encoder.tokenizer.id_to_token
            yield Encoded([found], detail=(found.tokens.count("[MASK]"), name))

    def forward(self, net: nn.Module, tokenizer: Tokenizer) -> Forward:
        mask_id, words = text.special_ids(tokenizer)["[MASK]"], tokenizer.get_vocab_size()
        count = min(self.guesses, words)

        def likeliest(head: Callable[[jax.Array], jax.Array], hidden: jax.Array, places: jax.Array) -> Any:
            """Return the probabilities and ids (B, S, count) of the likeliest tokens at the positions `places` (B, S)
            of hidden states (B, T, D).
            """
            # The slice drops the scores of padding rows of the word table.
            scores = head(jnp.take_along_axis(hidden, places[:, :, None], axis=1))[:, :, :words]
            return jax.lax.top_k(jax.nn.softmax(scores.astype(jnp.float32)), count)

        def run(params: Params, state: State, batch: Batch) -> Any:
            ids, inputs = batch["input_ids"], (batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
            if hasattr(net, "bert"):
                encoder, heads = (net.subtree(name, params, state) for name in ("bert", "cls"))
                (hidden, *_), _ = net.bert.apply(*encoder, *inputs)
                head = lambda at: net.cls.apply(*heads, at)[0]
            else:  # an integer net has no separate head, and computes the scores of all tokens
                outputs, _ = net.apply(params, state, *inputs)
                hidden, head = jax.tree.leaves(outputs)[0], lambda scores: scores
            masked = (ids == mask_id) & (batch["attention_mask"] > 0)
            order = jnp.argsort(~masked, axis=1, stable=True)  # masks first, in their order in the row
            order = jnp.pad(order, ((0, 0), (0, -ids.shape[1] % SLOTS)))
            most = jnp.max(jnp.sum(masked, axis=1))

            def some(carry: tuple[Any, ...]) -> Any:
                start, found = carry
                new = likeliest(head, hidden, jax.lax.dynamic_slice_in_dim(order, start, SLOTS, axis=1))
                put = lambda old, part: jax.lax.dynamic_update_slice_in_dim(old, part, start, axis=1)
                return start + SLOTS, tuple(map(put, found, new))

            shape = (*order.shape, count)
            empty = jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.int32)
            _, found = jax.lax.while_loop(lambda carry: carry[0] < most, some, (jnp.int32(0), empty))
            return found

        return run

    def answer(
        self, example: TextExample, detail: tuple[int, Callable[[int], str]], outputs: Sequence[Any]
    ) -> list[list[Guess]]:
        count, name = detail
        chances, tokens = outputs[0]
        return [
            [Guess(name(token), float(chance)) for token, chance in zip(tokens[at].tolist(), chances[at], strict=True)]
            for at in range(count)
        ]
