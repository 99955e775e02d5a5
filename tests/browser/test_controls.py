"""What may be chosen, and links."""

import ast
from pathlib import Path

import numpy as np
import pytest

import posenc_core
import posenc_core as p
from posenc_backends.cli.explorer.catalogue import KINDS, SCALINGS
from posenc_backends.cli.explorer.controls import INNER, NONE, Number, Numbers, Words, fields_of, number_of, views_of
from posenc_backends.cli.explorer.figures import decay
from posenc_backends.cli.explorer.links import (
    controls_of,
    link_to,
    link_to_all,
    query_of,
    read,
    repeated_in,
    text_of,
    texts_of,
    view_of,
    views_in,
)
from posenc_backends.cli.explorer.view import View
from posenc_core.encodings import NAMES
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
    controls = [control for control in controls_of(texts) if control.name != "num_axes"]  # it has other controls
    changed = {control.name: another(control) for control in controls} | texts
    values, wrong = read({name: text_of(value) for name, value in changed.items() if value is not None})
    assert wrong == ()
    assert values == read(texts_of(query_of(values)))[0]
    assert all(values[name] == value for name, value in changed.items())


def another(control):
    """A value that is not the default."""
    if isinstance(control, Numbers):
        return (control.highest,) * control.counts[0]
    if isinstance(control, Words):
        return control.words[-1 if control.words[0] == control.default else 0]
    return control.lowest if control.default != control.lowest else control.highest


def arguments(kind):
    """Return the names of fields and of arguments of the constructor, without constants of the class."""
    return {name for name, field in kind.__dataclass_fields__.items() if "ClassVar" not in str(field.type)}


def test_every_field_has_a_control_except_arrays_and_what_changes_no_number():
    for name, kind in (KINDS | SCALINGS).items():
        known = {each.name for each in fields_of(kind)} | {
            "frequencies",
            "max_len",
            "mixture",
            "own",
            "pairing",
            "terms",
        }
        without = arguments(kind) - known
        if "length" in without:  # that of training, or the number of positions that are drawn
            assert ("trained_length" in known) is (view_of(read({"encoding": name})[0]).encoding.limit != 128)
        if "rotary" in without:  # whose head_dim, layout and base have controls
            assert {"head_dim", "base"} <= known
        assert without <= {"length", "rotary"}


def test_every_encoding_is_offered_unless_it_needs_queries_and_keys():
    content = {name for name in NAMES if issubclass(getattr(p.encodings, name), p.encodings.ContentScoring)}
    assert {*NAMES} - KINDS.keys() == content


def test_every_control_has_a_line_of_help():
    controls = [control for texts in CHOICES for control in controls_of(texts)]
    assert [control.name for control in controls if not 5 <= len(control.help) <= 320] == []


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoding_makes_the_link_that_makes_it(kind):
    encoding = view_of(read({"encoding": kind})[0]).encoding
    assert view_of(read(texts_of(link_to(encoding)))[0]).encoding == encoding


def test_two_encodings_share_a_link():
    first, second = (
        p.Rotary(head_dim=96, layout="half", scaling=p.YaRN(factor=4, original_max_position_embeddings=4096)),
        p.Alibi(num_heads=6),
    )
    texts = texts_of(link_to_all([first, second]))
    values, wrong = read(texts)
    assert wrong == ()
    assert [view.encoding for view in views_in(values)] == [first, second]
    assert read(texts_of(query_of(values)))[0] == values
    with pytest.raises(ValueError, match="`encodings` must be one to show"):
        link_to_all([first] * 3)


@pytest.mark.parametrize(
    ("encoding", "sentence"),
    [
        (posenc_core.ShawBias(num_heads=2, head_dim=4, max_distance=8), "`encoding` must be one of Binary"),
        (p.Learned(dim=4096, length=8), "`dim` must be a whole number from 1 to 1536, got '4096'."),
        (p.Rotary(head_dim=4, layout="half", frequencies=[1.0, 0.5]), "`encoding` has a field without a control"),
    ],
)
def test_what_cannot_be_drawn_has_no_link(encoding, sentence):
    with pytest.raises(ValueError, match="`") as error:
        link_to(encoding)
    assert str(error.value).startswith(sentence)


def test_equal_names_in_a_link_are_refused():
    assert repeated_in("?encoding=Rotary&base=5&base=7&with.base=2") == ("base",)
    assert texts_of("?encoding=Rotary&base=5&base=7") == {"encoding": "Rotary"}


def test_lists_may_be_short():
    texts = {"encoding": "Rotary", "head_dim": "6", "scaling": "LongRoPE", "scaling.long_factor": "1,4"}
    scaling = view_of(read(texts)[0]).encoding.scaling
    assert isinstance(scaling, p.LongRoPE)
    assert scaling.long_factor == (1, 2, 4)
    assert scaling.short_factor == (1, 1, 1)


@pytest.mark.parametrize("text", ["", "7", "7,7,7", "7,x", "7,0", "7,nan", "7,1e999", "7,2.5", "," * 5000])
def test_lists_have_bounds(text):
    (wrong,) = read({"encoding": "SwinBias", "window": text})[1]
    assert wrong.startswith("`window` must be 2 whole numbers from 1 to 16, with commas, got ")
    assert len(wrong) < 130


def test_views_go_with_the_kind():
    assert [control.name for control in views_of(p.Alibi)] == ["length", "head"]
    assert [control.name for control in views_of(p.Sinusoidal)] == ["length", "pair", "position"]
    assert [control.name for control in views_of(p.Normalized)] == ["length"]
    assert [control.name for control in views_of(posenc_core.AxialRotary)] == ["side", "cell"]
    assert [control.name for control in views_of(posenc_core.MixedRotary)] == ["side", "head", "cell"]
    assert [control.name for control in views_of(posenc_core.FourierFeatures, 2)] == ["side", "cell"]


