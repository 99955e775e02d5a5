"""Configs with `dual_chunk_attention_config`: the numbers of Qwen2.5-1M, as vLLM reads them."""

import json

import numpy as np
import pytest

from posenc_backends.cli.main import main
from posenc_backends.cli.relayout.projections import projections
from posenc_core import DualChunk, Rotary
from posenc_core.analysis import compare_rope
from posenc_core.analysis.explain import explain
from posenc_core.huggingface import load_position, load_rope

from ..errors import rejects

PLAIN = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "num_hidden_layers": 28,
    "rope_theta": 10000000.0,
    "max_position_embeddings": 1010000,
}
CHUNKS = {"chunk_size": 262144, "local_size": 8192}
QWEN = PLAIN | {"dual_chunk_attention_config": CHUNKS | {"original_max_position_embeddings": 262144}}
QUIET = PLAIN | {"dual_chunk_attention_config": CHUNKS}
ROTARY = Rotary(head_dim=128, layout="half", base=1e7, max_len=1010000)


def test_qwen_1m_counts_positions_in_chunks():
    with pytest.warns(UserWarning, match=r"vLLM multiplies all queries .* n > 262144 tokens by 1 \+ 0.1 ln"):
        encoding = load_rope(QWEN)
    assert encoding == load_rope(QUIET) == DualChunk(rotary=ROTARY, chunk_size=262144, local_size=8192)
    keys = [0, 253951, 507904, 761855, 761856, 999999]  # in chunks 0, 0, 2, 2, 3 and 3; the query is in chunk 3
    wanted = [[262144, 8193, 262144, 8193, 238144, 1]]
    np.testing.assert_array_equal(encoding.distances([10**6], keys), wanted)


def test_qwen_1m_has_the_tables_of_its_three_rotations():
    positions = np.array([0, 8191, 8192, 253951, 253952, 1009999])
    of_queries = [positions % 253952, np.minimum(positions % 253952 + 253952, 262144), np.full(6, 262144)]
    for number, at in enumerate(of_queries):
        for name, table in zip(("cos", "sin"), ROTARY.cos_sin(at), strict=True):
            np.testing.assert_array_equal(load_rope(QUIET).rows(positions)[f"{name}_{number}"], table)


def test_keys_of_sparse_attention_change_no_position():
    sparse = {"sparse_attention_enabled": True, "sparse_attention_config": {"0": {}}, "sparse_attention_last_q": 64}
    assert load_rope(PLAIN | {"dual_chunk_attention_config": CHUNKS | sparse}) == load_rope(QUIET)


def test_load_position_has_the_chunks():
    assert load_position(QUIET).rotary == ((None, load_rope(QUIET)),)


def test_chunks_are_explained():
    (layers,) = explain(QUIET)
    assert (layers.kind, layers.chunk_size, layers.local_size, layers.layout) == ("DualChunk", 262144, 8192, "half")
    assert (layers.longest_length, len(layers.regimes[0].pairs)) == (1010000, 64)


def test_the_command_explains_chunks_and_draws_pairs(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QUIET), encoding="utf-8")
    assert main(["explain", str(path), "-o", str(tmp_path / "pairs.svg")]) == 0
    assert "at most 262,144, by chunks of 253,952 positions; 8,192 before a chunk are kept" in " ".join(
        capsys.readouterr().out.split()
    )
    assert (tmp_path / "pairs.svg").stat().st_size > 0


def test_weights_are_relaid_without_regard_to_chunks():
    orders, plain = (projections(config, source="half", target="interleaved") for config in (QUIET, PLAIN))
    assert str(orders) == str(plain)


def test_other_chunks_are_another_rotation():
    assert compare_rope(QUIET, QUIET).same
    smaller = QUIET | {"dual_chunk_attention_config": {"chunk_size": 131072, "local_size": 4096}}
    for other in (PLAIN, smaller):
        (layers,) = compare_rope(QUIET, other).layers
        assert (layers.same, [cause.key for cause in layers.causes]) == (False, ["dual_chunk_attention_config"])
        assert layers.verdict == "different distances: positions are counted in other chunks"
    (layers,) = compare_rope(QUIET, QUIET | {"rope_theta": 1e6}).layers
    assert [cause.key for cause in layers.causes] == ["rope_theta"]


@pytest.mark.parametrize("sections", [[8, 8], [6, 5, 5]])
def test_chunks_are_not_known_for_several_axes(sections):
    rope = {"rope_type": "openpangu", "mrope_section": sections, "rope_theta": 1e4}
    config = {"model_type": "openpangu_vl", "head_dim": 32, "rope_parameters": rope}
    assert load_rope(config).num_axes == len(sections)
    with rejects(ValueError, "dual_chunk_attention_config", "MultimodalRotary"):
        load_rope(config | {"dual_chunk_attention_config": CHUNKS})
