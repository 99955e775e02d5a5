"""What may be chosen, and links."""

import pytest

from posenc_backends.cli.explorer.controls import (
    INNER,
    KINDS,
    NONE,
    SCALINGS,
    Number,
    Words,
    fields_of,
    number_of,
    views_of,
)
from posenc_backends.cli.explorer.links import View, controls_of, query_of, read, texts_of, view_of
from posenc_core import Alibi, DynamicNTK, Normalized, Proportional, Rotary, Sinusoidal, YaRN
from posenc_core.encodings.notation import parse

CHOICES = [{"encoding": kind} for kind in KINDS] + [{"encoding": "Rotary", "scaling": scaling} for scaling in SCALINGS]


@pytest.mark.parametrize("texts", CHOICES, ids=lambda texts: " ".join(texts.values()))
def test_defaults_make_an_encoding(texts):
    values, wrong = read(texts)
    view = view_of(values)
    assert wrong == ()
    assert type(view.encoding).__name__ == texts["encoding"]
    assert type(getattr(view.encoding, "scaling", None)).__name__ == texts.get("scaling", "NoneType")
    assert parse(repr(view.encoding)) == view.encoding


@pytest.mark.parametrize("texts", CHOICES, ids=lambda texts: " ".join(texts.values()))
def test_a_link_says_all_that_is_chosen(texts):
    changed = {control.name: another(control) for control in controls_of(texts)} | texts
    values, wrong = read({name: str(value) for name, value in changed.items() if value is not None})
    assert wrong == ()
    assert values == read(texts_of(query_of(values)))[0]
    assert all(values[name] == value for name, value in changed.items())


def another(control):
    """A value that is not the default."""
    if isinstance(control, Words):
        return control.words[-1 if control.words[0] == control.default else 0]
    return control.lowest if control.default != control.lowest else control.highest


def arguments(kind):
    """Return the names of fields and of arguments of the constructor, without constants of the class."""
    return {name for name, field in kind.__dataclass_fields__.items() if "ClassVar" not in str(field.type)}


def test_every_field_has_a_control_except_arrays():
    kinds = (KINDS | SCALINGS).items()
    without = {name: arguments(kind) - {each.name for each in fields_of(kind)} for name, kind in kinds}
    assert {name: sorted(fields) for name, fields in without.items() if fields} == {
        "Normalized": ["length"],  # the number of positions that are drawn
        "Rotary": ["frequencies", "own", "pairing"],
        "XPos": ["frequencies", "own", "pairing"],
    }


def test_views_go_with_the_kind():
    assert [control.name for control in views_of(Alibi)] == ["length", "head"]
    assert [control.name for control in views_of(Sinusoidal)] == ["length", "pair", "position"]
    assert [control.name for control in views_of(Normalized)] == ["length"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?encoding=Rope", ("`encoding` must be one of Integer, Normalized, Binary, Sine, Sinusoidal, Timestep, Rotary,"
         " XPos, Alibi, got 'Rope'.")),
        ("?encoding=Sinusoidal&dim=1e9", "`dim` must be a whole number from 1 to 256, got '1e9'."),
        ("?encoding=Sinusoidal&dim=2.5", "`dim` must be a whole number from 1 to 256, got '2.5'."),
        ("?encoding=Sinusoidal&base=nan", "`base` must be a number from 2 to 100000000, got 'nan'."),
        ("?encoding=Sinusoidal&dim=", "`dim` must be a whole number from 1 to 256."),
        ("?scaling=Linear&scaling.factor=x", "`scaling.factor` must be a number from 1 to 64, got 'x'."),
        ("?encoding=Integer&base=7", "`base` is not a control here; the controls are encoding, dim, length."),
    ],
)  # fmt: skip
def test_what_a_link_says_wrongly_is_one_sentence_and_the_default_stands(query, sentence):
    texts = texts_of(query)
    values, wrong = read(texts)
    assert wrong == (sentence,)
    assert values == read({name: text for name, text in texts.items() if name != sentence.split("`")[1]})[0]
    view_of(values)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?encoding=Rotary&head_dim=7", "`head_dim` must be even, got 7."),
        ("?encoding=Rotary&head_dim=32&rotary_dim=64", "`rotary_dim` must not exceed `head_dim` 32, got 64."),
        ("?encoding=Sine&base=100", "`base` is used with 'endpoint' frequencies only, got 100; leave it out."),
    ],
)
def test_contradictions_raise_the_error_of_the_encoding(query, sentence):
    values, wrong = read(texts_of(query))
    assert wrong == ()
    with pytest.raises(ValueError, match="`") as error:
        view_of(values)
    assert str(error.value) == sentence


def test_a_link_makes_the_encoding_it_says():
    query = "?encoding=Rotary&head_dim=64&scaling=YaRN&scaling.factor=16&scaling.truncate=no&scaling.mscale=0.5"
    scaling = YaRN(factor=16, original_max_position_embeddings=4096, truncate=False, mscale=0.5)
    assert view_of(read(texts_of(query))[0]).encoding == Rotary(head_dim=64, layout="half", scaling=scaling)
    query = "?encoding=Rotary&scaling=DynamicNTK&scaling.seq_len=9000"
    assert view_of(read(texts_of(query))[0]).encoding.scaling == DynamicNTK(
        factor=8, original_max_position_embeddings=4096, seq_len=9000
    )
    assert view_of(read({"encoding": "Normalized", "length": "33"})[0]).encoding == Normalized(dim=64, length=33)


def test_a_view_stays_within_its_encoding():
    view = View(encoding=Rotary(head_dim=8, layout="half"), length=16, pair=99, position=99)
    assert (view.pair, view.position) == (3, 15)
    assert View(encoding=Alibi(num_heads=4), length=16, head=63).head == 3
    assert view_of(read({"encoding": "Binary", "dim": "3"})[0]).length == 8
    still = Rotary(head_dim=8, layout="half", scaling=Proportional(partial_rotary_factor=0.5))
    assert View(encoding=still, length=4, pair=99).pair == 3


@pytest.mark.parametrize(
    "name", ["dim", "base", "rotary_dim", "length", f"{INNER}factor", f"{INNER}original_max_position_embeddings"]
)
def test_sliders_and_numbers_agree(name):
    control = number_of(name)
    assert control.from_slider(control.to_slider(control.lowest)) == control.lowest
    assert control.from_slider(control.to_slider(control.highest)) == control.highest
    assert control.to_slider(None) == control.to_slider(control.lowest)
    step = control.step or 0.02
    sliders = [control.to_slider(control.lowest) + step * i for i in range(20)]
    numbers = [control.from_slider(slider) for slider in sliders]
    assert numbers == sorted(set(numbers))
    assert all(control.value(str(number)) == number for number in numbers)


def test_a_number_by_its_power_of_ten():
    base = number_of("base")
    assert (base.from_slider(4), base.from_slider(4.02), base.to_slider(10**4), base.from_slider(99)) == (
        10**4,
        10500,
        4,
        10**8,
    )
    assert isinstance(base, Number)
    assert NONE not in SCALINGS
