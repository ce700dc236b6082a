"""Pickles that call, import, explode or are broken: {name: (bytes, error, what the message says)}."""

import pickle
import struct

from tests.weights.hostile import BROKEN, HOOKS, UNSAFE, call, name, number, numbers, storage, tensor, text

MARK = "funcnet_was_run"  # a file of this name in the working directory: some code of a file was run


def pickled(function, *args, protocol: int = 2) -> bytes:
    """As an attacker makes it: an object whose __reduce__ calls."""

    class Bomb:
        def __reduce__(self):
            return function, args

    return pickle.dumps(Bomb(), protocol)


def imported(dotted: str, *args: str) -> bytes:
    return b"\x80\x02" + call(dotted, *map(text, args)) + b"."


def laughs(levels: int = 40) -> bytes:
    """Each list holds the one before ten times: 10^40 leaves in 500 bytes."""
    out = b"\x80\x02](" + b"N" * 10 + b"e"
    for level in range(levels):
        out += b"q" + bytes([level]) + b"0](" + (b"h" + bytes([level])) * 10 + b"e"
    return out + b"."


DOUBLED = b"N" + b"2\x86" * 28  # a pair of one pair of one pair …: its repr has 2^28 parts
NEGATED = HOOKS + b"}" + text("neg") + b"\x88s"
CONJUGATED = HOOKS + b"}" + text("conj") + b"\x88s"


def repeated(gigabytes: float = 1.0, rest: bytes = HOOKS) -> bytes:
    """A tensor of one element that its stride shows again and again."""
    return tensor((int(gigabytes * 2**28),), (0,), rest=rest)


def run() -> list:
    import os

    return [
        (os.system, f"touch {MARK}"),
        (exec, f"open('{MARK}', 'w')"),
        (eval, f"open('{MARK}', 'w')"),
        (__import__, "this"),
        (getattr, "x", "upper"),
        (os.mkdir, MARK),
    ]


