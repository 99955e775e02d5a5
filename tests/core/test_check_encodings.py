"""`check` judges every encoding of the catalogue: those of several axes, that learn, and that look at content."""

from dataclasses import replace

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_core.attention.attend import AttentionInputs
from posenc_core.encodings import (
    AxialRotary,
    Cope,
    DebertaBias,
    DecomposedBias,
    DualChunk,
    DynamicPositionBias,
    Fire,
    FoPE,
    ForgettingBias,
    FourierFeatures,
    GridSinusoidal,
    Kerple,
    LeakyReRoPE,
    Learned,
    LearnedQueryScale,
    LearnedRotary,
    LearnedSinusoidal,
    MixedRotary,
    MultimodalRotary,
    Normalized,
    Placed,
    PoPE,
    QueryScale,
    RandomFourierFeatures,
    RelativeLogits,
    ReRoPE,
    Rotary,
    SelfExtend,
    ShawBias,
    SwinBias,
    SwinV2Bias,
    T5Bias,
    Timestep,
    TransformerXLBias,
    XPos,
)
from posenc_core.rotation import rotate_pairs
from posenc_core.scaling import Linear, YaRN

from .corpus import shorten_search

FEW = {"takes": (), "longest": 64}  # few calls, where the name of a mistake is tested that each of them shows


@pytest.fixture(autouse=True)
def few_random_calls(monkeypatch):
    """Make fewer random calls: what they find is tested for plain rotations."""
    monkeypatch.setattr("posenc_backends.check.sample_calls.RANDOM_CALLS", 6)


@pytest.fixture
def short_search(monkeypatch):
    shorten_search(monkeypatch)


def weights_of(encoding):
    generator = np.random.default_rng(0)
    return {name: 0.2 * generator.standard_normal(one.shape) + one.mean for name, one in encoding.parameters().items()}


def rotation(encoding, change=lambda positions: positions):
    def rope(q, k, positions):
        tables = list(encoding.rows(change(positions)).values()) if isinstance(encoding, XPos) else None
        tables = encoding.cos_sin(change(positions)) if tables is None else tables
        tables = [table if table.ndim == 2 else table[:, None] for table in tables]
        turn = lambda x, cos, sin: rotate_pairs(x, cos, sin, pairing=encoding.pairing)
        return turn(q, *tables[:2]), turn(k, *tables[-2:])

    return rope


ROTARY = [
    XPos(head_dim=8, layout="half"),
    AxialRotary(head_dim=8, layout="interleaved", axes_dims=(4, 4)),
    MultimodalRotary(head_dim=16, layout="half", sections=(4, 2, 2)),
    MultimodalRotary(head_dim=16, layout="half", sections=(2, 1, 1), rotary_dim=8),
]


@pytest.mark.parametrize("encoding", ROTARY, ids=["XPos", "AxialRotary", "MultimodalRotary", "partial"])
def test_rotations_with_tables_of_keys_or_several_axes(encoding):
    result = check(rotation(encoding), encoding)
    assert (result.status, result.precision) == (0, "rounded once"), result
    moved = check(rotation(encoding, lambda positions: positions + 1), encoding, **FEW)
    assert moved.names == ("positions off by one",), moved


def test_mistakes_of_axes_are_named():
    axial = ROTARY[1]
    for change, name in (
        (lambda positions: positions[::-1], "axes swapped"),
        (lambda positions: np.stack([positions[1], positions[1]]), "one axis for all"),
    ):
        assert check(rotation(axial, change), axial, **FEW).names == (name,)
    linear = Linear(factor=2)
    scaled = replace(axial, scaling=(linear, YaRN(factor=2, original_max_position_embeddings=64)))
    for scaling, name in ((None, "scaling ignored"), (linear, "wrong scaling")):
        assert check(rotation(replace(scaled, scaling=scaling)), scaled, **FEW).names == (name,)


