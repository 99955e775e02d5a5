"""Two processes of `jax.distributed`, each with a part of the batch, have the gradients of the whole batch."""

import json
import os
import socket
import subprocess
import sys

import numpy as np

from ...many_devices import many_devices
from . import pair


@many_devices("JAX", "`jax.distributed`, two processes on a CPU: the batch on a mesh of both")
def test_two_processes_have_the_gradients_of_one():
    with socket.create_server(("127.0.0.1", 0)) as free:  # a port that the system chooses
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "tests.backends.jax.pair", port]
    variables = {**os.environ, "XLA_FLAGS": ""}  # one device in each
    started = [
        subprocess.Popen([*command, rank], env=variables, stdout=subprocess.PIPE, text=True) for rank in ("0", "1")
    ]
    printed = [process.communicate(timeout=250)[0].splitlines()[-1] for process in started]
    assert printed[0] == printed[1]
    np.testing.assert_allclose(json.loads(printed[0]), pair.gradients(pair.X), rtol=1e-4)
