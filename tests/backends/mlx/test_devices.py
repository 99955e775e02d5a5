"""Two processes in a ring, each with a part of the batch, have the gradients of the whole batch."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from ...many_devices import many_devices
from . import ring


@many_devices("MLX", "a ring of two processes: `nn.average_gradients`")
def test_a_ring_of_two_processes_has_the_gradients_of_one(tmp_path):
    with ExitStack() as stack:  # ports that the system chooses
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        hosts = [[f"127.0.0.1:{each.getsockname()[1]}"] for each in sockets]
    (tmp_path / "hosts.json").write_text(json.dumps(hosts))
    variables = {**os.environ, "MLX_HOSTFILE": str(tmp_path / "hosts.json")}
    command = [sys.executable, "-m", "tests.backends.mlx.ring"]
    processes = [
        subprocess.Popen(command, env={**variables, "MLX_RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    results = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert results[0] == results[1]
    x = mx.random.normal((4, 5, 8), key=mx.random.key(1))
    for name, numbers in tree_flatten(ring.gradients(x)):
        np.testing.assert_allclose(results[0][name], numbers, rtol=0, atol=1e-6, err_msg=name)
