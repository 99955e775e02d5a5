"""The saved state of a tree of layers: its leaves by name, and the encodings that they were trained with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.tree_util import keystr

from posenc_core.encodings import Encoding
from posenc_core.layers.encoding_bytes import check_saved, to_bytes

from .base import EncodingArrays

Host = np.ndarray[Any, Any]


def to_state(tree: Any, /) -> dict[str, Host]:
    """The leaves of a layer, or of any tree that holds some, and the encodings of the layers, as NumPy arrays by name.

    Names are paths in the tree. An encoding is the bytes of its JSON, so that `numpy.savez`, safetensors and orbax
    alike can save what is given here.

    >>> from posenc_backends.jax import PositionalEncoding
    >>> from posenc_core import Learned
    >>> learned = PositionalEncoding(8, encoding=Learned(dim=8, length=5), key=jax.random.key(0))
    >>> state = to_state({"embed": learned})
    >>> {name: array.shape for name, array in state.items() if array.dtype == np.float32}
    {"['embed'].parameters['table']": (5, 8)}
    >>> bytes(state["['embed'].encoding"])[:17]
    b'{"kind": "Learned'
    """
    leaves = {keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    return leaves | {name: to_bytes(encoding) for name, encoding in _encodings(tree)}


def from_state(tree: Any, state: Mapping[str, Any], /) -> Any:
    """A tree like `tree`, with the leaves that `to_state` gave.

    Args:
        tree: of the structure that was saved; its leaves may be `jax.ShapeDtypeStruct`, as `jax.eval_shape` makes them.
        state: by name.
    Raises:
        ValueError: if a layer of `tree` has another encoding than was saved (both are named), or if a leaf is missing,
            of another shape, or of no place in the tree.

    >>> from posenc_backends.jax import AttentionBias
    >>> from posenc_core import T5Bias
    >>> layer = AttentionBias(T5Bias(num_heads=2), key=jax.random.key(0))
    >>> from_state(layer, to_state(layer))
    AttentionBias(T5Bias(num_heads=2))
    """
    check_saved(dict(_encodings(tree)), state)
    given = {name: array for name, array in state.items() if not name.endswith(".encoding")}
    paths, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = {keystr(path): leaf for path, leaf in paths}
    if given.keys() != leaves.keys():
        raise ValueError(f"`state` must have the leaves {sorted(leaves)}, got {sorted(given)}.")
    for name, leaf in leaves.items():
        if given[name].shape != leaf.shape:
            raise ValueError(f"`{name}` must have shape {leaf.shape}, got {given[name].shape}.")
    return jax.tree_util.tree_unflatten(structure, [_native(given[name]) for name in leaves])


def _encodings(tree: Any) -> Iterator[tuple[str, Encoding]]:
    """Yield the encodings of the layers in a tree, by name."""
    for path, node in jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda node: isinstance(node, EncodingArrays)):
        if isinstance(node, EncodingArrays):
            yield f"{keystr(path)}.encoding", node.encoding


def _native(leaf: Any) -> jax.Array:
    """Return the array; NumPy's files forget that two bytes are a bfloat16."""
    return jnp.asarray(leaf.view(jnp.bfloat16) if leaf.dtype == np.dtype("V2") else leaf)
