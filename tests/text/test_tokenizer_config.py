"""What the small files beside a vocabulary say: the same ids as transformers where it takes them, else a refusal."""

import itertools
import json

import pytest
from transformers import AutoTokenizer, BertTokenizerFast

from funcnet.text import load_tokenizer, save_tokenizer, train_wordpiece, vocabulary

TEXTS = ["The CAT sat", "café ÉCOLE naïve cafe\u0301", "中文 a中b 文", "[MASK] the [NEW]cat CATS cats [mask]", ""]


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def directory(request, tmp_path):
    words = ["The the Cat cat cats sat café école École naïve ecole cafe naive 中 文 中文 a b"]
    save_tokenizer(train_wordpiece(words * 3, vocab_size=120, lower_case=request.param), tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    return tmp_path


def tell(directory, **settings):
    file = directory / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def same(directory, reference=BertTokenizerFast):
    theirs, ours = reference.from_pretrained(directory), load_tokenizer(directory)
    assert len(theirs) == ours.get_vocab_size()
    assert [encoding.ids for encoding in ours.encode_batch(TEXTS)] == theirs(TEXTS)["input_ids"]


@pytest.mark.parametrize("fast", [True, False], ids=["tokenizer.json", "vocab.txt"])
def test_tokenizer_config_has_the_last_word(directory, fast):
    if not fast:
        (directory / "tokenizer.json").unlink()
    seen = set()
    for lower, accents, chinese in itertools.product([True, False], [True, False, None], [True, False]):
        tell(directory, do_lower_case=lower, strip_accents=accents, tokenize_chinese_chars=chinese)
        same(directory)
        seen.add(str([encoding.tokens for encoding in load_tokenizer(directory).encode_batch(TEXTS)]))
    assert len(seen) == 8  # None is one of the other two


def test_a_generic_class_is_as_tokenizer_json_says(directory):
    before = load_tokenizer(directory).to_str()
    lower = json.loads(before)["normalizer"]["lowercase"]
    tell(directory, do_lower_case=not lower, tokenizer_class="PreTrainedTokenizerFast")
    same(directory, AutoTokenizer)
    assert load_tokenizer(directory).to_str() == before
    tell(directory, do_lower_case=not lower, tokenizer_class="TokenizersBackend")
    assert load_tokenizer(directory).to_str() == before
    tell(directory, do_lower_case=not lower, tokenizer_class="BertTokenizer")
    same(directory, AutoTokenizer)
    assert load_tokenizer(directory).to_str() != before


def test_what_tokenizer_config_leaves_out_is_as_tokenizer_json_says(directory):
    before = load_tokenizer(directory).to_str()
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": "no"}')
    assert load_tokenizer(directory).to_str() == before
    (directory / "tokenizer_config.json").unlink()
    assert load_tokenizer(directory).to_str() == before


@pytest.mark.parametrize("fast", [True, False], ids=["tokenizer.json", "vocab.txt"])
@pytest.mark.parametrize("special", [True, False])
def test_added_tokens_follow_the_vocabulary(directory, fast, special):
    size = load_tokenizer(directory).get_vocab_size()
    if not fast:
        (directory / "tokenizer.json").unlink()
    (directory / "added_tokens.json").write_text(json.dumps({"[NEW]": size, "CATS": size + 1, "cat": 2 * size}))
    if special:
        (directory / "special_tokens_map.json").write_text('{"additional_special_tokens": ["[NEW]"]}')
    same(directory)
    found = load_tokenizer(directory)
    assert vocabulary(found)[size:] == ["[NEW]", "CATS"]
    assert size in found.encode("the [NEW]cat").ids


@pytest.mark.parametrize("fast", [True, False], ids=["tokenizer.json", "vocab.txt"])
def test_added_tokens_decoder(directory, fast):
    tokens = vocabulary(load_tokenizer(directory))
    if not fast:
        (directory / "tokenizer.json").unlink()
    flags = {"lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
    tokens_by_id = {str(tokens.index(t)): {"content": t, "special": True, **flags, "lstrip": False} for t in tokens[:5]}
    tokens_by_id[str(len(tokens))] = {"content": "[NEW]", "special": True, **flags}
    tell(directory, added_tokens_decoder=tokens_by_id, additional_special_tokens=["[NEW]"])
    (directory / "added_tokens.json").write_text('{"[OLD]": 9999}')  # not read beside the decoder
    same(directory)
    tokens_by_id[str(len(tokens) + 7)] = tokens_by_id.pop(str(len(tokens)))
    tell(directory, added_tokens_decoder=tokens_by_id)
    said = (
        rf"the added token '\[NEW\]' does not follow the vocabulary; expected id {len(tokens)}, got {len(tokens) + 7}"
    )
    with pytest.raises(ValueError, match=said):
        load_tokenizer(directory)


@pytest.mark.parametrize("token", ["<mask>", {"__type": "AddedToken", "content": "<mask>", "lstrip": True}])
def test_a_special_token_of_another_name_is_refused(directory, token):
    tell(directory, mask_token={"content": "[MASK]"}, pad_token=None)
    load_tokenizer(directory)
    said = (
        r"mask_token has an unsupported name in .*; expected \[MASK\], got '<mask>'\. "
        r"Rename the token in the vocabulary"
    )
    (directory / "special_tokens_map.json").write_text(json.dumps({"mask_token": token}))
    with pytest.raises(ValueError, match=said):
        load_tokenizer(directory)
    (directory / "special_tokens_map.json").unlink()
    tell(directory, mask_token=token)
    for _ in range(2):
        with pytest.raises(ValueError, match=said):
            load_tokenizer(directory)
        (directory / "tokenizer.json").unlink(missing_ok=True)


def test_an_additional_special_token_without_an_id_is_refused(directory):
    tell(directory, additional_special_tokens=["[SEP]", {"content": "[NEW]"}])
    with pytest.raises(ValueError, match=r"expected an id for each special token, got none for '\[NEW\]'\. Add it"):
        load_tokenizer(directory)


@pytest.mark.parametrize("tokens_by_id", [["[NEW]"], {"x": {"content": "[NEW]"}}, {"99": "[NEW]"}])
def test_added_tokens_that_cannot_be(directory, tokens_by_id):
    tell(directory, added_tokens_decoder=tokens_by_id)
    with pytest.raises(ValueError, match=r"tokens have the wrong form; expected a map from ids to tokens, got [{\[]"):
        load_tokenizer(directory)


@pytest.mark.parametrize("index", [[40], {}, None, True, 1.5, "x"])
def test_an_added_token_without_a_number(directory, index):
    (directory / "added_tokens.json").write_text(json.dumps({"[NEW]": index}))
    with pytest.raises(ValueError, match=r"tokens have the wrong form; expected a map from ids to tokens, got "):
        load_tokenizer(directory)


def test_two_added_tokens_of_one_id(directory):
    size = load_tokenizer(directory).get_vocab_size()
    (directory / "added_tokens.json").write_text(json.dumps({"[NEW]": size, "CATS": size}))
    said = (
        rf"added_tokens\.json has two tokens with the same id; expected a "
        rf"different id for each token, got {size} again for 'CATS'"
    )
    with pytest.raises(ValueError, match=said):
        load_tokenizer(directory)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"])
def test_a_broken_file_is_named(directory, name):
    (directory / name).write_text("{")
    with pytest.raises(ValueError, match=rf"{name} is not valid JSON; expected a JSON object, got "):
        load_tokenizer(directory)