@pytest.mark.parametrize(
    "encoding",
    [
        GridSinusoidal(dim=16, convention="mae"),
        FourierFeatures(dim=8, num_axes=2),
        RandomFourierFeatures(dim=8, scale=1.0, seed=0, num_axes=2),
        Timestep(dim=8),
        Normalized(dim=1, length=64),
    ],
    ids=lambda one: type(one).__name__,
)
def test_tables(encoding):
    assert check(encoding.table, encoding).status == 0
    assert check(lambda positions: 2 * encoding.table(positions), encoding, longest=64).status == 1


def test_rows_that_are_learned():
    for encoding in (Learned(dim=4, length=64), Learned(dim=4, length=64, offset=2)):
        table = weights_of(encoding)["table"]
        assert check(lambda p, t=table, e=encoding: t[p + e.offset], encoding, parameters={"table": table}).status == 0
    other = check(lambda p, t=table: t[p], encoding, parameters={"table": table})
    assert other.status == 1


def test_frequencies_that_are_learned():
    encoding = LearnedSinusoidal(dim=4)
    alpha = weights_of(encoding)["alpha"]
    frequencies = 10000.0 ** (-np.arange(2) / 2) * np.exp(alpha)

    def table(positions):
        angles = positions[..., None] * frequencies
        return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, 4)

    assert check(table, encoding, parameters={"alpha": alpha}).status == 0
    assert check(table, encoding, parameters={"alpha": 0 * alpha}).status == 1

    def cos_sin(positions):
        angles = positions[..., None] * frequencies
        return np.cos(angles), np.sin(angles)

    rotary = LearnedRotary(head_dim=4, layout="half")
    assert check(cos_sin, rotary, parameters={"alpha": alpha}).precision == "exact"
    assert check(lambda p: cos_sin(p + 1), rotary, parameters={"alpha": alpha}).names == ("positions off by one",)


def mixed(encoding, weights, change=lambda cos, sin: (cos, sin)):
    narrow = {name: np.float32(array) for name, array in weights.items()}

    def rope(q, k, positions):
        tables = change(*encoding.mixed(narrow, encoding.cos_sin(positions)))
        tables = [table if table.ndim == 2 or encoding.num_heads else table[:, None] for table in tables]
        return tuple(rotate_pairs(x, *tables, pairing=encoding.pairing) for x in (q, k))

    return rope


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(
    "encoding",
    [
        FoPE(head_dim=8, layout="half", num_terms=3),
        FoPE(head_dim=8, layout="interleaved", length=1024, num_heads=3, floor_sine=0, direction="inverse"),
    ],
    ids=["shared", "heads"],
)
def test_rows_that_are_mixed(encoding):
    weights = {name: np.float32(5 * array) for name, array in weights_of(encoding).items()}
    assert check(mixed(encoding, weights), encoding, parameters=weights).status == 0
    swapped = {"cos_mixing": weights["sin_mixing"], "sin_mixing": weights["cos_mixing"]}
    assert check(mixed(encoding, swapped), encoding, parameters=weights, **FEW).status == 1
    flipped = mixed(encoding, weights, lambda cos, sin: (cos, -sin))
    assert check(flipped, encoding, parameters=weights, **FEW).names == ("sign flipped",)
    tables = lambda positions: encoding.mixed(weights, encoding.cos_sin(positions))
    assert check(tables, encoding, parameters=weights).status == 0


@pytest.mark.parametrize("num_axes", [2, 3])
def test_rotations_along_learned_directions(num_axes):
    encoding = MixedRotary(head_dim=12, layout="interleaved", num_heads=3, num_axes=num_axes)
    weights = {name: np.float32(array) for name, array in weights_of(encoding).items()}

    def rope(frequencies, change=lambda positions: positions, sign=1):
        def rotated(q, k, positions):
            at = change(np.asarray(positions, frequencies.dtype))[..., None, :, None]
            angles = sum(own * each[:, None, :] for own, each in zip(at, frequencies, strict=True))
            cos, sin = (np.float32(f(angles)) for f in (np.cos, np.sin))
            return tuple(rotate_pairs(x, cos, sign * sin, pairing=encoding.pairing) for x in (q, k))

        return rotated

    def precision(frequencies):
        return check(rope(frequencies), encoding, parameters=weights, allow="float32 angles").precision

    exact = np.float64(weights["frequencies"])
    assert check(rope(exact), encoding, parameters=weights).status == 0
    assert precision(exact) == "rounded once"
    assert precision(weights["frequencies"]) == "float32 angles"
    for wrong, name in (
        (rope(exact, sign=-1), "sign flipped"),
        (rope(exact, lambda positions: positions + 1), "positions off by one"),
        (rope(exact, lambda positions: positions[::-1]), "axes swapped"),
        (rope(exact[:, ::-1]), "heads reversed"),
    ):
        assert check(wrong, encoding, parameters=weights, **FEW).names == (name,)


