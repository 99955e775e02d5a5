"""Calls that are launched again as a call before was: what the host does for them, and that they are the same calls."""

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import posenc_backends
import posenc_core
from posenc_backends.torch import (
    RotaryEmbedding,
    apply_qk_norm_rotary,
    apply_rotary,
    apply_rotary_transformers,
    backend,
)
from posenc_backends.torch.rotation import gpu
from posenc_backends.torch.rotation.plans import Plans
from posenc_core import Rotary

OURS = tuple(str(Path(package.__file__).parent) for package in (posenc_backends, posenc_core))
LAYER = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=16)
CHOICES = {
    "function": ["apply_rotary", "transformers", "layer", "norm"],
    "given": ["start", "positions", "positions of each", "starts", "packed", "packed from starts", "axes", "rows"],
    "start": [0, 1, 11, 16, True],
    "sizes": [(1, 4, 2), (1, 4, 4), (2, 4, 2), (2, 1, 2)],  # batch, heads, heads of keys
    "length": [1, 4, 5],
    "width": [8, 12],
    "order": ["BHSD", "BSHD", "fused", "expanded"],
    "offset": [0, 1, 8],  # elements before the first of the queries
    "table_offset": [0, 1],
    "dtype": [torch.bfloat16, torch.float32, torch.float64],
    "tables": [torch.float32, torch.bfloat16, torch.float64],
    "table_rows": [16, 17],
    "table_strides": ["alike", "sin of more columns"],
    "tokens": ["both", "q", "k"],
    "layout": ["half", "interleaved", "interleaved_to_half"],
    "placement": ["lead", "trail"],
    "blocks": [1, 2],
    "inverse": [False, True],
    "seq_axis": [-2, -3, True],
    "axes": [(0, 1, 1, 0), (0, 1, 1, 1), [0, 1, 1, 0], (0, True, 1, 0)],
    "columns": ["half", "interleaved", "pairs"],
    "integers": [torch.int32, torch.int64],
    "out": [None, "new", "in place", "swapped", "overlapping", "int"],
    "gradient": [False, True],
    "negated": [False, True],
    "weights": ["float32", "float64", "of k in bfloat16", "strided", "at an odd address", "gradient", "none", "of k"],
    "norm": ["norm_first", "rope_first"],
    "epsilon": [1e-6, 0.5],
}
USUAL = {name: choices[0] for name, choices in CHOICES.items()}


def weight_of(kind, name, tensor, width):
    """Return the weight of queries or keys, of one kind."""
    if kind == "none" or (kind == "of k" and name == "q"):
        return None
    dtype = {"float64": torch.float64, "of k in bfloat16": torch.bfloat16 if name == "k" else torch.float32}
    made = tensor((2 * width,), dtype.get(kind, torch.float32), int(kind == "at an odd address"))
    made = made[::2] if kind == "strided" else made[:width]
    return made.requires_grad_() if kind == "gradient" else made


def call_of(c):
    """Return the call of these choices, and its tensors by where their memory begins."""
    (batch, *heads), length, width, pairs = c["sizes"], c["length"], c["width"], 4
    known = {table.data_ptr(): table for table in LAYER.tables}

    def tensor(sizes, dtype, offset=0):
        made = torch.zeros(offset + torch.Size(sizes).numel(), dtype=dtype)[offset:].view(sizes)
        known[made.data_ptr()] = made
        return made

    def tokens(count, offset=0):
        if c["order"] == "BHSD":
            return tensor((batch, count, length, width), c["dtype"], offset)
        if c["order"] == "expanded":
            return tensor((1, count, length, width), c["dtype"], offset).expand(batch, -1, -1, -1)
        extra = width if c["order"] == "fused" else 0
        return tensor((batch, length, count, width + extra), c["dtype"], offset)[..., :width].transpose(1, 2)

    q, k = tokens(heads[0], c["offset"]), tokens(heads[1])
    q = torch._neg_view(q) if c["negated"] else q
    q = q.requires_grad_(c["gradient"])
    q, k = None if c["tokens"] == "k" else q, None if c["tokens"] == "q" else k
    by_integers = {
        "positions": lambda: {"positions": tensor((length,), c["integers"])},
        "positions of each": lambda: {"positions": tensor((batch, length), c["integers"])},
        "starts": lambda: {"start": tensor((batch,), c["integers"])},
    }.get(c["given"], lambda: {"start": c["start"]})()
    if c["function"] == "layer":
        axis = c["seq_axis"] if c["seq_axis"] != -3 else 1 if c["order"] == "BSHD" else -3
        return lambda: LAYER(q, k, **by_integers, seq_axis=axis), known
    if c["function"] == "transformers":
        columns = pairs if c["columns"] == "pairs" else 2 * pairs
        cos, sin = (tensor((1, length, columns), c["tables"], c["table_offset"]) for _ in "cs")
        axis = 2 if c["seq_axis"] == -3 else 1
        layout = c["layout"] if c["layout"] == "half" else "interleaved"
        options = {"layout": layout, "columns": c["columns"]}
        return lambda: apply_rotary_transformers(q, k, cos, sin, axis, **options), known
    sizes = (batch, length, pairs) if c["given"] == "rows" else (c["table_rows"], pairs)
    cos, sin = (tensor(sizes, c["tables"], c["table_offset"]) for _ in "cs")
    if c["table_strides"] != "alike":
        sin = tensor((*sizes[:-1], 2 * pairs), c["tables"])[..., :pairs]
    wanted = {
        "packed": {"cu_seqlens": tensor((3,), c["integers"]), "start": c["start"]},
        "packed from starts": {"cu_seqlens": tensor((3,), c["integers"]), "start": tensor((2,), c["integers"])},
        "axes": {"positions": tensor((2, batch, length), c["integers"]), "axes": c["axes"]},
        "rows": {},
    }.get(c["given"], by_integers)
    if c["function"] == "norm":
        options = {name: c[name] for name in ("layout", "placement", "blocks", "seq_axis", "epsilon")}
        weights = weight_of(c["weights"], "q", tensor, width), weight_of(c["weights"], "k", tensor, width)
        options |= {"order": c["norm"]} | wanted
        return lambda: apply_qk_norm_rotary(q, k, cos, sin, *weights, **options), known
    out = c["out"] and 1
    if c["out"] not in {None, "int"}:
        at = 1 if c["out"] == "overlapping" else 0
        mine = None if q is None else tokens(heads[0], at) if c["out"] == "new" or at else q
        out = (mine, None if k is None else k if c["out"] != "new" else tokens(heads[1]))
        out = out[::-1] if c["out"] == "swapped" else out
    options = {name: c[name] for name in ("layout", "placement", "blocks", "inverse", "seq_axis")}
    return lambda: apply_rotary(q, k, cos, sin, out=out, **options, **wanted), known


