"""LitGPT: tables of RoPE by config, and their rotation."""

from posenc_suites import Project, replace

PROJECT = Project(
    "Lightning-AI/litgpt",
    "26857050fe3ff627cd714fe92f5838f51a3d5efa",
    "torch",
    tests=("tests/test_rope.py", "tests/test_multihead_latent_attention.py"),
    replaced="`build_rope_cache`, `apply_rope`, `apply_rope_interleave`",
    requires=("lightning", "transformers", "jsonargparse"),
)


def shim():
    import torch
    from litgpt import model

    from posenc_backends.torch import RotaryEmbedding, apply_rotary_transformers
    from posenc_core import Linear, Llama3, Rotary, YaRN

    def scaling(factor, original_max_seq_len=None, **others):
        if original_max_seq_len is None:
            return Linear(factor=factor)
        return (YaRN if "beta_fast" in others else Llama3)(factor=factor, original_len=original_max_seq_len, **others)

    def build_rope_cache(
        seq_len, n_elem, device=None, base=10000, condense_ratio=1, extra_config=None, rope_local_base_freq=None
    ):
        condensed = Linear(factor=condense_ratio) if condense_ratio != 1 else None
        scalings = {base: scaling(**extra_config) if extra_config else condensed}
        if rope_local_base_freq is not None:
            scalings = [*scalings.items(), (rope_local_base_freq, condensed)]
        tables = [
            RotaryEmbedding(Rotary(head_dim=n_elem, layout="half", base=base, scaling=scaling), device=device).cos_sin(
                torch.arange(seq_len, device=device), columns="channels"
            )
            for base, scaling in dict(scalings).items()
        ]
        return tables[0] if len(tables) == 1 else tuple(torch.stack(one, -1) for one in zip(*tables, strict=True))

    def apply_rope(x, cos, sin, layout="half"):
        return apply_rotary_transformers(x, None, cos, sin, layout=layout)[0]

    def apply_rope_interleave(x, cos, sin):
        return apply_rope(x, cos, sin, layout="interleaved_to_half")

    replace(
        model, build_rope_cache=build_rope_cache, apply_rope=apply_rope, apply_rope_interleave=apply_rope_interleave
    )