POLAR = PoPE(head_dim=8, num_heads=2)
CHANNELS = np.arange(8)


def polar(
    *,
    bound=lambda phase: np.clip(phase, -2 * np.pi, 0),
    softplus=lambda x: np.logaddexp(0, x),
    exponents=CHANNELS / 8,
    of_queries=0,
    of_keys=1,
    dtype=np.float64,
    order=lambda cos, sin: np.concatenate([cos, sin], axis=-1),
):
    """Return a function with the phases of `PHASE`, as a user may write it."""

    def pope(q, k, positions):
        angles = np.asarray(positions, dtype)[..., None] * (10000.0**-exponents).astype(dtype)
        angles = angles if angles.ndim == 2 else angles[:, None]

        def placed(x, factor):
            at = (angles + (factor * bound(PHASE)[:, None] if factor else 0)).astype(dtype)
            magnitudes = softplus(x.astype(np.float32))
            return order(magnitudes * np.cos(at), magnitudes * np.sin(at)).astype(x.dtype)

        return placed(q, of_queries), placed(k, of_keys)

    return pope


PHASE = np.float32([[0.5, -1, -2, -3, -4, -5, -6, -7], [-0.25, -1.5, -2.5, -3.5, -4.5, 1, -5.5, -8]])


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ()),
        ({"dtype": np.float32}, ("float32 angles",)),
        ({"of_keys": -1}, ("sign of phases flipped",)),
        ({"of_queries": 1, "of_keys": 0}, ("phases on queries", "phases ignored")),
        ({"bound": lambda phase: phase}, ("phases without bounds",)),
        ({"bound": lambda phase: np.clip(phase, 0, 2 * np.pi)}, ("phases with other bounds",)),
        ({"bound": lambda phase: np.clip(phase[::-1], -2 * np.pi, 0)}, ("heads reversed",)),
        ({"softplus": lambda x: x}, ("softplus missing",)),
        ({"softplus": lambda x: np.maximum(x, 0)}, ("another function for softplus",)),
        ({"exponents": CHANNELS // 2 / 4}, ("frequencies of RoPE",)),
        (
            {"order": lambda cos, sin: np.stack([cos, sin], axis=-1).reshape(*cos.shape[:-1], 16)},
            ("channels in another order",),
        ),
    ],
    ids=lambda given: " ".join(given) or "right" if isinstance(given, tuple) else "",
)
def test_magnitudes_at_angles(options, names):
    result = check(
        polar(**options), POLAR, parameters={"phase": PHASE}, longest=None if "dtype" in options else 2048, takes=()
    )
    assert (result.names, result.status) == (names, int(bool(names))), result
    assert result.form == "rotation"


def side_by_side(cos, sin):
    return np.stack([cos, sin], axis=-1).reshape(*cos.shape[:-1], 16)


