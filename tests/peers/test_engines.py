"""Engines that train with several processes: two processes learn what one learns, and a checkpoint has it."""

import copy
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import distributed, nn

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding
from posenc_core import Learned, LearnedRotary, T5Bias
from tests.many_devices import many_devices
from tests.processes import faults_of

WIDTH, HEADS, LENGTH = 32, 2, 8
X = torch.randn(8, LENGTH, WIDTH, generator=torch.Generator().manual_seed(3))
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Model(nn.Module):
    """Additive, rotary and scoring positions that learn."""

    def __init__(self):
        super().__init__()
        self.learned = PositionalEncoding(WIDTH, encoding=Learned(dim=WIDTH, length=LENGTH))
        self.turned = MultiHeadAttention(
            WIDTH, HEADS, position=LearnedRotary(head_dim=WIDTH // HEADS, layout="half", std=0.1)
        )
        self.biased = MultiHeadAttention(WIDTH, HEADS, position=T5Bias(num_heads=HEADS), bias=True)

    def forward(self, x, labels=None):
        x = self.learned(x)
        x = x + self.turned(x, x, x, causal=True)
        y = self.biased(x, x, x)
        return y if labels is None else {"loss": (y**2).mean(), "y": y}


def start():
    """Return the same model and its optimizer in every process, and the batches of this one."""
    torch.manual_seed(0)
    model, rank = Model(), distributed.get_rank()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return SimpleNamespace(model=model, optimizer=optimizer, batches=[batch.chunk(2)[rank] for batch in X.split(4)])


def assert_trained(state):
    """Check the state of a model against that of two steps with all of the batch."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for batch in X.split(4):
        optimizer.zero_grad()
        (model(batch) ** 2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(dict(state), dict(model.state_dict()), rtol=0, atol=1e-6)
    Model().load_state_dict(state)


def one_folder():
    """Return the name of a new folder, the same in every process."""
    folder = [tempfile.mkdtemp()]
    distributed.broadcast_object_list(folder)
    return folder[0]


@many_devices("PyTorch", "Accelerate: `prepare`, `save_state`, `load_state`")
@check
def accelerate(mesh):
    from accelerate import Accelerator

    engine, own = Accelerator(cpu=True), start()
    model, optimizer = engine.prepare(own.model, own.optimizer)
    for batch in own.batches:
        optimizer.zero_grad()
        engine.backward((model(batch) ** 2).mean())
        optimizer.step()
    engine.save_state(folder := one_folder())
    distributed.barrier()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    engine.load_state(folder)
    assert engine.num_processes == 2
    assert_trained(engine.unwrap_model(model).state_dict())


@many_devices("PyTorch", "transformers' `Trainer`, `save_model`")
@check
def trainer(mesh):
    from safetensors.torch import load_file
    from transformers import Trainer, TrainingArguments

    own, folder = start(), one_folder()
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=2, num_train_epochs=1, learning_rate=0.5, lr_scheduler_type="constant",
        max_grad_norm=0, optim="sgd", use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no",
        train_sampling_strategy="sequential",
    )  # fmt: skip
    engine = Trainer(own.model, arguments, train_dataset=[{"x": x, "labels": 0} for x in X])
    engine.train()
    engine.save_model(folder)
    distributed.barrier()
    assert arguments.world_size == 2
    assert_trained(load_file(f"{folder}/model.safetensors"))


@many_devices("PyTorch", "Lightning: `Trainer`, `save_checkpoint`")
@check
def lightning(mesh):
    from lightning import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self, own):
            super().__init__()
            self.model, self.optimizer = own.model, own.optimizer

        def training_step(self, batch):
            return (self.model(batch) ** 2).mean()

        def configure_optimizers(self):
            return self.optimizer

    own, folder = start(), one_folder()
    engine = Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, use_distributed_sampler=False, logger=False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
    )  # fmt: skip
    engine.fit(Module(own), torch.utils.data.DataLoader(own.batches, batch_size=None))
    engine.save_checkpoint(f"{folder}/saved.ckpt")
    assert engine.world_size == 2
    state = torch.load(f"{folder}/saved.ckpt")["state_dict"]
    assert_trained({name.removeprefix("model."): numbers for name, numbers in state.items()})


@many_devices("PyTorch", "DeepSpeed: ZeRO 2 and 3, `zero_to_fp32`")
@check
def deepspeed(mesh):
    import deepspeed
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it starts a compiler of C++
    for stage in (2, 3):
        own, folder = start(), one_folder()
        config = {
            "train_micro_batch_size_per_gpu": 2,
            "zero_optimization": {"stage": stage},
            "zero_force_ds_cpu_optimizer": False,
            "zero_allow_untested_optimizer": True,
        }
        engine, *_ = deepspeed.initialize(model=own.model, optimizer=own.optimizer, config=config)
        for batch in own.batches:
            engine.backward((engine(batch) ** 2).mean())
            engine.step()
        engine.save_checkpoint(folder)
        distributed.barrier()
        assert_trained(get_fp32_state_dict_from_zero_checkpoint(folder))
        engine.destroy()


if sys.platform != "linux":
    del CHECKS["deepspeed"]  # which is for Linux


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    return faults_of(__file__, CHECKS, 2, tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("name", CHECKS)
def test_two_processes(faults, name):
    assert not faults[name], faults[name]


RAY = {  # it watches over clusters, with processes that each import PyTorch
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "400",
    "RAY_enable_metrics_collection": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
}


def train_with_ray(folder, logs):
    """Train with two processes that Ray starts; check the checkpoint in this one."""
    import ray
    from ray import train
    from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

    def work():
        own = start()
        model = prepare_model(own.model, move_to_device=False)
        for batch in own.batches:
            own.optimizer.zero_grad()
            (model(batch) ** 2).mean().backward()
            own.optimizer.step()
        with tempfile.TemporaryDirectory() as saved:
            torch.save(own.model.state_dict(), f"{saved}/state.pt")
            checkpoint = train.Checkpoint.from_directory(saved)
            train.report({"processes": distributed.get_world_size()}, checkpoint=checkpoint)

    ray.init(
        "local", num_cpus=4, include_dashboard=False, object_store_memory=80 * 2**20, _temp_dir=logs,
        _node_ip_address="127.0.0.1",
    )  # fmt: skip
    result = TorchTrainer(
        work,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(name="run", storage_path=folder),
    ).fit()
    ray.shutdown()
    assert result.metrics["processes"] == 2
    with result.checkpoint.as_directory() as saved:
        assert_trained(torch.load(f"{saved}/state.pt"))


@pytest.mark.timeout(600)  # half a minute, and much more on a busy machine
@pytest.mark.skipif(sys.platform != "linux", reason="Elsewhere the paths of temporary folders are too long for Ray.")
@many_devices("PyTorch", "Ray Train: `TorchTrainer`, `prepare_model`, `report`")
def test_workers_of_ray(tmp_path):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as logs:  # of a short name, for sockets
        call = f"from tests.peers.test_engines import train_with_ray; train_with_ray({str(tmp_path)!r}, {logs!r})"
        root = str(Path(__file__).parents[2])  # last: posenc is the one that is installed
        environment = {**os.environ, **RAY, "PYTHONPATH": os.pathsep.join([*sys.path, root])}
        with subprocess.Popen([sys.executable, "-c", call], cwd=tmp_path, env=environment) as process:
            try:
                assert process.wait(timeout=500) == 0
            finally:
                process.terminate()  # Ray then ends the processes that it started


PROJECTIONS = ["W_q", "W_k", "W_v", "W_o"]
ADAPTERS = {
    "LoRA": {"target_modules": PROJECTIONS},
    "DoRA": {"target_modules": PROJECTIONS, "use_dora": True},
    "LoRA of a learned table": {"target_parameters": ["learned.table"]},
    "whole layers beside LoRA": {"target_modules": ["W_q"], "modules_to_save": ["learned", "rotary", "scoring"]},
}


@pytest.mark.filterwarnings("ignore")  # of peft
@pytest.mark.parametrize("options", ADAPTERS.values(), ids=ADAPTERS)
def test_adapters_of_projections_and_of_positions_learn_and_are_merged(options, tmp_path):
    from peft import LoraConfig, PeftModel, get_peft_model

    base = Model()
    model, wanted = get_peft_model(copy.deepcopy(base), LoraConfig(r=2, **options)), base(X)
    torch.testing.assert_close(model(X), wanted)
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.SGD(learned.values(), lr=0.5)
    for _ in range(2):  # the first leaves one of the two matrices of an adapter at 0
        optimizer.zero_grad()
        (model(X) ** 2).mean().backward()
        optimizer.step()
    assert all(parameter.grad.any() for parameter in learned.values())
    result = model(X)
    assert not torch.allclose(result, wanted)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(PeftModel.from_pretrained(base, tmp_path)(X), result)
    torch.testing.assert_close(model.merge_and_unload()(X), result)


@pytest.mark.filterwarnings("ignore")  # of torchao
@pytest.mark.parametrize("name", ["Int8WeightOnlyConfig", "Float8WeightOnlyConfig", "IntxWeightOnlyConfig"])
def test_quantized_projections_give_the_results_of_their_numbers(name, tmp_path):
    """Tables and what is learned of positions stay as they are; a state loads from the meta device."""
    from torchao import quantization

    model, config = Model(), getattr(quantization, name)
    quantization.quantize_(model, config(version=2) if name.startswith("Int8") else config())
    rounded = {key: x.dequantize() if ".W_" in key and "weight" in key else x for key, x in model.state_dict().items()}
    alone = Model()
    alone.load_state_dict(rounded)
    result = model(X)
    torch.testing.assert_close(result, alone(X), rtol=1e-4, atol=1e-5)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    with torch.device("meta"):
        empty = Model()
    empty.load_state_dict(torch.load(tmp_path / "state.pt"), assign=True)
    torch.testing.assert_close(empty(X), result, rtol=0, atol=0)
