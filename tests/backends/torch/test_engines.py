"""The examples of docs/howto/engines.md in the programs that they are for, or in what is recorded of these.

vLLM installs on no machine without a GPU, and torchtitan needs Triton and older versions of packages that others need:
small classes with their signatures stand for them here. The tests of torchtitan pass in torchtitan 0.3.0 as well,
without its dependencies but for tyro, docstring-parser and spmd-types.
"""

import sys
from dataclasses import dataclass, fields
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from posenc_core import Llama3, Rotary, YaRN, rotate

PROGRAMS = Path(__file__).parents[3] / "docs" / "howto" / "programs"
FAR = 40_000


def load(name):
    """Return the program of this name as a new module."""
    spec = spec_from_file_location(name, PROGRAMS / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(monkeypatch, name, **members):
    """Let `import name` find a module with these members."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:count]), ModuleType(parts[count - 1]))
    vars(sys.modules[name]).update(members)


def vllm_rotary_embedding():
    """Return a class with the interface of vLLM's, as of 0.33.0.

    Source: `vllm/model_executor/custom_op.py` and `vllm/model_executor/layers/rotary_embedding/base.py`.
    """

    class CustomOp(nn.Module):
        replaced: ClassVar = {}

        def __new__(cls, *sizes, **options):
            return super().__new__(cls.replaced.get(cls.__name__, cls))

        @classmethod
        def register_oot(cls, _decorated_op_cls=None, name=None):
            def decorate(op_cls):
                op_cls.name = cls.__name__ if name is None else name
                cls.replaced[op_cls.name] = op_cls
                return op_cls

            return decorate if _decorated_op_cls is None else decorate(_decorated_op_cls)

        def forward_oot(self, *given, **named):
            return self.forward_native(*given, **named)

    class RotaryEmbedding(CustomOp):
        def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style, dtype):
            super().__init__()
            self.head_size, self.rotary_dim, self.base = head_size, rotary_dim, base
            self.max_position_embeddings, self.is_neox_style, self.dtype = max_position_embeddings, is_neox_style, dtype
            self.register_buffer("cos_sin_cache", self._compute_cos_sin_cache().to(dtype), persistent=False)

        def _compute_cos_sin_cache(self):
            frequencies = self.base ** (-torch.arange(0, self.rotary_dim, 2).float() / self.rotary_dim)
            angles = torch.arange(self.max_position_embeddings).float()[:, None] * frequencies
            return torch.cat([angles.cos(), angles.sin()], -1)

        def forward_native(self, positions, query, key=None):
            raise NotImplementedError("The table is cast to the dtype of the tokens here.")

        forward_cuda = forward_hip = forward_xpu = forward_cpu = forward_native

    return RotaryEmbedding


@pytest.mark.parametrize("platform", ["native", "cuda", "hip", "xpu", "cpu", "oot"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rotary_dim", [16, 8])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_vllm_rotates_by_exact_tables(monkeypatch, layout, rotary_dim, dtype, platform):
    original = vllm_rotary_embedding()
    stand_in(monkeypatch, "vllm.model_executor.layers.rotary_embedding", RotaryEmbedding=original)
    ours = load("vllm_rotary").ExactRotaryEmbedding
    layer = original(16, rotary_dim, FAR, 10000.0, layout == "half", dtype)  # as vLLM's own code makes it
    assert type(layer) is ours
    assert layer.cos_sin_cache.dtype == torch.float32
    assert not layer.state_dict()
    torch.manual_seed(0)
    query, key = torch.randn(5, 4 * 16).to(dtype), torch.randn(5, 2 * 16).to(dtype)
    positions = torch.tensor([0, 1, 4097, FAR - 1, 7])
    rotary = Rotary(head_dim=16, layout=layout, rotary_dim=rotary_dim)
    cos, sin = rotary.cos_sin(positions.numpy())
    tables = torch.from_numpy(cos)[:, None], torch.from_numpy(sin)[:, None]
    call = getattr(layer, f"forward_{platform}")  # vLLM calls that of its platform
    for found, x in zip(call(positions, query, key), (query, key), strict=True):
        assert found.dtype == dtype
        torch.testing.assert_close(found, rotate(x.view(5, -1, 16), *tables, layout=layout).view(5, -1), rtol=0, atol=0)
    alone, none = call(positions[None], query)
    torch.testing.assert_close(alone, call(positions, query, key)[0], rtol=0, atol=0)
    assert none is None


def torchtitan_rope():
    """Return classes with the interface of torchtitan's: `RoPE`, `ComplexRoPE`, `override`, `derive`.

    Source: `torchtitan/models/common/rope.py` and `torchtitan/config/override.py` of torchtitan 0.3.0.
    """

    class RoPE(nn.Module):
        @dataclass(kw_only=True, slots=True)
        class Config:
            dim: int
            max_seq_len: int
            theta: float = 10000.0
            scaling: str = "none"
            scaling_factor: float = 8.0
            low_freq_factor: float = 1.0
            high_freq_factor: float = 4.0
            original_max_position_embeddings: int = 8192
            rope_factor: float = 1.0
            beta_fast: float = 32.0
            beta_slow: float = 1.0
            original_seq_len: int = 4096
            truncate: bool = True

        def __init__(self, config):
            super().__init__()
            self.config = config
            self.register_buffer("cache", self._precompute_cache(), persistent=False)

    class ComplexRoPE(RoPE):
        @dataclass(kw_only=True, slots=True)
        class Config(RoPE.Config):
            pass

        def forward(self, query, key, positions=None):
            cache = self.cache[: query.shape[1]][None] if positions is None else self.cache[positions]
            pairs = [torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) for x in (query, key)]
            turned = [torch.view_as_real(x * cache[:, :, None]).flatten(3) for x in pairs]
            return turned[0].type_as(query), turned[1].type_as(key)

    def override(*, target, fqns=None, description="", exact=False):
        return lambda factory: factory

    def derive(source, target_cls, **deltas):
        return target_cls(**{field.name: getattr(source, field.name) for field in fields(source)} | deltas)

    return {"RoPE": RoPE, "ComplexRoPE": ComplexRoPE}, {"override": override, "derive": derive}


@pytest.fixture(params=["recorded", "installed"])
def torchtitan(request, monkeypatch):
    """The example for torchtitan, and the class that it replaces, of the package or of its recorded interface."""
    if request.param == "installed":
        if find_spec("torchtitan") is None:
            pytest.skip("torchtitan is not installed beside PyTorch here.")
        from torchtitan.config.override import clear_overrides

        clear_overrides()
    else:
        classes, functions = torchtitan_rope()
        stand_in(monkeypatch, "torchtitan.models.common.rope", **classes)
        monkeypatch.setitem(sys.modules, "torchtitan.config", ModuleType("config"))
        vars(sys.modules["torchtitan.config"]).update(functions)
    return load("torchtitan_rope")


LLAMA = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
YARN = YaRN(factor=40.0, original_max_position_embeddings=4096, attention_factor=1.0)


@pytest.mark.parametrize(
    ("options", "scaling"),
    [
        ({}, None),
        ({"scaling": "llama"}, LLAMA),
        ({"scaling": "yarn", "rope_factor": 40.0}, YARN),
        ({"scaling": "yarn"}, None),
    ],
    ids=str,
)
def test_torchtitan_rotates_by_exact_tables(torchtitan, options, scaling):
    original = torchtitan.ComplexRoPE
    config = torchtitan.exact_rope(original.Config(dim=16, max_seq_len=FAR, theta=500000.0, **options))
    assert type(config) is torchtitan.ExactRoPE.Config
    layer = torchtitan.ExactRoPE(config)
    rotary = Rotary(head_dim=16, layout="interleaved", base=500000.0, scaling=scaling)
    cos, sin = rotary.cos_sin(range(FAR))
    np.testing.assert_array_equal(layer.cache.real, cos)
    np.testing.assert_array_equal(layer.cache.imag, sin)
    assert not layer.state_dict()
    torch.manual_seed(0)
    query, key = torch.randn(2, 3, 4, 16), torch.randn(2, 3, 1, 16)
    positions = torch.tensor([[0, 1, 2], [FAR - 3, FAR - 2, FAR - 1]])
    for given, rows in ((None, np.arange(3)[None]), (positions, positions.numpy())):
        tables = [torch.from_numpy(table[rows][:, :, None]) for table in (cos, sin)]
        for found, x in zip(layer(query, key, given), (query, key), strict=True):
            torch.testing.assert_close(found, rotate(x, *tables, layout="interleaved"), rtol=0, atol=1e-6)
