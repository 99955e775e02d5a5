"""The rotary module for models of transformers; `tests/peers` puts it into models."""

import numpy as np
import pytest
import torch

from posenc_backends.torch.huggingface import RotaryTables, replace_rotary
from posenc_core import Alibi, DynamicNTK, FoPE, LongRoPE, MultimodalRotary, Proportional, Rotary, XPos

PLAIN = Rotary(head_dim=8, layout="half")
LONG = LongRoPE(
    short_factor=(1, 2, 3, 4), long_factor=(5, 6, 7, 8), original_max_position_embeddings=64, attention_factor=1.5
)
POSITIONS = torch.tensor([[0, 3, 70_000], [5, 4, 2]])
X = torch.zeros(2, 3, 1)
WRITTEN = {
    "half": lambda table: torch.cat([table, table], dim=-1),
    "interleaved": lambda table: table.repeat_interleave(2, dim=-1),
    "pairs": lambda table: table,
}


def exact(encoding, positions, seq_len=None):
    return [torch.from_numpy(table) for table in encoding.cos_sin(np.asarray(positions), seq_len=seq_len)]


@pytest.mark.parametrize("columns", WRITTEN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_tables_are_exact_in_the_columns_and_the_dtype_asked_for(columns, dtype):
    found = RotaryTables(PLAIN, columns=columns)(X.to(dtype), POSITIONS)
    wanted = [WRITTEN[columns](table).to(dtype) for table in exact(PLAIN, POSITIONS)]
    assert all(map(torch.equal, found, wanted))
    kept = RotaryTables(PLAIN, columns=columns, dtype=torch.float32)(X.to(dtype), POSITIONS)
    assert [table.dtype for table in kept] == [torch.float32] * 2


def test_complex_tables():
    found = RotaryTables(PLAIN, columns="complex")(X.bfloat16(), POSITIONS)
    assert torch.equal(found, torch.complex(*exact(PLAIN, POSITIONS)))


def test_each_layer_type_has_its_encoding():
    other = Rotary(head_dim=8, layout="half", base=500)
    tables = RotaryTables({"full": PLAIN, "sliding": other}, columns="pairs")
    assert torch.equal(tables(X, POSITIONS, "full")[0], exact(PLAIN, POSITIONS)[0])
    assert torch.equal(tables(X, POSITIONS, layer_type="sliding")[0], exact(other, POSITIONS)[0])
    assert tables.encodings == {"full": PLAIN, "sliding": other}
    with pytest.raises(ValueError, match=r"`layer_type` must be one of \['full', 'sliding'\], got None"):
        tables(X, POSITIONS)


def test_positions_of_one_axis_are_those_of_all():
    encoding = MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1))
    tables = RotaryTables(encoding, columns="pairs")
    by_axis = torch.stack([POSITIONS, POSITIONS + 1, POSITIONS + 2])
    assert torch.equal(tables(X, by_axis)[1], exact(encoding, by_axis)[1])
    assert torch.equal(tables(X, POSITIONS)[1], exact(encoding, POSITIONS.expand(3, -1, -1))[1])


def test_pairs_that_stand_still_have_columns():
    encoding = Rotary(head_dim=8, layout="half", scaling=Proportional(partial_rotary_factor=0.5))
    cos, sin = RotaryTables(encoding, columns="pairs")(X, POSITIONS)
    assert torch.equal(cos, exact(encoding, POSITIONS)[0])
    assert torch.equal(sin, exact(encoding, POSITIONS)[1])
    assert cos.shape == (2, 3, 4)


@pytest.mark.parametrize("scaling", [LONG, DynamicNTK(factor=2.0, original_max_position_embeddings=64)], ids=str)
@pytest.mark.parametrize("last", [63, 64, 300])
def test_frequencies_that_depend_on_the_length_follow_the_largest_position(scaling, last):
    encoding = Rotary(head_dim=8, layout="half", scaling=scaling)
    positions = torch.tensor([[0, 5, 9], [1, last, 2]])
    found = RotaryTables(encoding, columns="pairs")(X, positions)
    assert all(map(torch.equal, found, exact(encoding, positions, seq_len=last + 1)))


@pytest.mark.parametrize("last", [63, 64])
def test_compiled_code_selects_the_frequencies_of_longrope(last):
    encoding = Rotary(head_dim=8, layout="half", scaling=LONG)
    compiled = torch.compile(RotaryTables(encoding, columns="pairs"), fullgraph=True, backend="eager")
    positions = torch.tensor([[0, 5, 9], [1, last, 2]])
    assert all(map(torch.equal, compiled(X, positions), exact(encoding, positions, seq_len=last + 1)))


def test_compiled_code_gives_nan_past_its_tables():
    compiled = torch.compile(RotaryTables(PLAIN, max_len=10), fullgraph=True, backend="eager")
    cos, _ = compiled(X, POSITIONS)
    assert cos.isnan().any(dim=-1).tolist() == [[False, False, True], [False] * 3]


def test_tables_are_those_of_a_forward_rotation():
    inverse = Rotary(head_dim=8, layout="half", direction="inverse")
    assert all(map(torch.equal, RotaryTables(inverse)(X, POSITIONS), RotaryTables(PLAIN)(X, POSITIONS)))


def test_it_has_no_state_and_no_cast_reaches_it():
    tables = RotaryTables(PLAIN)
    assert not list(tables.state_dict())
    wanted = tables(X, POSITIONS)
    assert all(map(torch.equal, tables.half().bfloat16()(X, POSITIONS), wanted))
    assert all(map(torch.equal, tables.to("meta").to_empty(device="cpu")(X, POSITIONS), wanted))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RotaryTables(PLAIN, columns="both"), ValueError, "`columns` must be one of"),
        (lambda: RotaryTables({}), ValueError, "`encoding` must have an encoding for a layer type"),
        (lambda: RotaryTables(Alibi(num_heads=2)), TypeError, "`encoding` must be a rotary encoding"),
        (lambda: RotaryTables({"full": None}), TypeError, "`encoding` must be a rotary encoding"),
        (
            lambda: RotaryTables(XPos(head_dim=8, layout="half")),
            ValueError,
            "one table for queries and keys of all heads",
        ),
        (
            lambda: RotaryTables(FoPE(head_dim=8, layout="half", num_terms=2, num_heads=2)),
            ValueError,
            "one table for queries and keys of all heads",
        ),
        (lambda: replace_rotary(PLAIN), TypeError, "`model` must be a torch.nn.Module, got Rotary"),
        (lambda: replace_rotary(torch.nn.ReLU(), 3), ValueError, "`model` must have a rotary module, got ReLU"),
    ],
)
def test_bad_calls_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_model_s_float32_angles_need_its_buffer_and_the_precision():
    """As the pages on rotary encodings and choices say: one of the two leaves cosines thousandths off."""
    positions, inverse = torch.arange(131_000, 131_072), 1.0 / (50_000.0 ** (torch.arange(0, 32, 2).float() / 32))
    theirs = torch.cos(positions.float()[:, None] * inverse).numpy()
    buffer, plain = {"frequencies": tuple(inverse.tolist())}, {"base": 50_000}
    apart = []
    for given in (buffer | {"precision": "float32"}, plain | {"precision": "float32"}, buffer):
        cos, _ = Rotary(head_dim=32, layout="half", **given).cos_sin(positions.numpy())
        apart.append(np.abs(cos - theirs).max())
    assert apart[0] < 2.0**-22
    assert min(apart[1:]) > 1e-3
