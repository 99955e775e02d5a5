"""Run cases of the common suite on a device that computes nothing, and print what went wrong, as JSON.

Tensors have a shape, a dtype and the device "pretend". An operator of tensors on two devices, or one whose number the
host waits for, raises an error. A result is read as zeros: whether it is right is tested elsewhere.
"""

import json
import sys
import warnings
from collections import Counter

import numpy as np
import torch
import torch._subclasses.fake_tensor as fake
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from posenc_backends import torch as backend
from posenc_backends.conformance.cases import backend_under_test, cases
from posenc_backends.torch import apply_rotary, apply_rotary_transformers, distributed
from posenc_backends.torch import backend as arrays
from posenc_backends.torch.rotation import gpu, kernel
from posenc_core import Rotary

DEVICE = "pretend:0"
SHARE = 3
READ = Counter()  # arrays whose numbers were asked for, by device
LEFT_OUT = ("compiled", "saved")  # compilers pretend by themselves; files of nothing cannot be read back


class Reads(TorchDispatchMode):
    """Count the tensors that are copied from the device."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type == "cpu":
            given = [one for one in (*args, *(kwargs or {}).values()) if isinstance(one, torch.Tensor)]
            self.count += any(one.device.type != "cpu" for one in given)
        return result


def pretend():
    """Let new tensors lie on the pretended device, and ours take them for plain ones."""
    _setup_privateuseone_for_python_backend("pretend")
    fake.CONSTANT_NUMEL_LIMIT = 0  # else single numbers are computed
    for module in (arrays, gpu, kernel, distributed):
        module.PLAIN = (*module.PLAIN, fake.FakeTensor)
    arrays.TorchBackend.to_numpy = lambda self, array, /: to_numpy(array)
    backend.to_numpy = to_numpy
    torch.set_default_device(DEVICE)
    return fake.FakeTensorMode(allow_non_fake_inputs=True)


def to_numpy(array):
    """Return zeros in place of numbers, and count them."""
    READ[str(array.device)] += 1
    dtype = torch.float32 if array.dtype == torch.bfloat16 else array.dtype
    return np.zeros(tuple(array.shape), str(dtype).removeprefix("torch."))


def run_suite(mode):
    """Return the errors of every third case by name, and how many arrays were read from each device."""
    errors = {}
    on = backend_under_test("torch")
    cast = on.testing.eval_mode
    on.testing.eval_mode = lambda layer, dtype="float32": layer.eval() if dtype == "float32" else cast(layer, dtype)
    for case in [case for case in cases() if case.check not in LEFT_OUT][::SHARE]:
        try:
            with mode:
                case.run(on)
        except Exception as error:  # noqa: BLE001 - any error is what we look for
            errors[case.name] = f"{type(error).__name__}: {error}"
    return {"read": READ, "errors": errors}


def count_reads(mode):
    """Return how many tensors each call copies from the device."""
    counts = {}
    with mode:
        q, k, rows = torch.ones(2, 4, 3, 8), torch.ones(2, 2, 3, 8), backend.from_numpy(np.array([3, 0, 9]))
        layer = backend.RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=8)
        cos, sin = layer.tables
        own = [torch.ones(2, 3, 8), torch.zeros(2, 3, 8)]
        calls = {
            "apply_rotary": lambda: apply_rotary(q, k, cos, sin, layout="half", start=5),
            "positions": lambda: apply_rotary(q, k, cos, sin, layout="half", positions=rows),
            "starts": lambda: apply_rotary(q, k, cos, sin, layout="half", start=rows[:2]),
            "packed": lambda: apply_rotary(q, k, cos, sin, layout="half", cu_seqlens=rows),
            "transformers": lambda: apply_rotary_transformers(q, k, *own),
            "a layer": lambda: layer(q, k, start=5),
            "a layer that grows": lambda: layer(q, k, start=9),
            "a layer, positions": lambda: layer(q, k, positions=rows),
            "a read": lambda: backend.to_numpy(rows),
            "a copy": q.cpu,
        }
        for name, call in calls.items():
            with Reads() as reads:
                READ.clear()
                call()
            counts[name] = reads.count + READ[DEVICE]
    return counts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what = {"suite": run_suite, "reads": count_reads}[sys.argv[1]]
    print(json.dumps(what(pretend())))  # noqa: T201