def aligned(tensors):
    return [x is None or x.data_ptr() % 16 == 0 for x in tensors]


@pytest.fixture
def launched(monkeypatch):
    """What was launched so far: nothing runs, and what would run is kept."""
    from posenc_backends.torch.rotation import triton_launch

    found = []

    def launch(plan, *arguments):
        plan.aligned = aligned((*arguments[:8], *arguments[9:]))
        note(plan, *arguments)

    def repeat(plan, *arguments):
        assert aligned((*arguments[:8], *arguments[9:])) == plan.aligned
        note(plan, *arguments)

    def note(plan, *arguments):
        q, q_out, k, k_out, cos, sin, rows, axes, start, *weights = arguments
        memory = [None if x is None else x.data_ptr() for x in (q, k, cos, sin, rows, *weights)]
        outs = [None if x is None else (x.shape, x.stride(), x.dtype) for x in (q_out, k_out)]
        found.append((plan.grid, plan.numbers, outs, None if axes is None else axes.tolist(), start, memory))

    monkeypatch.setattr(backend, "is_remote", lambda array: True)  # as if on a GPU, where positions are not read
    monkeypatch.setattr(triton_launch.Plan, "launch", launch)
    monkeypatch.setattr(triton_launch.Plan, "repeat", repeat)
    return found


def outcome(call, known, launched):
    """Return what a call launches, and its backward pass, by which of its tensors, or its error."""
    launched.clear()
    try:
        found = call()
        results = [x for x in (found if isinstance(found, tuple) else (found,)) if x is not None and x.requires_grad]
        torch.autograd.backward(results, [torch.ones_like(x) for x in results])
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        return type(error), str(error)
    return [(*plan, [at if at in known else None for at in memory]) for *plan, memory in launched]


CALLS = st.fixed_dictionaries({name: st.sampled_from(choices) for name, choices in CHOICES.items()})
CHANGES = st.lists(
    st.sampled_from([(name, choice) for name, choices in CHOICES.items() for choice in choices]), max_size=2
)


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(call=st.one_of(CHANGES.map(lambda some: USUAL | dict(some)), CALLS), changes=CHANGES)
@example(call=USUAL | {"out": "in place", "width": 12}, changes=[("out", "new")])
@example(call=USUAL | {"given": "packed from starts"}, changes=[("given", "packed")])
@example(call=USUAL, changes=[("offset", 1)])
@example(call=USUAL | {"function": "norm"}, changes=[("weights", "at an odd address")])
@example(call=USUAL | {"function": "norm", "gradient": True}, changes=[("weights", "gradient")])
def test_no_two_calls_that_need_different_answers_share_a_plan(launched, monkeypatch, call, changes):
    """Behind a call that differs in up to two things, a call launches what it launches alone, and has its errors."""
    monkeypatch.setattr(gpu, "PLANS", Plans())
    outcome(*call_of(call), launched)
    second = call_of(call | dict(changes))
    behind = outcome(*second, launched)
    monkeypatch.setattr(gpu, "PLANS", Plans())
    assert behind == outcome(*second, launched)


@pytest.mark.parametrize(
    ("change", "most"),
    [
        ({}, 8), ({"given": "positions of each"}, 8), ({"out": "in place"}, 17), ({"gradient": True}, 13),
        ({"function": "transformers"}, 8), ({"function": "layer"}, 15),
        ({"function": "layer", "seq_axis": -3, "sizes": (1, 5, 5)}, 16),
        ({"function": "layer", "given": "positions of each"}, 20), ({"function": "layer", "given": "starts"}, 20),
        ({"function": "norm"}, 16),
    ],
    ids=str,
)  # fmt: skip
def test_the_host_does_little_for_a_call_as_one_before(launched, change, most):
    """Functions of ours, where checks and the plan of a first call have 60 to 100."""
    (call, _), files = call_of(USUAL | change), []
    call()
    sys.setprofile(lambda frame, event, _: files.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    assert len([file for file in files if file.startswith(OURS)]) <= most
    assert len(launched) == 2
