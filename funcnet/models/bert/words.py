"""A line of text as words and signs, the way that files of tagged words have them."""

from tokenizers import Tokenizer

__all__ = ["split_words"]


def split_words(tokenizer: Tokenizer, line: str) -> list[str]:
    """What the tokenizer parts before it looks words up: at white space, and every sign by itself.

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
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(line)]