def polar_products(*, grouped=True, first=None, **options):
    """Return the products of what `polar` returns for queries and keys."""

    def products(q, k, queries, keys):
        pope = polar(**options)
        others = (np.zeros((len(x), 2, x.shape[2], 8), np.float32) for x in (q, k))
        at_queries, _ = pope(q, next(others), queries if first is None else queries - queries[..., :1] + first)
        _, at_keys = pope(next(others), k, keys)
        times = q.shape[1] // k.shape[1] if grouped else 1
        return at_queries @ np.repeat(at_keys, times, axis=1).swapaxes(-1, -2)

    return products


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ()),
        ({"order": side_by_side}, ()),
        ({"grouped": False}, ()),
        ({"dtype": np.float32}, ("float32 angles",)),
        ({"of_keys": -1}, ("sign of phases flipped",)),
        ({"of_queries": 1, "of_keys": 0, "grouped": False}, ("sign of phases flipped",)),  # the same products
        ({"softplus": lambda x: x}, ("softplus missing",)),
        ({"first": 0}, ("positions ignored",)),
    ],
    ids=lambda given: " ".join(given) or "right" if isinstance(given, tuple) else "",
)
def test_products_of_magnitudes_at_angles(options, names):
    """The order of channels does not matter; fewer heads of keys may be refused."""
    longest = None if "dtype" in options else 2048
    result = check(polar_products(**options), POLAR, parameters={"phase": PHASE}, longest=longest, takes=())
    assert (result.names, result.status, result.form) == (names, int(bool(names)), "products"), result
    asked = "fewer heads of keys" in {name for name, _, _ in result.answers}
    assert asked == ("grouped" not in options), result
    assert ("not checked, fewer heads of keys" in str(result)) == (not asked)


BIASES = [
    T5Bias(num_heads=2),
    Fire(num_heads=2),
    Kerple(num_heads=2),
    SwinBias(num_heads=2, window=(5, 7)),
    SwinV2Bias(num_heads=2, window=(5, 7), hidden=4, std=1),
    DynamicPositionBias(num_heads=2, hidden=4, log_distance=True),
]


@pytest.mark.parametrize("encoding", BIASES, ids=lambda one: type(one).__name__)
def test_biases_that_are_learned(encoding):
    weights = weights_of(encoding)

    def bias(queries, keys):
        return np.float32(encoding.score({**encoding.constants(0), **weights}, queries, keys))

    assert check(bias, encoding, parameters=weights).status == 0
    assert check(lambda q, k: -bias(q, k), encoding, parameters=weights).names == ("sign flipped",)
    assert check(lambda q, k: bias(q, k)[::-1], encoding, parameters=weights).names == ("heads reversed",)


CONTENT = [
    Cope(num_heads=2, head_dim=8, max_position=16),
    ShawBias(num_heads=2, head_dim=8, max_distance=6),
    TransformerXLBias(num_heads=2, head_dim=8, max_distance=32),
    DecomposedBias(num_heads=2, head_dim=8, window=(5, 7)),
    DebertaBias(num_heads=2, head_dim=8, max_distance=32, num_buckets=8, terms="c2p"),
    RelativeLogits(num_heads=2, head_dim=8, max_distance=32, num_curves=4),
    ForgettingBias(num_heads=2, head_dim=8),
]


@pytest.mark.parametrize("encoding", CONTENT, ids=lambda one: type(one).__name__)
def test_scores_that_depend_on_content(encoding):
    weights = weights_of(encoding)
    narrow = encoding.constants(0) | {name: np.float32(array) for name, array in weights.items()}

    def scores(q, k, queries, keys):
        hidden = (keys > queries[:, None]) & encoding.needs_all_keys
        products = np.where(hidden, -np.inf, q @ k.swapaxes(-1, -2) / np.float32(8**0.5)).astype(np.float32)
        return encoding.scores(narrow, queries, keys, AttentionInputs(q, k, products)) * ~hidden

    assert check(scores, encoding, parameters=weights).status == 0
    assert check(lambda *given: -scores(*given), encoding, parameters=weights).names == ("sign flipped",)
    doubled = check(lambda *given: 2 * scores(*given), encoding, parameters=weights)
    assert doubled.status == 1


def of_llama_4(positions):
    """Return its factors as it computes them, in float32."""
    steps = np.floor((np.float32(positions) + 1) / np.float32(8192))
    return np.log1p(steps) * np.float32(0.1) + np.float32(1)


