"""The kernel compiled for GPUs: what can be known of it without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """What each variant of the kernel is made of, compiled by the Triton that is installed."""
    folder = tmp_path_factory.mktemp("compiled")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, str(Path(__file__).with_name("ahead.py")), str(folder)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(600)
def test_all_variants_compile_flash_attention_1734(kernels):
    """All layouts in all dtypes, and every way to find a row; their products are separate instructions."""
    assert len(kernels) == 22
    assert {name: found["products"] for name, found in kernels if not found["products"]} == {}


def test_no_product_is_fused_with_a_sum(kernels):
    """In PTX, and in the machine code that is made of it, which could fuse them later."""
    assert {name: found["fused"] for name, found in kernels if found["fused"]} == {}


def test_addresses_have_64_bits(kernels):
    assert {name: found["offsets"] for name, found in kernels if found["offsets"] != ["i64"]} == {}
    assert {name: found["narrow_products"] for name, found in kernels if found["narrow_products"]} == {}


def test_half_precision_is_rounded_to_nearest(kernels):
    for name, found in kernels:
        assert all(rounding.startswith("cvt.rn.") for rounding in found["roundings"]), name
        assert bool(found["roundings"]) == ("float16" in name), name  # bfloat16 as well


def test_memory_is_written_in_vectors_and_registers_are_enough(kernels):
    narrow = {name: found["widest_store"] for name, found in kernels if found["widest_store"] < 2}
    assert narrow == {}
    assert {name: found["spilled"] for name, found in kernels if found["spilled"]} == {}
