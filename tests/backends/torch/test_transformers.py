"""The function with the signature of transformers; `tests/peers` compares it with models."""

import pytest
import torch

from posenc_backends.torch import apply_rotary_transformers, rotary_kernel
from posenc_backends.torch.huggingface.apply_rotary import form_of
from posenc_core import rotate

LENGTH, PAIRS = 5, 3
ANGLES = torch.arange(2 * LENGTH * PAIRS).reshape(2, LENGTH, PAIRS) / 7
WRITTEN = {
    "half": lambda table: torch.cat([table, table], dim=-1),
    "interleaved": lambda table: table.repeat_interleave(2, dim=-1),
    "pairs": lambda table: table,
}


def tables(columns="half", dtype=torch.float32):
    return [WRITTEN[columns](table).to(dtype) for table in (ANGLES.cos(), ANGLES.sin())]


def tokens(heads, width=2 * PAIRS, dtype=torch.float32):
    generator = torch.Generator().manual_seed(heads)
    return torch.randn(2, heads, LENGTH, width, generator=generator).to(dtype)


@pytest.mark.parametrize("columns", WRITTEN)
@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("width", [6, 9])
def test_it_is_rotate_for_every_form_of_table_also_of_narrow_ones(layout, columns, width):
    q, k = tokens(4, width), tokens(2, width)
    wanted = [rotate(x, ANGLES.cos()[:, None], ANGLES.sin()[:, None], layout=layout) for x in (q, k)]
    found = apply_rotary_transformers(q, k, *tables(columns), layout=layout, columns=columns)
    assert all(map(torch.equal, found, wanted))
    alone, none = apply_rotary_transformers(q, None, *tables(columns), layout=layout, columns=columns)
    assert torch.equal(alone, wanted[0])
    assert none is None


@pytest.mark.parametrize("unsqueeze_dim", [2, -2])
def test_heads_may_come_after_the_length(unsqueeze_dim):
    q, k = tokens(4), tokens(2)
    wanted = apply_rotary_transformers(q, k, *tables(), unsqueeze_dim=1)
    found = apply_rotary_transformers(q.transpose(1, 2), k.transpose(1, 2), *tables(), unsqueeze_dim=unsqueeze_dim)
    assert all(torch.equal(x.transpose(1, 2), y) for x, y in zip(found, wanted, strict=True))


def test_tables_may_be_the_same_for_all_rows_of_a_batch():
    q, (cos, sin) = tokens(4), tables()
    wanted = apply_rotary_transformers(q, None, cos[:1], sin[:1])[0]
    assert torch.equal(apply_rotary_transformers(q, None, cos[0], sin[0], unsqueeze_dim=0)[0], wanted)
    assert torch.equal(apply_rotary_transformers(q, None, cos[0], sin[0], unsqueeze_dim=-3)[0], wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounded_once(dtype):
    q, (cos, sin) = tokens(4, dtype=dtype), tables(dtype=dtype)
    wanted = apply_rotary_transformers(q.float(), None, cos.float(), sin.float())[0].to(dtype)
    assert torch.equal(apply_rotary_transformers(q, None, cos, sin)[0], wanted)


@pytest.mark.parametrize("form", [{}, {"layout": "interleaved", "columns": "interleaved"}], ids=str)
def test_gradients_are_right(form):
    cos, sin = (table.double() for table in tables(form.get("columns", "half")))
    q, k = (tokens(heads, 7).double().requires_grad_() for heads in (2, 1))
    assert torch.autograd.gradcheck(lambda q, k: apply_rotary_transformers(q, k, cos, sin, **form), (q, k))
    assert torch.autograd.gradgradcheck(lambda q: apply_rotary_transformers(q, None, cos, sin, **form)[0], (q,))


def test_a_compiled_call_is_one_graph_of_the_same_bits():
    compiled = torch.compile(apply_rotary_transformers, fullgraph=True, backend="aot_eager")
    wanted = apply_rotary_transformers(tokens(4), tokens(2), *tables())
    assert all(map(torch.equal, compiled(tokens(4), tokens(2), *tables()), wanted))


@pytest.mark.parametrize("columns", ["half", "interleaved"])
@pytest.mark.parametrize("at", [0, 1], ids=["cos", "sin"])
def test_a_table_whose_columns_differ_is_refused(columns, at):
    given = tables(columns)
    given[at] = tables("interleaved" if columns == "half" else "half")[at]
    with pytest.raises(ValueError, match=rf"`{['cos', 'sin'][at]}` must have the same number in both columns"):
        apply_rotary_transformers(tokens(4), tokens(2), *given, columns=columns)


def test_rows_that_are_not_a_number_are_no_mistake():
    cos, sin = tables()
    cos[:, 1], sin[:, 1] = torch.nan, torch.nan
    found = apply_rotary_transformers(tokens(4), None, cos, sin)[0]
    assert torch.equal(found.isnan().all(dim=-1)[0, 0], torch.tensor([False, True, False, False, False]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unsqueeze_dim": 0}, r"`unsqueeze_dim` must be the axis of heads, .* got 0; .* give 1 or 2\."),
        ({"unsqueeze_dim": 3}, "`unsqueeze_dim` must be the axis of heads"),
        ({"columns": "both"}, "`columns` must be one of"),
        ({"layout": "neox"}, "`layout` must be one of"),
        ({"cos": torch.ones(2, LENGTH, 5)}, "`cos` must have two columns for each pair, got 5"),
        ({"q": torch.ones(2, 4, LENGTH, 4)}, "`x` is 4 wide, but its table rotates 6 channels"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"q": tokens(4), "k": tokens(2), "cos": tables()[0], "sin": tables()[1]} | change
    with pytest.raises(ValueError, match=message):
        apply_rotary_transformers(**given)


@pytest.mark.parametrize("columns", WRITTEN)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_kernel_rotates_as_the_function_that_it_replaces(layout, columns, sign):
    def original(x, cos, sin):
        first, second = x.chunk(2, dim=-1) if layout == "half" else (x[..., ::2], x[..., 1::2])
        part = {"half": slice(x.shape[-1] // 2), "interleaved": slice(None, None, 2), "pairs": slice(None)}[columns]
        cos, sin = cos[:, None, :, part], sign * sin[:, None, :, part]
        rotated = first * cos - second * sin, second * cos + first * sin
        return torch.cat(rotated, dim=-1) if layout == "half" else torch.stack(rotated, dim=-1).flatten(-2)

    class Original(torch.nn.Module):
        def forward(self, q, k, cos, sin, unsqueeze_dim=1):
            return original(q, cos, sin), original(k, cos, sin)

    assert form_of(Original) == (layout, columns, sign)
    wanted = Original()(tokens(4), tokens(2), *tables(columns))
    replaced = rotary_kernel.load().forward(Original(), tokens(4), tokens(2), *tables(columns))
    assert all(map(torch.equal, replaced, wanted))


def test_the_kernel_calls_a_function_of_another_form():
    class Scaled(torch.nn.Module):
        def forward(self, q, k, cos, sin, unsqueeze_dim=1):
            return 2 * q, 3 * k

    q, k = rotary_kernel.load().forward(Scaled(), tokens(4), tokens(2), *tables())
    assert torch.equal(q, 2 * tokens(4))
    assert torch.equal(k, 3 * tokens(2))