def multiplied(factors):
    def scale(x, positions):
        column = np.float32(factors(positions))[..., None]
        return (np.float32(x) * (column if positions.ndim == 1 else column[:, None])).astype(x.dtype)

    return scale


@pytest.mark.parametrize(
    ("factors", "names"),
    [
        (of_llama_4, ()),
        (lambda positions: of_llama_4(positions - 1), ("start swapped",)),
        (lambda positions: np.ones(positions.shape), ("factor missing",)),
        (lambda positions: of_llama_4(positions) ** 2, ("factor squared",)),
        (lambda positions: 1 + 0.1 * np.log(np.maximum((positions + 1) / 8192, 1)), ("growth of another formula",)),
    ],
)
def test_factors_of_queries(factors, names):
    spec = QueryScale(length=8192, scale=0.1)
    assert check(multiplied(factors), spec).names == names
    assert check(lambda positions: np.float32(factors(positions))[:, None], spec).names == names


def test_learned_factors_of_queries():
    encoding = LearnedQueryScale(num_heads=2)
    weights = weights_of(encoding)

    def scale(x, positions, numbers=weights):
        (rows,) = encoding.rows(positions).values()
        return np.float32(x * encoding.factors_of(numbers, rows[..., None, :, :])).astype(x.dtype)

    assert check(scale, encoding, parameters=weights).status == 0
    swapped = {name: array[::-1] for name, array in weights.items()}
    wrong = check(lambda x, positions: scale(x, positions, swapped), encoding, parameters=weights)
    assert wrong.names == ("heads reversed",)


ROPE = Rotary(head_dim=16, layout="half")
REMAPPED = (
    SelfExtend(rotary=ROPE, window=37, group_size=5),
    ReRoPE(rotary=ROPE, window=64),
    LeakyReRoPE(rotary=ROPE, window=64, factor=4),
    DualChunk(rotary=ROPE, chunk_size=64, local_size=16),
)


def multiplied_at(encoding, shift=(0, 0)):
    """Return a function for the products of queries and keys, at positions that are shifted."""

    def products(q, k, queries, keys):
        at = Placed(encoding, queries + shift[0], keys + shift[1])
        return np.where(keys > queries[:, None], 0, at.products(*at.rotate(q, k))).astype(np.float32)

    return products


@pytest.mark.parametrize("encoding", REMAPPED, ids=lambda one: type(one).__name__)
def test_products_at_remapped_positions(encoding):
    right = check(multiplied_at(encoding), encoding)
    assert (right.status, right.form) == (0, "products"), right
    assert "at the edges" in [name for name, _, _ in right.answers]
    for wrong, name in (
        (replace(encoding, rotary=replace(ROPE, layout="interleaved")), "layout swapped"),
        (replace(encoding, rotary=replace(ROPE, base=5e5)), "wrong base"),
        (ReRoPE(rotary=ROPE, window=2**30), "remapping ignored"),
    ):
        assert check(multiplied_at(wrong), encoding, takes=(), longest=200).names == (name,)
    assert check(multiplied_at(encoding, (1, 0)), encoding, takes=(), longest=200).names == ("positions off by one",)


