"""The positions of random prompts with images and videos, beside `get_rope_index` of each model of transformers."""

import importlib
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING
from transformers.processing_utils import ProcessorMixin

from posenc_core.huggingface import multimodal_positions
from posenc_core.huggingface.facts.models import MODELS as FACTS
from posenc_core.huggingface.facts.models import OTHERS
from posenc_core.positions import from_mask

PAD, START, END, VIDEO_START, VIDEO_END = 0, 11, 12, 13, 14
IMAGE, VIDEO, AUDIO, AUDIO_START, AUDIO_END = 21, 22, 23, 15, 16
TOKENS = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "video_start_token_id": VIDEO_START,
    "video_end_token_id": VIDEO_END,
}
OMNI = {
    "image_token_index": IMAGE,
    "video_token_index": VIDEO,
    "audio_token_index": AUDIO,
    "vision_start_token_id": START,
    "audio_start_token_id": AUDIO_START,
}
OMNIS = ("qwen2_5_omni", "qwen2_5_omni_thinker")
# Not in transformers: tests/core has their positions.
RECORDED = ("bailing_moe_v2", "hunyuan_image_3_moe", "openpangu_vl")
FAMILIES = {name: model.prompt for name, model in (FACTS | OTHERS).items() if model.prompt}
MODELS = [name for name in FAMILIES if name not in (*OMNIS, *RECORDED, "hunyuan_vl")]


