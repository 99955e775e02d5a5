"""Pickles made before modules moved into folders, in a process that has not seen the new ones."""

import json
import pickle
import subprocess
import sys

import pytest

from posenc_core import (
    Alibi,
    AxialRotary,
    Binary,
    Cope,
    Fire,
    FourierFeatures,
    GridSinusoidal,
    Integer,
    Kerple,
    Learned,
    LearnedRotary,
    LearnedSinusoidal,
    MultimodalRotary,
    Normalized,
    Placed,
    RandomFourierFeatures,
    Rotary,
    ShawBias,
    Sine,
    Sinusoidal,
    SwinBias,
    T5Bias,
    Timestep,
    TransformerXLBias,
    XPos,
)
from posenc_core.encodings.additive import Series

ROTARY = {"head_dim": 8, "layout": "half"}
CONTENT = {"num_heads": 2, "head_dim": 4}
FORMER = {  # where commit 0cd9e1f had them
    "additive": [Integer(dim=4), Normalized(dim=4, length=9), Binary(dim=4)],
    "alibi": [Alibi(num_heads=2)],
    "axial": [AxialRotary(**ROTARY, axes_dims=(4, 4))],
    "cope": [Cope(**CONTENT, max_position=3)],
    "fire": [Fire(num_heads=2)],
    "fourier": [FourierFeatures(dim=4), RandomFourierFeatures(dim=4, scale=1.0, seed=0)],
    "grid_sinusoidal": [GridSinusoidal(dim=4, convention="mae")],
    "kerple": [Kerple(num_heads=2)],
    "learned": [Learned(dim=4, length=9)],
    "learned_rotary": [LearnedRotary(**ROTARY)],
    "learned_sinusoidal": [LearnedSinusoidal(dim=4)],
    "multimodal": [MultimodalRotary(**ROTARY, sections=(2, 1, 1))],
    "placed": [Placed(Alibi(num_heads=2), range(3), range(3))],
    "rotary": [Rotary(**ROTARY)],
    "shaw": [ShawBias(**CONTENT, max_distance=3)],
    "sinusoidal": [Sine(dim=4, frequencies="powers_of_two"), Sinusoidal(dim=4)],
    "swin": [SwinBias(num_heads=2, window=(2, 3))],
    "t5": [T5Bias(num_heads=2)],
    "timestep": [Timestep(dim=4)],
    "transformer_xl": [TransformerXLBias(**CONTENT, max_distance=3)],
    "xpos": [XPos(**ROTARY)],
}
WITH_SERIES = ("fourier", "grid_sinusoidal", "learned_sinusoidal", "sinusoidal", "timestep")


LOADED = """
import json, pickle, sys

printed = {}
for former in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "posenc_core"]:
        del sys.modules[name]  # so that each pickle is the first thing that names the package
    try:
        with open(former, "rb") as file:
            printed[former] = []
            while file.peek(1):
                printed[former].append(repr(pickle.load(file)))
    except Exception as error:
        printed[former] = repr(error)
print(json.dumps(printed))
"""


def made_before(former):
    """Return pickles, one after the other, that name the module where these encodings were."""
    made = b""
    for encoding in FORMER[former]:
        if hasattr(encoding, "table") and not encoding.parameters():
            encoding.table(range(2))  # some keep what they worked out
        text = pickle.dumps(encoding, protocol=0)
        now = f"c{type(encoding).__module__}\n".encode()
        assert now in text
        text = text.replace(now, f"cposenc_core.encodings.{former}\n".encode())
        made += text.replace(f"c{Series.__module__}\n".encode(), b"cposenc_core.encodings.waves\n")
    return made


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What another process loads from the pickles of each module, each without the package imported before."""
    folder = tmp_path_factory.mktemp("pickles")
    for former in FORMER:
        (folder / former).write_bytes(made_before(former))
    command = [sys.executable, "-c", LOADED, *FORMER]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout)


@pytest.mark.parametrize("former", FORMER)
def test_a_pickle_that_names_a_former_module_is_loaded(former, loaded):
    assert (b"encodings.waves" in made_before(former)) is (former in WITH_SERIES)
    assert loaded[former] == [repr(encoding) for encoding in FORMER[former]]
