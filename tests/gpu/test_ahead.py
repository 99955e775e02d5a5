"""The kernel compiled for GPUs: what can be known of it without one."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTHS, LAYOUTS = (64, 72, 80, 96, 128, 192, 256), ("half", "interleaved", "interleaved_to_half")
FINDS = ("rows", "positions", "starts")  # of the others, packed sequences are searched, and several axes all read


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """What each variant of the kernel is made of, compiled by the Triton that is installed."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("compiled")), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(Path(__file__).with_name("ahead.py"))]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(600)
def test_all_variants_compile_flash_attention_1734(kernels):
    """All layouts and dtypes, and every way to find a row; their products are separate instructions."""
    assert len(kernels) == 46
    assert [variant for variant, found in kernels if not found["products"]] == []


def test_no_product_is_fused_with_a_sum(kernels):
    """In PTX, and in the machine code that is made of it, which could fuse them later."""
    assert [(variant, found["fused"]) for variant, found in kernels if found["fused"]] == []


def test_addresses_have_64_bits(kernels):
    assert [variant for variant, found in kernels if found["offsets"] != ["i64"]] == []
    assert [(variant, found["narrow products"]) for variant, found in kernels if found["narrow products"]] == []


def test_half_precision_is_rounded_to_nearest(kernels):
    for variant, found in kernels:
        assert all(rounding.startswith("cvt.rn.") for rounding in found["roundings"]), variant
        is_half = "float16" in variant["dtype"] and variant["target"] != "gfx942"  # bfloat16 as well
        assert bool(found["roundings"]) == is_half, variant


def test_the_device_waits_once_for_memory_in_wide_accesses(kernels):
    """No number goes through shared memory, and none is kept in local memory."""
    for variant, found in kernels:
        assert found["registers"] <= 64, variant
        assert found["spilled"] == [], variant
        if variant["norm"] == "gradient":  # whose sums over all heads go through shared memory at the end
            continue
        copies, together = not variant["in_place"], variant["together"]  # one mean goes through shared memory
        assert found["barriers"] == (1 if together else 0), variant
        widths = [int(access.split()[1]) for access in found["accesses"] if variant["find"] == "rows"]
        assert all(width >= (4 if copies or variant["dtype"] == "float64" else 8) for width in widths), variant
        assert found["waves"] <= (7 if copies else 2 if together else 1), variant  # copies lie behind products


def test_instructions_are_few(kernels):
    """In half precision: of all widths, layouts and orders, forward and backward, by rows, positions and starts."""
    usual = {"dtype": "bfloat16", "placement": "lead", "tokens": 4096, "norm": ""}
    found = [
        (found["per channel"], variant)
        for variant, found in kernels
        if usual.items() <= variant.items() and variant["find"] in FINDS and variant["target"] != "gfx942"
    ]
    assert {(variant["width"], variant["layout"]) for _, variant in found} == {*itertools.product(WIDTHS, LAYOUTS)}
    assert [(count, variant) for count, variant in found if count > 9] == []
