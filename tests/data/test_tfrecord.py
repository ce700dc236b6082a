"""TFRecord files: one that TensorFlow wrote is read, what is written comes back, and what is damaged is named.

`fixtures/tf_examples.tfrecord` holds three examples with Google's features, written by TensorFlow 2.21's TFRecordWriter
and tf.train.Example from the numbers below; TensorFlow also read back what `write_examples` wrote.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from funcnet.data import read_examples, tfrecord, write_examples

FIXTURE = Path(__file__).parent / "fixtures" / "tf_examples.tfrecord"
SECOND = {
    "input_ids": [2, 4, 5, 18, 35, 24, 3, 31, 30, 34, 11, 3, 0, 0, 0, 0],
    "input_mask": [1] * 12 + [0] * 4,
    "masked_lm_ids": [28, 30, 0],
    "masked_lm_positions": [1, 8, 0],
    "masked_lm_weights": [1.0, 1.0, 0.0],
    "next_sentence_labels": [1],
    "segment_ids": [0] * 7 + [1] * 5 + [0] * 4,
}


def test_what_tensorflow_wrote():
    rows = list(read_examples(FIXTURE))
    assert len(rows) == 3 and {name: values.tolist() for name, values in rows[1].items()} == SECOND
    assert rows[0]["input_ids"].dtype == np.int64 and rows[0]["masked_lm_weights"].dtype == np.float32


def test_the_bytes_are_tensorflows(tmp_path):
    """The features in TensorFlow's own order: the same file, checksums and all."""
    write_examples(tmp_path / "x", read_examples(FIXTURE))
    assert (tmp_path / "x").read_bytes() == FIXTURE.read_bytes()


@given(
    ids=arrays.arrays(np.int64, st.integers(0, 40), elements=st.integers(0, 2**63 - 1)),
    small=arrays.arrays(np.int32, st.integers(0, 40), elements=st.integers(0, 300)),
    weights=arrays.arrays(np.float32, st.integers(0, 9), elements=st.floats(width=32, allow_nan=False)),
)
def test_round_trip(ids, small, weights, tmp_path_factory):
    file = tmp_path_factory.mktemp("tfrecord") / "x"
    assert write_examples(file, [{"ids": ids, "weights": weights}, {"small": small}]) == 2
    first, second = read_examples(file)
    np.testing.assert_array_equal(first["ids"], ids)
    np.testing.assert_array_equal(first["weights"], weights)
    np.testing.assert_array_equal(second["small"], small)


def test_damage_is_named_by_record(tmp_path):
    whole, file = FIXTURE.read_bytes(), tmp_path / "x.tfrecord"

    def refused(data):
        file.write_bytes(data)
        with pytest.raises(ValueError) as caught:
            list(read_examples(file))
        return str(caught.value)

    assert "x.tfrecord, record 3 is damaged; expected a tf.train.Example, got 'the end of the file'" in refused(
        whole[:-9]
    )
    assert "record 1 is damaged" in refused(b"\x01" + whole[1:]) and "whose checksum is wrong" in refused(
        b"\x01" + whole[1:]
    )
    flipped = bytearray(whole)
    flipped[300] ^= 4
    assert "record 2 is damaged; expected a tf.train.Example, got 'a message whose checksum" in refused(bytes(flipped))
    assert "record 1 is damaged" in refused(b"text, and no records")
    message = b"\n\x04\n\x02\x12\x00"  # Example { Features { an entry with a value alone } }
    length = len(message).to_bytes(8, "little")
    nameless = length + tfrecord._checksum(length) + message + tfrecord._checksum(message)
    assert "record 1 is damaged; expected a tf.train.Example, got 'a feature without a name'" in refused(nameless)
    with pytest.raises(FileNotFoundError, match=r"no\.tfrecord does not exist; expected a TFRecord file"):
        list(read_examples(tmp_path / "no.tfrecord"))
    with pytest.raises(ValueError, match="'ids' has negative integers; expected integers >= 0, got -1"):
        write_examples(file, [{"ids": np.array([-1])}])
