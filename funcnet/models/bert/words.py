"""A line of text as words and signs, the way that files of tagged words have them."""

from tokenizers import Tokenizer
from tokenizers.normalizers import BertNormalizer

__all__ = ["split_words"]


def split_words(tokenizer: Tokenizer, line: str) -> list[str]:
    """What the tokenizer parts before it looks words up: at white space, every sign by itself, and every Chinese
    character where it parts those.

    Args:
        tokenizer: as `text.load_tokenizer` gives it.
        line: text.

    Returns:
        The words and signs in order, with their case and accents.

    Example:
        >>> from funcnet import text
        >>> split_words(text.train_wordpiece(["fine soup"] * 2, vocab_size=24), "(Fine) soup!")
        ['(', 'Fine', ')', 'soup', '!']
    """
    if getattr(tokenizer.normalizer, "handle_chinese_chars", False):
        apart = BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)
        line = apart.normalize_str(line)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(line)]
