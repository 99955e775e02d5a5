"""Strategies of hypothesis: the inputs of each area, as texts."""

import json

from hypothesis import strategies as st

from posenc_backends.conformance.cases import golden
from posenc_core.encodings import Encoding
from posenc_core.scaling import Scaling

from ..backends.test_hostile_layers import CALLED, KERAS_SHOWS, MADE
from ..core.test_bad_values import SWEEP
from ..core.test_values import ENCODINGS
from ..hostile import VALUES
from .names import CONFIG, FUNCTIONS, GGUF, SAFETENSORS

BIG = (2**33, 2**53, 2**63 - 1, -(2**63), 10**30, 10**400)
DTYPES = ("float64", "float32", "float16", "int64", "int8", "uint64", "bool", "complex64", "U3", "O", "datetime64[s]")
WORDS = ("half", "interleaved", "linear", "yarn", "dynamic", "llama", "full_attention", "both", "past", "", "a b")

# a module whose tests are of another area is no place for these: they shrink as texts, so that one can be pasted
numbers = st.one_of(
    st.integers(-3, 40), st.sampled_from(BIG), st.floats(), st.sampled_from((0.5, 1.0, 2.0, 1e-30, 1e30, 1e300))
)
plain = st.one_of(st.none(), st.booleans(), numbers, st.sampled_from(WORDS), st.text(max_size=4))
USUAL = ((3,), (1, 3), (2,), (3, 3), (3, 2), (1, 3, 8), (2, 3, 8), (1, 2, 3, 4), (2, 2, 3, 4), (1, 2, 3, 3))
shapes = st.one_of(st.sampled_from(USUAL), st.lists(st.integers(0, 4), max_size=4).map(tuple))
arrays = st.builds("array({}, {!r})".format, shapes, st.sampled_from(DTYPES))


def values(backend):
    """Return texts of values for any argument."""
    hidden = KERAS_SHOWS if backend == "keras" else ()
    names = st.sampled_from([name for name in VALUES if name not in hidden])
    hostile = st.one_of(names.map("V[{!r}]".format), names.map("F[{!r}]".format))
    lists = st.lists(st.one_of(st.integers(-2, 5), st.floats(-2, 9)), max_size=4).map(repr)
    return st.one_of(numbers.map(repr), plain.map(repr), lists, hostile, arrays, arrays.map("of({})".format))


def keywords(names, given):
    """Return texts of a few keyword arguments out of these names."""
    some = st.lists(st.sampled_from(sorted(names)), min_size=1, max_size=3, unique=True)
    return some.flatmap(lambda chosen: st.tuples(*(given.map(f"{name}={{}}".format) for name in chosen))).map(", ".join)


def constructors(backend):
    """Return calls of encodings and scalings."""

    def of(entry):
        kind, valid, sweep = entry
        made = keywords(sweep, values(backend))
        return made.map(lambda text: f"used({kind.__name__}, **{valid!r} | dict({text}))")

    return st.sampled_from([entry for entry in SWEEP if issubclass(entry[0], Encoding | Scaling)]).flatmap(of)


def functions(backend):
    """Return calls of functions of the core."""

    def of(name):
        valid = FUNCTIONS[name][1]
        plain_names = [each for each in valid if not each.startswith("*") and not callable(valid[each])]
        return keywords(plain_names, values(backend)).map(f"function({name!r}, {{}})".format)

    named = [name for name, (_, valid) in FUNCTIONS.items() if any(not each.startswith("*") for each in valid)]
    return st.sampled_from(named).flatmap(of)


def layers(backend):
    """Return layers that are made and called."""

    def of(name):
        made = st.one_of(st.just(""), keywords(MADE[name], values(backend)))
        calls = st.one_of(st.just(""), keywords(CALLED[name], values(backend)))
        return st.builds((f"layer({name!r}, dict({{}}), **dict({{}}))").format, made, calls)

    return st.sampled_from(sorted(MADE)).flatmap(of)


def edits(tree, pool):
    """Return dicts like `tree`, with some values exchanged, keys taken away, and keys of the pool added."""
    wild = st.recursive(plain, lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(pool), inner, max_size=3)
    ), max_leaves=4)  # fmt: skip
    change = st.tuples(st.sampled_from(pool), st.one_of(st.just(...), wild))

    def apply(changes, inside):
        content = json.loads(json.dumps(tree))
        for key, value in changes:
            nested = [each for each in content.values() if isinstance(each, dict)]
            target = nested[0] if inside and nested else content
            if value is ...:
                target.pop(key, None)
            else:
                target[key] = value
        return content

    return st.builds(apply, st.lists(change, min_size=1, max_size=4), st.booleans())


def texts(backend):
    """Return descriptions of encodings, as JSON and in notation."""
    dicts = [encoding.to_dict() for encoding in ENCODINGS if "Halved" not in repr(encoding)]
    pool = sorted({key for each in dicts for key in each})
    as_json = (
        st.sampled_from(dicts).flatmap(lambda tree: edits(tree, pool)).map(json.dumps).map("from_json({!r})".format)
    )
    written = [repr(encoding) for encoding in ENCODINGS]

    def cut(text, place, piece):
        place %= len(text) + 1
        return text[:place] + piece + text[place + len(piece) :]

    pieces = st.one_of(st.text(alphabet="()=,'\"[]{}.0123456789-+*e\\ \n#Nonetrue", max_size=4), st.text(max_size=3))
    notation = st.builds(cut, st.sampled_from(written), st.integers(0, 200), pieces).map("from_notation({!r})".format)
    return st.one_of(as_json, notation)


