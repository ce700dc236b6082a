"""Settings of pretraining data: what is refused, and what a manifest records."""

from pathlib import Path

import pytest

from funcnet.settings import compose
from funcnet.tasks.pretraining_data import DataSettings

REFUSED = {
    "--vocab-size 300 cannot be combined with --vocab; expected one of them, got both": {
        "vocab_size": 300,
        "vocab": Path("v"),
    },
    "--language is unknown; expected an ISO 639 code, such as en or de, got 'english'": {"language": "english"},
    "--held-out is out of range; expected from 0 to below 1, got 1": {"held_out": 1},
    "--passes is out of range; expected 1 to 99, got 100": {"passes": 100},
    "--short-share is out of range; expected 0 to 1, got 2": {"short_share": 2},
    "--max-predictions is out of range; expected at least 1, got 0": {"max_predictions": 0},
    "--seed is out of range; expected 0 to 2**63 - 1, got -1": {"seed": -1},
    "--seq-len is invalid; expected one or more different lengths, got [32, 32]": {"seq_len": (32, 32)},
    "--seq-len is invalid; expected one or more different lengths, got []": {"seq_len": ()},
    "--seq-len is out of range; expected at least 5 ([CLS] a [SEP] b [SEP]), got 4": {"seq_len": (32, 4)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_no_data_can_be_made_with_is_refused(message):
    with pytest.raises(ValueError) as caught:
        compose(DataSettings, **REFUSED[message]).check("pretrain")
    assert str(caught.value).startswith(f"pretrain: {message}")


def test_a_manifest_records_what_it_always_has():
    """In this order, and without the place of the corpus: directories of earlier versions have the same."""
    settings = compose(DataSettings, corpus=(Path("a"),), vocab=Path("vocab.txt"), seq_len=(32, 64), language="de")
    settings.check()
    assert list(settings.recorded("digest").items()) == [
        ("documents", "auto"),
        ("field", "text"),
        ("language", "de"),
        ("held_out", 0.05),
        ("vocab", "digest"),
        ("vocab_size", 4096),
        ("cased", False),
        ("seq_len", [32, 64]),
        ("passes", 10),
        ("short_share", 0.1),
        ("max_predictions", None),
        ("whole_words", False),
        ("static_masks", False),
        ("seed", 0),
    ]
