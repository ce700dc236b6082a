"""Datasets, loaders and tokenizers."""

from tests.mistakes import raises, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    raises('data.DataLoader(data.ArrayDataset({"x": double(4)}), batch_size=0)', r"DataLoader.*batch_size.*0"),
    raises('data.DataLoader(data.ArrayDataset({"x": double(4)}), batch_size=2.0)', r"DataLoader.*batch_size.*2\.0"),
    raises('data.DataLoader(data.ArrayDataset({"x": double(4)}), 2, num_workers=-1)', r"DataLoader.*num_workers.*-1"),
    raises(
        'data.DataLoader(data.ArrayDataset({"x": double(4)}), 2, shuffle=True, sampler=[0, 1])',
        r"DataLoader: sampler option is mutually exclusive with shuffle",
    ),
    raises(
        'data.DataLoader(data.ArrayDataset({"x": double(4)}), 2, generator=torch.Generator())',
        r"DataLoader: a generator has hidden state.*Generator.*seed=",
    ),
    raises(
        'data.DataLoader(data.ArrayDataset({"x": double(4)}), 2, num_workers=1, multiprocessing_context="fork")',
        r"DataLoader: multiprocessing_context is 'fork'.*'spawn' or 'forkserver'",
    ),
    warns(
        'list(data.DataLoader(data.ArrayDataset({"x": double(4)}), 5, drop_last=True))',
        r"DataLoader: an epoch has no batch.*5.*ArrayDataset\(x: float64\[4\]\)",
    ),
    raises(
        'list(data.DataLoader(data.ArrayDataset({"x": double(4)}), 2, sampler=[0, 9]))',
        r"index 9 is out of range; expected 0 to 3",
    ),
    raises("list(data.DataLoader([1, 2], 2, sampler=[0, -1]))", r"index -1 is negative"),
    raises("list(data.DataLoader([1, 2], 2, collate_fn=lambda items: None))", r"collate_fn returned nothing"),
    raises(
        "list(data.DataLoader([double(2), double(3)], 2))",
        r"equal size, but got \[2\] at entry 0 and \[3\]",
    ),
    raises('data.DataLoader(data.ArrayDataset({"x": double(4)}), 2).batch(-1)', r"DataLoader.*start.*0.*-1"),
    raises("data.DataLoader(5)", r"DataLoader: the dataset has no items; expected an object with __getitem__"),
    raises("data.DataLoader(iter([1, 2]))", r"DataLoader: the dataset can be read only once.*list_iterator"),
    raises("data.DataLoader(lambda: 1)", r"DataLoader: the dataset has no items; expected an object with __getitem__"),
    raises("data.IterDataPipe", r"'funcnet\.data'.*'IterDataPipe'.*IterableDataset"),
    raises('data.ArrayDataset({"x": double(4), "y": double(3)})', r"ArrayDataset.*arrays.*'x'.*4.*'y'.*3"),
    raises("data.ArrayDataset(double(4))", r"ArrayDataset.*columns.*dict"),
    raises("data.ArrayDataset({})", r"ArrayDataset.*columns.*dict.*dict"),
    raises('data.ArrayDataset({"x": [1, 2, 3]})[np.array([0])]', r"ArrayDataset.*'x'.*\[1, 2, 3\].*np\.asarray"),
    raises("list(data.Prefetcher([1, 2], depth=0))", r"Prefetcher.*depth.*1.*0"),
    raises('data.read_columns(folder / "x.arrow")', r"read_columns.*x\.arrow"),
    raises(
        ('(folder / "x.arrow").write_text("hello")\ndata.read_columns(folder / "x.arrow")'),
        r"read_columns.*x\.arrow.*write_columns.*'File is too small: 5'",
    ),
    raises('list(data.read_examples(folder / "x.tfrecord"))', r"read_examples.*x\.tfrecord"),
    raises(
        (
            '(folder / "x.tfrecord").write_text("hello world, this is no record")\n'
            'list(data.read_examples(folder / "x.tfrecord"))'
        ),
        r"read_examples.*x\.tfrecord.*1.*tf\.train\.Example",
    ),
    raises("text.load_tokenizer(folder)", r"load_tokenizer.*vocab\.txt.*tokenizer\.json"),
    raises(
        'text.load_tokenizer("bert-base-uncased")',
        r"load_tokenizer.*bert\-base\-uncased does not exist; expected a directory or a ",
    ),
    raises('text.load_tokenizer(folder / "vocab.txt")', r"load_tokenizer.*vocab\.txt"),
    raises(
        ('(folder / "vocab.txt").write_text("a\\nb\\nc\\n")\ntext.load_tokenizer(folder)'),
        r"load_tokenizer.*vocab\.txt",
    ),
    raises(
        ('(folder / "tokenizer.json").write_text("{")\ntext.load_tokenizer(folder)'),
        r"load_tokenizer.*tokenizer\.json.*'s tokenizers, got '.*1.*1",
    ),
    raises(
        'text.train_wordpiece(["a b", "c d"], vocab_size=3)',
        r"train_wordpiece.*vocab_size.*9.*\(special tokens and characters\).*3",
    ),
    raises('text.train_wordpiece("one long string", vocab_size=30)', r"train_wordpiece.*documents.*str"),
    raises(
        "text.train_wordpiece([], vocab_size=30)",
        r"train_wordpiece.*the documents are empty; expected text, got none\.",
    ),
    raises('text.open_corpus(folder / "none.txt")', r"read_corpus.*none\.txt"),
    raises("text.open_corpus(folder)", r"read_corpus.*0.*\(s\)"),
    raises(
        ('(folder / "a.txt").write_bytes(b"\\xff\\xfe\\x00")\nlist(text.open_corpus(folder / "a.txt").documents())'),
        r"read_corpus.*a\.txt.*\-8.*\-8.*0",
    ),
    raises("text.split_sentences(None)", r"split_sentences.*document.*str.*NoneType"),
    raises('text.split_sentences(["a", "b"])', r"split_sentences.*document.*str.*list"),
    raises(
        ('t = text.train_wordpiece(["a b c d e f"] * 9, vocab_size=40)\ntext.truncating(t, 0)'),
        r"truncating.*length.*1.*0",
    ),
    raises(
        ('t = text.train_wordpiece(["a b c d e f"] * 9, vocab_size=40)\ntext.require_fit(t, 10, where="x")'),
        r"x.*10.*'f'",
    ),
]