def test_each_head_of_learned_directions_is_drawn():
    first, other = (view_of(read({"encoding": "MixedRotary", "head": head})[0]) for head in ("0", "3"))
    cells, middle = np.arange(144), np.array([78])
    assert np.abs(first.table() - other.table()).max() > 1
    for view in (first, other):
        scores = view.scores(middle, cells)[0]
        assert np.unravel_index(scores.argmax(), scores.shape) == (78,)
    assert np.abs(first.scores(middle, cells) - other.scores(middle, cells)).max() > 0.1


def test_the_length_and_the_heads_of_sums_of_frequencies_are_chosen():
    encoding = p.FoPE(head_dim=16, layout="half", length=128, num_heads=3, std=0.5)
    values = read(texts_of(link_to(encoding)))[0]
    first, last = (view_of(values | {"head": head}) for head in (0, 9))
    assert (first.encoding, last.head, last.pair) == (encoding, 2, 2)
    assert np.abs(first.table() - last.table()).max() > 0.1
    assert view_of(read({"encoding": "FoPE"})[0]).encoding.num_terms == 16


def test_magnitudes_at_angles_are_drawn_without_phases():
    view = view_of(read({"encoding": "PoPE", "head_dim": "8", "num_heads": "2", "length": "9"})[0])
    assert view.encoding == p.PoPE(head_dim=8, num_heads=2)
    angles = np.arange(9)[:, None] * 10000.0 ** -(np.arange(8) / 8)
    np.testing.assert_allclose(view.table()[:, ::2], np.cos(angles), atol=1e-6)
    scores = view.scores(np.arange(9), np.zeros(1, np.int64))[:, 0]
    np.testing.assert_allclose(scores, np.log1p(np.e) ** 2 * np.cos(angles).mean(axis=-1), rtol=1e-6)
    assert decay(view).words.startswith("A query and a key of ones: 1.725 at distance 0, ")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("?encoding=Rope", f"`encoding` must be one of {', '.join(KINDS)}, got 'Rope'."),
        ("?with.encoding=Rope", f"`with.encoding` must be one of none, {', '.join(KINDS)}, got 'Rope'."),
        ("?with.encoding=Alibi&with.num_heads=-1", "`with.num_heads` must be a whole number from 1 to 64, got '-1'."),
        ("?encoding=Sinusoidal&dim=1e9", "`dim` must be a whole number from 1 to 1536, got '1e9'."),
        ("?encoding=Sinusoidal&dim=2.5", "`dim` must be a whole number from 1 to 1536, got '2.5'."),
        ("?encoding=Sinusoidal&base=nan", "`base` must be a number from 2 to 100000000, got 'nan'."),
        ("?encoding=Sinusoidal&dim=", "`dim` must be a whole number from 1 to 1536."),
        ("?scaling=Linear&scaling.factor=x", "`scaling.factor` must be a number from 1 to 64, got 'x'."),
        ("?encoding=Integer&base=7", ("`base` is not a control here; the controls are encoding, dim, "
         "with.encoding, length.")),
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
    scaling = p.YaRN(factor=16, original_max_position_embeddings=4096, truncate=False, mscale=0.5)
    assert view_of(read(texts_of(query))[0]).encoding == p.Rotary(head_dim=64, layout="half", scaling=scaling)
    query = "?encoding=Rotary&scaling=DynamicNTK&scaling.seq_len=9000"
    assert view_of(read(texts_of(query))[0]).encoding.scaling == p.DynamicNTK(
        factor=8, original_max_position_embeddings=4096, seq_len=9000
    )
    assert view_of(read({"encoding": "Normalized", "length": "33"})[0]).encoding == p.Normalized(dim=64, length=33)


def test_a_view_stays_within_its_encoding():
    view = View(encoding=p.Rotary(head_dim=8, layout="half"), length=16, pair=99, position=99)
    assert (view.pair, view.position) == (3, 15)
    assert View(encoding=p.Alibi(num_heads=4), length=16, head=63).head == 3
    assert view_of(read({"encoding": "Binary", "dim": "3"})[0]).length == 8
    still = p.Rotary(head_dim=8, layout="half", scaling=p.Proportional(partial_rotary_factor=0.5))
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


def views_of_the_tutorial():
    """Return the views that the pages of the tutorial link to, by page; reading them needs no Sphinx."""
    tree = ast.parse((Path(__file__).parents[2] / "docs" / "heads.py").read_text(encoding="utf-8"))
    (views,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "VIEWS")
    return ast.literal_eval(views)


@pytest.mark.parametrize(("page", "query"), views_of_the_tutorial().items())
def test_views_of_the_tutorial_are_links_that_are_accepted(page, query):
    assert (Path(__file__).parents[2] / "docs" / "tutorial" / f"{page}.md").exists()
    values, wrong = read(texts_of(query))
    assert (wrong, repeated_in(query)) == ((), ())
    assert len(views_in(values)) == 1 + ("with.encoding=" in query)
    assert texts_of(query).items() <= texts_of(query_of(values)).items()


@pytest.mark.parametrize("width", [4, 6, 64, 66, 510])
def test_every_even_width_rotates_the_axes_of_an_image(width):
    encoding = view_of(read({"encoding": "AxialRotary", "head_dim": str(width)})[0]).encoding
    assert sum(encoding.axes_dims) == width