@pytest.mark.parametrize(
    ("encoding", "fields"),
    [
        (REMAPPED[0], {"window": 38}),
        (REMAPPED[0], {"group_size": 4}),
        (REMAPPED[1], {"window": 63}),
        (REMAPPED[2], {"window": 65}),
        (REMAPPED[3], {"local_size": 17}),
        (REMAPPED[3], {"chunk_size": 63}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else next(iter(value)),
)
def test_a_size_that_is_off_by_one_is_named(encoding, fields):
    result = check(multiplied_at(replace(encoding, **fields)), encoding, takes=(), longest=200)
    (name,) = fields
    assert result.names == (f"{name} off by one",), result


@pytest.mark.parametrize(
    ("encoding", "names"), [(REMAPPED[0], ("float32 angles",)), (REMAPPED[3], ())], ids=["SelfExtend", "DualChunk"]
)
def test_angles_in_float32_are_a_class_of_remapped_positions(encoding, names):
    """Positions of `DualChunk` stay small, so that no angle is off."""
    frequencies = np.float32(10000.0 ** -(np.arange(0, 16, 2) / 16))

    def rotated(x, positions):
        angles = np.float32(positions)[:, None] * frequencies
        return rotate_pairs(np.float32(x), np.cos(angles), np.sin(angles), pairing=ROPE.pairing)

    def products(q, k, queries, keys):
        of_queries, of_keys = (encoding.remapped(at.astype(float)) for at in (queries, keys))
        result = 0
        for (i, j), last in zip(encoding.regions, (None, *encoding.last_keys(queries)), strict=True):
            of_region = rotated(q, of_queries[i]) @ rotated(k, of_keys[j]).swapaxes(-1, -2)
            result = of_region if last is None else np.where(keys <= last[:, None], of_region, result)
        return np.where(keys > queries[:, None], 0, result)

    assert check(products, encoding).names == names


def test_learned_frequencies_may_be_remapped():
    encoding = ReRoPE(rotary=LearnedRotary(head_dim=4, layout="half"), window=8)
    alpha = weights_of(encoding)["alpha"]

    def products(q, k, queries, keys):
        at = Placed(encoding, queries, keys, {"alpha": np.float32(alpha)})
        return np.where(keys > queries[:, None], 0, at.products(*at.rotate(q, k))).astype(np.float32)

    assert check(products, encoding, parameters={"alpha": alpha}, longest=20).status == 0  # their angles are float32


@pytest.mark.parametrize(
    ("spec", "axes"),
    [
        (MultimodalRotary(head_dim=24, layout="half", sections=(6, 3, 3)), (0, 1, 2) * 3 + (0,) * 3),
        (MultimodalRotary(head_dim=24, layout="half", sections=(6, 3, 3)), (1, 2) * 3 + (0,) * 6),
        (MultimodalRotary(head_dim=24, layout="interleaved", sections=(6, 3, 3)), (0,) * 6 + (2,) * 3 + (1,) * 3),
        (
            MultimodalRotary(head_dim=32, layout="half", arrangement=(0, 1, 2) * 5 + (0,)),
            (0,) * 6 + (1,) * 5 + (2,) * 5,
        ),
        (MultimodalRotary(head_dim=24, layout="half", sections=(6, 3, 3)), (0, 0, 2, 1, 1, 2, 0, 1, 0, 2, 0, 1)),
        (MultimodalRotary(head_dim=24, layout="interleaved", sections=(6, 3, 3)), (2, 0, 2, 1, 1, 2, 0, 1, 0, 2, 0, 1)),
        (MultimodalRotary(head_dim=16, layout="half", arrangement=(0, 1, 2, 3) * 2), (0, 0, 1, 1, 2, 2, 3, 3)),
    ],
    ids=["interleaved", "ernie", "width first", "chunked", "any", "any, interleaved", "four axes"],
)
def test_another_arrangement_of_axes_is_named_with_its_tuple(spec, axes):
    function = rotation(replace(spec, sections=(), arrangement=axes, frequencies=None))
    result = check(function, spec, **FEW)
    assert result.names == ("axes arranged in another order",), result
    assert f"`arrangement` {axes}" in str(result)


def test_another_arrangement_of_an_image_is_named():
    spec = AxialRotary(head_dim=12, layout="half", axes_dims=(6, 6))
    result = check(rotation(replace(spec, arrangement="alternating")), spec, **FEW)
    assert result.names == ("axes arranged in another order",), result
    assert "(0, 1, 0, 1, 0, 1)" in str(result)


@pytest.mark.usefixtures("short_search")
def test_axes_of_another_frequency_are_no_arrangement():
    spec = MultimodalRotary(head_dim=16, layout="half", sections=(4, 2, 2))
    other = AxialRotary(head_dim=16, layout="half", axes_dims=(8, 4, 4))
    assert check(rotation(other), spec, longest=32, takes=()).names == ("wrong frequencies",)
