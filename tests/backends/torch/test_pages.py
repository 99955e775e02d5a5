"""The pages on a GPT and on training, and programs of the pages, in processes as started by `torchrun`."""

import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from ...pages import run

HOWTO = Path(__file__).parents[3] / "docs" / "howto"


@pytest.mark.parametrize("program", ["context_torch.py", "ring_torch.py", "train_fsdp.py"])
def test_two_processes_agree_with_one(program):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    both = [
        subprocess.Popen(
            [sys.executable, str(HOWTO / program)],
            env={**os.environ, **shared, "RANK": rank},
            stdout=-1,
            stderr=-1,
            text=True,
        )
        for rank in "01"
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [out for out, _ in outputs] == ["rank 0: the same\n", "rank 1: the same\n"], outputs


@pytest.mark.whole
def test_the_page_on_a_gpt_prints_what_it_shows():
    run(HOWTO / "replace_nanogpt.md")


@pytest.mark.parametrize("compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_the_page_on_training_prints_what_it_shows(compiler, monkeypatch):
    """With Inductor as printed; otherwise up to code generation, which takes most of the time."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compiler))
    run(HOWTO / "training.md")


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_the_page_on_attention_runs():
    run(HOWTO.with_name("reference") / "attention.md")
