"""Write GGUF files, as the specification says, without the package gguf."""

import struct

import numpy as np

CODES = {"uint8": 0, "int32": 5, "uint32": 4, "float32": 6, "bool": 7, "string": 8, "array": 9, "uint64": 10}
FORMATS = {"uint8": "B", "int32": "i", "uint32": "I", "float32": "f", "bool": "?", "uint64": "Q"}
TENSOR_TYPES = {"float32": 0, "float16": 1, "bfloat16": 30}


def gguf_bytes(keys, tensors=(), *, version=3, order="<", alignment=32, dtype="float32"):
    """Return the bytes of a file with these keys, in their order, and these tensors, by name."""

    def pack(kind, value):
        if kind == "string":
            text = value.encode()
            return struct.pack(f"{order}Q", len(text)) + text
        if kind == "array":
            inner = kind_of(value[0])
            head = struct.pack(f"{order}IQ", CODES[inner], len(value))
            return head + b"".join(pack(inner, one) for one in value)
        return struct.pack(order + FORMATS[kind], value)

    tensors = dict(tensors)
    keys = dict(keys) | ({} if alignment == 32 else {"general.alignment": alignment})
    head = b"GGUF" + struct.pack(f"{order}IQQ", version, len(tensors), len(keys))
    for key, value in keys.items():
        kind = kind_of(value)
        head += pack("string", key) + struct.pack(f"{order}I", CODES[kind]) + pack(kind, value)
    data = b""
    for name, numbers in tensors.items():
        head += pack("string", name) + struct.pack(f"{order}IQIQ", 1, len(numbers), TENSOR_TYPES[dtype], len(data))
        data += tensor_bytes(numbers, dtype, order)
        data += b"\0" * (-len(data) % alignment)
    return head + b"\0" * (-len(head) % alignment) + data


def kind_of(value):
    """Return the type that converters give to a value."""
    kinds = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array", tuple: "array"}
    return kinds[type(value)]


def tensor_bytes(numbers, dtype, order):
    """Return numbers as the bytes of a tensor."""
    if dtype == "bfloat16":
        return (np.asarray(numbers, np.float32).view(np.uint32) >> 16).astype(f"{order}u2").tobytes()
    return np.asarray(numbers, dtype).astype(np.dtype(dtype).newbyteorder(order)).tobytes()


def write_gguf(path, metadata, **options):
    """Write the metadata that `to_gguf` returns, with its tensors, to a file; return its path."""
    tensors = {key: value for key, value in metadata.items() if key.endswith(".weight")}
    path.write_bytes(gguf_bytes({key: metadata[key] for key in metadata.keys() - tensors.keys()}, tensors, **options))
    return path