class Prompts:
    """Random prompts of a batch, with the grids of their images and videos in order."""

    def __init__(self, name, seed, *, rows=3):
        self.random, self.family = np.random.default_rng(seed), FAMILIES[name]
        self.images, self.videos, self.audios = [], [], []
        self.rows = [self.row() for _ in range(rows)]

    def text(self, least=0):
        return self.random.integers(1, 10, self.random.integers(least, 6)).tolist()

    def row(self):
        parts = [self.image, self.video, self.image, self.video]
        chosen = [parts[i] for i in self.random.permutation(4)[: self.random.integers(0, 5)]]
        return [*self.text(1), *chain.from_iterable([*part(), *self.text()] for part in chosen)]

    def sides(self):
        return (2 * self.random.integers(1, 5, 2)).tolist()

    def image(self):
        height, width = self.sides()
        self.images.append([1, height, width])
        return [START, *[IMAGE] * (height * width // 4), END]

    def video(self):
        (height, width), frames = self.sides(), 2 * int(self.random.integers(1, 5))
        self.videos.append([frames, height, width])
        size = height * width // 4
        if self.family.shared:
            shown = chain.from_iterable([START, *[IMAGE] * size, END, *self.text()] for _ in range(frames))
            return [VIDEO_START, *shown, VIDEO_END]
        if self.family.split:
            return [token for _ in range(frames) for token in (*self.text(), START, *[VIDEO] * size, END)]
        return [START, *[VIDEO] * (size * frames // (2 if self.family.merged else 1)), END]

    def audio(self):
        length = int(self.random.integers(1, 30))
        self.audios.append(length)
        return [AUDIO_START, *[AUDIO] * (((length - 1) // 2 + 1 - 2) // 2 + 1), AUDIO_END]

    def padded(self, side):
        """Return the ids and the mask of the batch."""
        longest = max(map(len, self.rows))
        ids, mask = np.full((len(self.rows), longest), PAD), np.zeros((len(self.rows), longest), int)
        for index, row in enumerate(self.rows):
            where = slice(longest - len(row), None) if side == "left" else slice(len(row))
            ids[index, where], mask[index, where] = row, 1
        return ids, mask


def config_of(name):
    whole = CONFIG_MAPPING[name]()
    for key, token in TOKENS.items():
        setattr(whole, key, token)
    return whole


def indexer(name, config):
    """Return the method of the model, without its weights."""
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    (owner,) = (one for one in vars(module).values() if isinstance(one, type) and "get_rope_index" in vars(one))
    model = object.__new__(owner)
    model.__dict__.update(config=config, spatial_merge_size=2)
    return model.get_rope_index


def types_of(name, ids):
    """Return the type of each token, as the processor of the model makes it."""
    processor = importlib.import_module("transformers.models.glm4v.processing_glm4v").Glm4vProcessor
    owner = processor if FAMILIES[name].shared else ProcessorMixin
    tokens = {"image_token_ids": [IMAGE], "video_token_ids": [VIDEO], "audio_token_ids": []}
    ids_of_video = {"image_token_id": IMAGE, "video_start_id": VIDEO_START, "video_end_id": VIDEO_END}
    return torch.tensor(owner.create_mm_token_type_ids(SimpleNamespace(**tokens, **ids_of_video), ids.tolist()))


def tensor_of(grids):
    return torch.tensor(grids) if grids else None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_positions_are_those_of_the_model(name, side, seed):
    config, prompts = config_of(name), Prompts(name, seed)
    ids, mask = prompts.padded(side)
    grids = {"image_grid_thw": tensor_of(prompts.images), "video_grid_thw": tensor_of(prompts.videos)}
    timed = FAMILIES[name].rate is not None and prompts.videos
    seconds = {"second_per_grid_ts": list(prompts.random.uniform(0.1, 3, len(prompts.videos)))} if timed else {}
    types = types_of(name, ids)
    theirs, deltas = indexer(name, config)(
        torch.tensor(ids), types, **grids, **seconds, attention_mask=torch.tensor(mask)
    )
    ours = multimodal_positions(config, ids, **grids, **seconds, attention_mask=mask)
    np.testing.assert_array_equal(ours.positions, theirs.numpy())
    padding = (mask == 0).sum(axis=1)
    np.testing.assert_array_equal(ours.delta + padding, deltas[:, 0].numpy())


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_of_text_counts_its_tokens(name):
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ours = multimodal_positions(config_of(name), np.where(mask, 5, PAD), attention_mask=mask)
    np.testing.assert_array_equal(ours.positions, np.broadcast_to(from_mask(mask), (3, 2, 5)))


@pytest.mark.parametrize("fps", [0.5, 1.0, 2.0, 3.0, 24.0, 25.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_qwen2_5_omni_with_audio(fps, seed):
    config, prompts = CONFIG_MAPPING["qwen2_5_omni_thinker"](**OMNI), Prompts("qwen2_5_omni", seed, rows=0)
    prompts.rows = [prompts.row() + prompts.audio() + prompts.text() + prompts.image() + prompts.video() for _ in "ab"]
    ids, mask = prompts.padded("left")
    grids = {"image_grid_thw": torch.tensor(prompts.images), "video_grid_thw": torch.tensor(prompts.videos)}
    seconds = torch.full((len(prompts.videos),), 2 / fps)
    module = importlib.import_module("transformers.models.qwen2_5_omni.modeling_qwen2_5_omni")
    model = object.__new__(module.Qwen2_5OmniThinkerForConditionalGeneration)
    model.__dict__.update(config=config, spatial_merge_size=2)
    theirs, deltas = model.get_rope_index(
        torch.tensor(ids), **grids, attention_mask=torch.tensor(mask), audio_seqlens=torch.tensor(prompts.audios),
        second_per_grids=seconds,
    )  # fmt: skip
    ours = multimodal_positions(config, ids, **grids, second_per_grid_ts=seconds, attention_mask=mask)
    np.testing.assert_array_equal(ours.positions, np.where(mask, theirs.numpy(), 0))
    np.testing.assert_array_equal(ours.delta + (mask == 0).sum(axis=1), deltas[:, 0].numpy())


@pytest.mark.parametrize("fps", [0.3, 1.0, 2.0, 25.0])
@pytest.mark.parametrize("seed", range(4))
def test_qwen2_5_omni_with_audio_in_videos(fps, seed):
    config, prompts = CONFIG_MAPPING["qwen2_5_omni_thinker"](**OMNI), Prompts("qwen2_5_omni", seed, rows=0)
    seconds, chunk = np.float32(2 / fps), 50

    def film():
        """Return a video and its audio, in chunks of 2 seconds."""
        prompts.video()
        frames, height, width = prompts.videos[-1]
        prompts.audios.append(length := int(prompts.random.integers(3, 400)))
        size, sound = height * width // 4, ((length - 1) // 2 + 1 - 2) // 2 + 1
        times = (np.arange(frames, dtype=np.float32) * seconds * 25).astype(int).repeat(size)
        cuts = [model.get_chunked_index(torch.tensor(each), chunk, 0) for each in (times, np.arange(sound))]
        shown = chain.from_iterable(
            [kind] * (cut[i][1] - cut[i][0])
            for i in range(max(map(len, cuts)))
            for kind, cut in zip((VIDEO, AUDIO), cuts, strict=True)
            if i < len(cut)
        )
        return [START, AUDIO_START, *shown, AUDIO_END, END]

    module = importlib.import_module("transformers.models.qwen2_5_omni.modeling_qwen2_5_omni")
    model = object.__new__(module.Qwen2_5OmniThinkerForConditionalGeneration)
    model.__dict__.update(config=config, spatial_merge_size=2)
    prompts.rows = [
        [*prompts.text(1), *prompts.image(), *film(), *prompts.text(), *film(), *prompts.text()] for _ in "ab"
    ]
    ids, mask = prompts.padded("left")
    grids = {"image_grid_thw": torch.tensor(prompts.images), "video_grid_thw": torch.tensor(prompts.videos)}
    seconds = torch.full((len(prompts.videos),), float(seconds))
    theirs, deltas = model.get_rope_index(
        torch.tensor(ids), **grids, attention_mask=torch.tensor(mask), audio_seqlens=torch.tensor(prompts.audios),
        second_per_grids=seconds, use_audio_in_video=True,
    )  # fmt: skip
    ours = multimodal_positions(config, ids, **grids, second_per_grid_ts=seconds, attention_mask=mask)
    np.testing.assert_array_equal(ours.positions, np.where(mask, theirs.numpy(), 0))
    np.testing.assert_array_equal(ours.delta + (mask == 0).sum(axis=1), deltas[:, 0].numpy())


@pytest.mark.parametrize("around", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_hunyuan_vl(seed, around):
    prompts = Prompts("hunyuan_vl", seed, rows=0)

    def image():
        height, width = prompts.sides()
        prompts.images.append([1, height, width])
        return [IMAGE] * ((height // 2) * (width // 2 + 1) + around)

    prompts.rows = [[*prompts.text(), *image(), *prompts.text(1), *image(), *prompts.text()] for _ in "abc"]
    config = CONFIG_MAPPING["hunyuan_vl"](image_token_id=IMAGE)
    config.text_config.rope_parameters = {"mrope_section": [16, 16, 16, 16], "rope_type": "default", "rope_theta": 1e4}
    config.vision_config.spatial_merge_size = 2
    images, (ids, mask) = torch.tensor(prompts.images).reshape(3, 2, 3), prompts.padded("left")
    ours = multimodal_positions(config, ids, image_grid_thw=images.reshape(-1, 3), attention_mask=mask)
    for row, grids in enumerate(images):  # row by row, as their numbers of images go on in the next row
        ids_of_row, mask_of_row = torch.tensor(ids[row : row + 1]), torch.tensor(mask[row : row + 1])
        theirs, deltas = indexer("hunyuan_vl", config)(
            ids_of_row, (ids_of_row == IMAGE).int(), image_grid_thw=grids, attention_mask=mask_of_row
        )
        np.testing.assert_array_equal(ours.positions[:, row], theirs[:, 0].numpy())
        assert ours.delta[row] + (mask[row] == 0).sum() == deltas.item()