CHUNKS = {"chunk_size": 16, "local_size": 4, "original_max_position_embeddings": 32}
OTHER_CONFIGS = (  # the reader, a config, and keys that are added
    ("load_rope", CONFIG | {"model_type": "qwen2", "dual_chunk_attention_config": CHUNKS}, tuple(CHUNKS)),
    ("load_diffusers", {"_class_name": "FluxTransformer2DModel"}, ("axes_dims_rope", "rope_theta", "patch_size")),
    ("load_timm", {"architecture": "vit_pe_core_base_patch16_224"}, ("model_args", "num_heads", "embed_dim")),
)


def configs(backend):
    """Return configs that are read."""
    known = [case["config"] for case in golden("rope_models")] + [CONFIG]
    inner = {key for each in known for value in each.values() if isinstance(value, dict) for key in value}
    pool = sorted({key for each in known for key in each} | inner | {"text_config", "vision_config", "rope_scaling"})
    readers = st.sampled_from(("load_rope", "load_position", "layer_types", "explain", "compare_rope"))
    changed = st.sampled_from(known).flatmap(lambda tree: edits(tree, pool))
    others = [
        st.builds("{}({!r})".format, st.just(reader), edits(tree, sorted({*tree, *more})))
        for reader, tree, more in OTHER_CONFIGS
    ]
    return st.one_of(st.builds("{}({!r})".format, readers, changed), *others)


def files(backend):
    """Return checkpoints."""
    changes = st.lists(st.tuples(st.integers(0, len(GGUF) - 1), st.integers(0, 255)), max_size=4)
    lengths = st.one_of(st.just(len(GGUF)), st.integers(0, len(GGUF) + 9))
    pool = ["a", "dtype", "shape", "data_offsets", "__metadata__"]
    headers = edits(SAFETENSORS, pool).map(json.dumps)
    sizes = st.one_of(st.none(), st.integers(0, 200), st.sampled_from((2**31, 2**63, 2**64 - 1)))
    raw = st.binary(max_size=40).map("safetensors({!r})".format)
    whole = st.builds("safetensors({!r}, size={}, data={})".format, headers, sizes, st.integers(0, 40))
    index = edits({"weight_map": {"a": "b.safetensors"}}, ["weight_map", "a", "../b"]).map(json.dumps)
    return st.one_of(
        st.builds("gguf({}, {})".format, changes, lengths), whole, raw, index.map("shards({!r})".format),
        st.text(max_size=20).map("shards({!r})".format),
    )  # fmt: skip


def requests(backend):
    """Return links and requests to the explorer."""
    names = ("encoding", "dim", "head_dim", "layout", "base", "length", "scaling", "scaling.factor", "pair", "position")
    words = ("Rotary", "Alibi", "Sinusoidal", "YaRN", "none", "yes", "nan", "1e999", "-1", "9" * 400, "0", "64", "8.5")
    asked = st.lists(st.tuples(st.sampled_from(names), st.one_of(st.sampled_from(words), plain.map(str))), max_size=5)
    queries = asked.map(lambda pairs: "?" + "&".join(f"{name}={word}" for name, word in pairs))
    body = {"outputs": [], "inputs": [{"id": "url", "property": "search", "value": "?"}]}
    bodies = edits(body | {"changedPropIds": [], "state": []}, [*body, "id", "property", "value", "state"])
    posts = st.one_of(st.none(), st.binary(max_size=30))
    paths = st.one_of(st.just("/_dash-update-component"), st.text("abc/_-.%?#0", max_size=12).map("/a{}".format))
    return st.one_of(
        queries.map("link({!r})".format), st.builds("explorer({!r}, {!r})".format, paths, posts),
        st.builds("update({}, {!r})".format, st.integers(0, 9), bodies),
    )  # fmt: skip


def ties(backend):
    """Return tables with entries that lie at or near the middle of two float32 numbers: of numbers of few bits."""
    few = st.builds(lambda bits, power: (2 * bits + 1) * 2.0**power, st.integers(2**23, 2**24), st.integers(-1073, 3))
    positions = st.lists(st.one_of(st.just(0), st.integers(-9, 9), few, few.map(lambda each: -each)), max_size=2)
    factors = st.sampled_from((0, 1, 3, 2**23 + 1)).map(
        lambda ulps: f"AttentionFactor(attention_factor={1 + ulps / 2**24})"
    )
    widths, bases = st.sampled_from((2, 4, 10, 20)), st.sampled_from((1, 4.0, 1e4))
    plain = st.builds("Rotary(head_dim={}, layout='half', base={}, scaling={})".format, widths, bases, factors)
    decaying = st.builds(
        "XPos(head_dim={}, layout='half', center={}, scale_base={}, scaling={})".format,
        widths, st.sampled_from((0, 1, -7, 24, 2048, 0.75)), st.sampled_from((1, 16, 512, 0.5, 1e-3)), factors,
    )  # fmt: skip
    return st.builds("rounded({}, {})".format, st.one_of(plain, decaying), positions)


AREAS = {
    "constructors": constructors, "functions": functions, "layers": layers, "texts": texts, "configs": configs,
    "files": files, "requests": requests, "ties": ties,
}  # fmt: skip
OF_FRAMEWORKS = ("functions", "layers")  # the others run no framework