PICKLES: dict[str, tuple[bytes, type, str]] = {
    **{
        f"calls {function.__name__}, protocol {protocol}": (
            pickled(function, *args, protocol=protocol),
            UNSAFE,
            rf"refused at byte \d+: the name '\w+\.{function.__name__}' is not allowed",
        )
        for function, *args in run()
        for protocol in (0, 2, 4)
    },
    **{
        f"calls {dotted}": (
            imported(dotted, *args),
            UNSAFE,
            f"the name '{dotted.replace('__builtin__', 'builtins')}' is not allowed",
        )
        for dotted, *args in (
            ("__builtin__.eval", "1"),
            ("functools.partial", "x"),
            ("subprocess.Popen", "true"),
            ("operator.attrgetter", "x"),
            ("torch.load", "x.pt"),
            ("torch.hub.load", "a/b", "c"),
            ("torch.storage._load_from_bytes", "x"),
            ("torch.serialization.load", "x"),
            ("types.FunctionType", "x"),
            ("runpy._run_code", "x"),
            ("pickle.loads", "x"),
            ("importlib.import_module", "os"),
            ("builtins.compile", "1", "", "eval"),
            ("code.interact", "x"),
            ("torch._utils.__dict__.get", "x"),
            ("collections.OrderedDict.fromkeys", "x"),
            ("builtins.type", "x"),
        )
    },
    "a sparse tensor": (
        imported("torch._utils._rebuild_sparse_tensor"),
        UNSAFE,
        "a sparse tensor, which numpy does not support. Save x.to_dense",
    ),
    "a quantized tensor": (
        imported("torch._utils._rebuild_qtensor"),
        UNSAFE,
        "a quantized tensor, which numpy does not support",
    ),
    "a nested tensor": (imported("torch._utils._rebuild_nested_tensor"), UNSAFE, "a nested tensor"),
    "a meta tensor": (imported("torch._utils._rebuild_meta_tensor_no_storage"), UNSAFE, "has no values"),
    "a numpy array": (
        imported("numpy._core.multiarray._reconstruct"),
        UNSAFE,
        "a pickled numpy object",
    ),
    "a dtype of half bytes": (b"\x80\x02ctorch\nbits4x2\n.", UNSAFE, "the name 'torch.bits4x2' is not allowed"),
    "complex halves": (b"\x80\x02ctorch\ncomplex32\n.", UNSAFE, "numpy does not support. Save x.to"),
    "a whole module": (b"\x80\x02c__main__\nNet\n)\x81}b.", UNSAFE, r"'__main__.Net'.*save its state_dict\(\)"),
    "STACK_GLOBAL": (
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x01x\x85R.",
        UNSAFE,
        "the name 'posix.system' is not allowed",
    ),
    "STACK_GLOBAL of an attribute": (
        b"\x80\x04\x8c\x0bcollections\x8c\x16OrderedDict.__reduce__\x93)R.",
        UNSAFE,
        "OrderedDict.__reduce__",
    ),
    "STACK_GLOBAL of a number": (
        b"\x80\x04K\x01K\x02\x93.",
        BROKEN,
        r"byte \d+: a name is not a string; expected two strings, got int and int",
    ),
    "INST": (b"(X\x01\x00\x00\x00xios\nsystem\n.", UNSAFE, r"INST would make an instance of b'os.system'"),
    "OBJ": (b"(ccollections\nOrderedDict\no.", UNSAFE, r"OBJ would make an instance of a class"),
    "NEWOBJ": (b"\x80\x02ccollections\nOrderedDict\n)\x81.", UNSAFE, r"NEWOBJ would make"),
    "NEWOBJ_EX": (b"\x80\x04ccollections\nOrderedDict\n)}\x92.", UNSAFE, r"NEWOBJ_EX would make"),
    "EXT1": (b"\x80\x02\x82\x01.", UNSAFE, r"EXT1 requires a registered extension"),
    "EXT2": (b"\x80\x02\x83\x01\x00.", UNSAFE, r"EXT2 requires a registered extension"),
    "EXT4": (b"\x80\x02\x84\x01\x00\x00\x00.", UNSAFE, r"EXT4 requires a registered extension"),
    "PERSID": (b"Pstorage\n.", UNSAFE, r"PERSID requires an external object"),
    "NEXT_BUFFER": (b"\x80\x05\x97.", UNSAFE, r"NEXT_BUFFER requires an external buffer"),
    "persistent module": (
        b"(" + text("module") + b"NNNtQ.",
        UNSAFE,
        r"the only external objects that are allowed are storages.*; expected a storage, got \('module', None",
    ),
    "persistent text": (text("x") + b"Q.", UNSAFE, "the only external objects that are allowed are storages.* got 'x'"),
    "BUILD of a function": (
        name("torch._utils._rebuild_tensor") + b"}X\x04\x00\x00\x00makeNsb.",
        UNSAFE,
        "setting attributes of a _rebuild_tensor is not allowed",
    ),
    "BUILD of slots": (
        name("torch.Size") + b"N}X\x04\x00\x00\x00makeNs\x86b.",
        UNSAFE,
        "setting attributes of a Size is not allowed",
    ),
    "BUILD of a method": (
        b"ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsNsb.",
        UNSAFE,
        "setting attributes of a OrderedDict is not allowed; expected only _metadata",
    ),
    "BUILD of a dict": (b"}}X\x05\x00\x00\x00itemsNsb.", UNSAFE, "setting attributes of a dict is not allowed"),
    "REDUCE of a dtype": (b"ctorch\nfloat32\n)R.", UNSAFE, "calling .*Float32DType.* is not allowed"),
    "REDUCE of a text": (text("eval") + b")R.", UNSAFE, "calling 'str' is not allowed"),
    "REDUCE of a storage": (
        name("torch.FloatStorage") + b"K\x04\x85R.",
        UNSAFE,
        "calling 'StorageType' is not allowed",
    ),
    "REDUCE of a class of tensors": (
        name("torch.Tensor") + b")R.",
        UNSAFE,
        "calling 'Tensor' is not allowed",
    ),
    "REDUCE with no tuple": (
        name("torch.Size") + b"]R.",
        BROKEN,
        "the arguments of Size have the wrong type; expected a tuple, got list",
    ),
    "a rebuild of something else": (
        call("torch._tensor._rebuild_from_type_v2", name("collections.OrderedDict"), b"N", b")", b"N") + b".",
        UNSAFE,
        "_rebuild_from_type_v2 may not call",
    ),
    "encode in other words": (
        call("_codecs.encode", text("x"), text("zip")) + b".",
        BROKEN,
        "expected a string and 'latin1'",
    ),
    "a bytearray by its length": (
        call("builtins.bytearray", number(10**12)) + b".",
        BROKEN,
        r"bytearray was called with invalid arguments; .* got \(int\)",
    ),
    "bytes by their length": (
        call("builtins.bytes", number(10**12)) + b".",
        BROKEN,
        r"bytes was called with invalid arguments; .* got \(int\)",
    ),
    "complex of a text": (call("builtins.complex", text("1" * 99)) + b".", BROKEN, "expected two numbers"),
    "a size of a text": (
        call("torch.Size", text("x")) + b".",
        BROKEN,
        r"tuple was called with invalid arguments; .* got \(str\)",
    ),
    "a device of a list": (call("torch.device", b"]") + b".", BROKEN, "expected a string and a number"),
    "an OrderedDict of a text": (
        call("collections.OrderedDict", text("ab")) + b".",
        BROKEN,
        "expected a list of pairs",
    ),
    "a function as a value": (b"](" + name("torch.Size") + b"e.", UNSAFE, "contains 'Size' as a value"),
    "a storage as a value": (storage() + b".", UNSAFE, "contains 'Storage' as a value"),
    "a storage class as a value": (name("torch.FloatStorage") + b".", UNSAFE, "contains 'StorageType' as a value"),
    # Bombs
    "a memo of 2^32": (b"\x80\x02Nr\xff\xff\xff\xff.", BROKEN, "a memo index is out of range; .* got 4294967295"),
    "bytes of 2^62": (
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",
        BROKEN,
        "truncated; expected 4611686018427387904 more bytes",
    ),
    "a bytearray of 2^62": (b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b".", BROKEN, "truncated"),
    "a text of 2^32": (b"\x80\x02X\xff\xff\xff\xffabc.", BROKEN, "truncated; expected 4294967295 more bytes"),
    "a frame of 2^60": (
        b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",
        BROKEN,
        "expected a frame of 1152921504606846976",
    ),
    "an integer of 2^31 bytes": (b"\x80\x02\x8b\xff\xff\xff\x7f1.", BROKEN, "an integer has 2147483647 bytes"),
    "an integer of many digits": (b"I" + b"9" * 50_000 + b"\n.", BROKEN, "an integer has 50000 digits"),
    "a billion laughs": (laughs(), BROKEN, "shared parts repeat too often"),
    "lists in lists": (b"]" * 100_000 + b"a" * 99_999 + b".", BROKEN, "nested too deeply; expected at most 200 levels"),
    "tuples in tuples": (b"N" + b"\x85" * 100_000 + b".", BROKEN, "nested too deeply; expected at most 200 levels"),
    "tuples as a key": (b"}N" + b"\x85" * 100_000 + b"Ns.", BROKEN, "a key of type tuple; expected a string, a number"),
    "copies of a copy": (
        text("x" * 50_000) + b"q\x00" + b"(" + (name("_codecs.encode") + b"h\x00\x85R") * 50 + b"l.",
        BROKEN,
        "too many items or bytes are copied; expected at most \\d+, got \\d+",
    ),
    "sets of one tuple": (
        b"(" + b"".join(b"M" + struct.pack("<H", i) for i in range(5000)) + b"tq\x00"
        b"(" + (name("__builtin__.set") + b"h\x00\x85R") * 200 + b"l.",
        BROKEN,
        "too many items or bytes are copied; expected at most \\d+, got \\d+",
    ),
    "arguments over and over": (
        b"(" + tensor() + b"N" * 5000 + b"tq\x00"
        b"(" + (name("torch._utils._rebuild_parameter") + b"h\x00R") * 200 + b"l.",
        BROKEN,
        "too many items or bytes are copied; expected at most \\d+, got \\d+",
    ),
    "pairs of pairs from outside": (
        DOUBLED + b"Q.",
        UNSAFE,
        r"the only external objects that are allowed are storages.* got \(tuple, tuple\)",
    ),
    "pairs of pairs as a storage": (
        b"(" + text("storage") + DOUBLED * 4 + b"tQ.",
        BROKEN,
        r"a storage is invalid; .* got \('storage', tuple, tuple,",
    ),
    "pairs of pairs as a dtype": (
        call("torch._utils._rebuild_tensor_v3", storage(), number(0), numbers(4), numbers(1), b"\x89", b"N", DOUBLED)
        + b".",
        BROKEN,
        r"the dtype \(tuple, tuple\)",
    ),
    "pairs of pairs as metadata": (
        tensor(rest=HOOKS + DOUBLED) + b".",
        BROKEN,
        r"unknown metadata; .* got \(tuple, tuple\)",
    ),
    "pairs of pairs as sizes": (
        call("torch._utils._rebuild_tensor", storage(), number(0), DOUBLED, numbers(1)) + b".",
        BROKEN,
        r"invalid sizes; .* got \(tuple, tuple\)",
    ),
    "pairs of pairs as an encoding": (
        call("_codecs.encode", text("x"), DOUBLED) + b".",
        BROKEN,
        r"encode was called with invalid arguments; .* got 'x' and \(tuple, tuple\)",
    ),
    "pairs of pairs that rebuild": (
        call("torch._tensor._rebuild_from_type_v2", DOUBLED, b"N", b")", b"N") + b".",
        UNSAFE,
        r"_rebuild_from_type_v2 may not call \(tuple, tuple\)",
    ),
    "tuples in tuples from outside": (
        b"N" + b"\x85" * 3000 + b"Q.",
        UNSAFE,
        r"the only external objects that are allowed are storages.* got \(tuple,\)",
    ),
    "a tensor as the word storage": (
        b"(" + repeated() + b"N" * 4 + b"tQ.",
        UNSAFE,
        r"the only external objects that are allowed are storages.* got \(ndarray, None, None, None, None",
    ),
    "a tensor that rebuilds": (
        call("torch._tensor._rebuild_from_type_v2", repeated(), b"N", b")", b"N") + b".",
        UNSAFE,
        "_rebuild_from_type_v2 may not call ndarray",
    ),
    "a negative of a gigabyte": (
        repeated(rest=NEGATED) + b".",
        BROKEN,
        r"the tensors must be copied .* needs too much memory; .*, got \d+ bytes",
    ),
    "a conjugate of a gigabyte": (
        repeated(rest=CONJUGATED) + b".",
        BROKEN,
        r"the tensors must be copied .* needs too much memory; .*, got \d+ bytes",
    ),
    "a hundred negatives": (
        b"](" + repeated(0.01, rest=NEGATED) * 100 + b"e.",
        BROKEN,
        r"the tensors must be copied .* needs too much memory; .*, got \d+ bytes",
    ),
    "another dtype on its device": (
        call(
            "torch._utils._rebuild_device_tensor_from_cpu_tensor",
            repeated(),
            b"ctorch\nfloat64\n",
            text("xla"),
            b"\x89",
        )
        + b".",
        BROKEN,
        "has the dtype float64; expected float32, as on the CPU",
    ),
    "a list that holds itself": (b"]q\x00h\x00a.", BROKEN, "contains itself; expected a tree"),
    "a dict that holds itself": (b"}q\x00Nh\x00s.", BROKEN, "contains itself; expected a tree"),
    # Broken
    "nothing": (b"", BROKEN, "byte 0: the file is truncated"),
    "no end": (b"\x80\x02}", BROKEN, "invalid at byte 3: the file is truncated"),
    "no such opcode": (b"\x80\x02\xff.", BROKEN, "unknown opcode 0xff"),
    "protocol 9": (b"\x80\x09N.", BROKEN, "unknown protocol; expected at most 5, got 9"),
    "an empty stack": (b"\x80\x02.", BROKEN, "invalid at byte 2: the stack is empty"),
    "no mark": (b"\x80\x02t.", BROKEN, "there is no mark on the stack"),
    "an unknown memo": (b"\x80\x02h\x07.", BROKEN, "the memo has no value 7"),
    "a key that is a list": (b"}]Ns.", BROKEN, "a key of type list"),
    "a key without a value": (b"}(Nu.", BROKEN, "a key without a value"),
    "items for a number": (b"K\x01(NNu.", BROKEN, "expected a dict, got a int"),
    "a text that is none": (b"X\x02\x00\x00\x00\xff\xfe.", BROKEN, "can't decode"),
    "a quote that is none": (b"Sabc\n.", BROKEN, "a string has no quotes"),
    "digits that are none": (b"Iabc\n.", BROKEN, "invalid literal"),
    "a float that is none": (b"Fabc\n.", BROKEN, "could not convert"),
    # Tensors
    "a negative size": (tensor(size=(-1,)) + b".", BROKEN, r"invalid sizes; .* got \(-1,\)"),
    "a negative stride": (tensor(stride=(-1,), offset=3) + b".", BROKEN, r"invalid strides; .* got \(-1,\)"),
    "a negative offset": (tensor(offset=-1) + b".", BROKEN, r"invalid storage offset; .* got \(-1,\)"),
    "an offset outside": (
        tensor(offset=1) + b".",
        BROKEN,
        r"lies outside of .*; expected at least 5 elements of float32 \(20 bytes\), got 16 bytes",
    ),
    "a stride outside": (tensor(stride=(2,)) + b".", BROKEN, "lies outside of .*; expected at least 7 elements"),
    "sizes that overflow": (
        tensor(size=(2**62, 4), stride=(0, 0)) + b".",
        BROKEN,
        "is too large; expected less than 2",
    ),
    "sizes that overflow around a 0": (
        tensor(size=(2**62, 0, 4), stride=(0, 0, 0)) + b".",
        BROKEN,
        "is too large; expected less than 2",
    ),
    "sizes past 2^63": (tensor(size=(2**63,), stride=(0,)) + b".", BROKEN, "invalid sizes"),
    "strides past 2^63": (tensor(size=(2,), stride=(2**62,)) + b".", BROKEN, "lies outside"),
    "an element that fills a disk": (
        tensor(size=(2**40,), stride=(0,)) + b".",
        BROKEN,
        "repeats the 16 bytes of .* too many times; expected at most 1073741824 bytes",
    ),
    "sizes and strides": (
        tensor(size=(2, 2), stride=(1,)) + b".",
        BROKEN,
        "2 dimensions has the wrong number of strides; expected 2, got 1",
    ),
    "sixty-five dimensions": (tensor(size=(1,) * 65, stride=(1,) * 65) + b".", BROKEN, "expected at most 64, got 65"),
    "a tensor of a list": (tensor(of=b"]") + b".", BROKEN, "a tensor has no storage; expected a storage, got list"),
    "a tensor of too little": (
        call("torch._utils._rebuild_tensor_v2", storage()) + b".",
        BROKEN,
        "the 1 arguments of _rebuild_tensor_v2 do not match",
    ),
    "odd metadata": (tensor(rest=b"\x89N}X\x01\x00\x00\x00aNs") + b".", BROKEN, "expected at most conj and neg"),
    "a dtype that is none": (
        call("torch._utils._rebuild_tensor_v3", storage(), number(0), numbers(4), numbers(1), b"\x89", b"N", text("x"))
        + b".",
        BROKEN,
        "the dtype 'x'",
    ),
    "a parameter of a text": (
        call("torch._utils._rebuild_parameter", text("x"), b"\x89", b"N") + b".",
        BROKEN,
        "a parameter contains no tensor; expected a tensor, got str",
    ),
    "a storage of -1": (tensor(of=storage(count=-1)) + b".", BROKEN, "a storage is invalid"),
    "a storage of a text": (
        b"(" + text("storage") + text("FloatStorage") + text("0") + text("cpu") + number(4) + b"tQ.",
        BROKEN,
        "a storage is invalid",
    ),
}
