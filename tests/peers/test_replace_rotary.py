"""`replace_rotary` in tiny models of transformers: the same outputs, but nearer to float64 at far positions."""

import copy

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText

from posenc_backends.torch.huggingface import RotaryTables, replace_rotary
from posenc_core import Rotary, YaRN
from posenc_core.huggingface import load_rope

from .replaced import FAMILIES, FAR, LENGTH, NEAR, Family, config_of, in_float64, model_of, off, outputs, wide_outputs

ROUNDED = 2.0**-20  # of the largest output: tables that are off by 2**-25, and at most 32 times that after two layers
NEARER = 3  # times, at positions where the model's own tables are not right

LLAMA = Family("llama", {"max_position_embeddings": 256})
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
SECTIONS = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]}
HUNYUAN = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 3, 3]}
IDS = torch.arange(3, 3 + LENGTH)[None]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny models take longer with two
    yield
    torch.set_num_threads(threads)


def rotary_parts(model):
    return [part for part in model.modules() if isinstance(part, RotaryTables)]


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_outputs_are_those_of_the_model_and_nearer_to_float64_at_far_positions(family):
    config = config_of(family)
    model = model_of(config)
    wide = wide_outputs(copy.deepcopy(config), model.state_dict(), (NEAR, FAR))
    before, keys = [outputs(model, start) for start in (NEAR, FAR)], list(model.state_dict())
    result = replace_rotary(model)
    assert result.replaced
    assert not result.kept
    assert list(model.state_dict()) == keys
    assert NEARER * off(outputs(model, FAR), wide[1]) < off(before[1], wide[1])
    with in_float64():  # where nothing but our tables is rounded, so that no bound depends on BLAS
        replaced = copy.deepcopy(model).double()
        after = [outputs(replaced, start) for start in (NEAR, FAR)]
    for found, wanted in zip(after, wide, strict=True):
        assert off(found, wanted) <= ROUNDED * wanted.abs().max()
    result.undo()
    assert torch.equal(outputs(model), before[0])


@pytest.fixture
def model():
    return model_of(config_of(LLAMA))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_with_a_cache_is_that_of_the_model(model, cache):
    options = {"max_new_tokens": 6, "do_sample": False, "cache_implementation": cache, "pad_token_id": 0}
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * LENGTH])
    wanted = model.generate(IDS.repeat(2, 1), attention_mask=mask, **options)
    replace_rotary(model)
    assert torch.equal(model.generate(IDS.repeat(2, 1), attention_mask=mask, **options), wanted)


@pytest.mark.parametrize("family", [LLAMA, *(one for one in FAMILIES if one.note == "longrope")], ids=str)
def test_a_compiled_model_is_one_graph(family):
    model = model_of(config_of(family))
    replace_rotary(model)
    compiled = torch.compile(model, fullgraph=True, backend="eager", dynamic=False)
    for start in (0, config_of(family).max_position_embeddings - LENGTH):
        positions = start + torch.arange(LENGTH)[None]
        with torch.no_grad():
            found = compiled(input_ids=IDS, position_ids=positions, use_cache=False).logits
            wanted = model(input_ids=IDS, position_ids=positions, use_cache=False).logits
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_dynamic_scaling_compiles_around_its_tables():
    model = model_of(config_of(Family("llama", {"max_position_embeddings": 4, "rope_parameters": DYNAMIC})))
    replace_rotary(model)
    compiled = torch.compile(model, backend="eager", dynamic=False)
    with torch.no_grad():
        found, wanted = compiled(input_ids=IDS, use_cache=False), model(input_ids=IDS, use_cache=False)
    torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-5, atol=1e-5)


def test_a_model_on_the_meta_device_gets_its_tables_with_its_weights(model):
    with torch.device("meta"):
        empty = model_of(config_of(LLAMA))
    result = replace_rotary(empty)
    assert "unknown: on the meta device" in str(result)
    state = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    empty.to_empty(device="cpu").load_state_dict(state)
    empty.load_state_dict(model.state_dict())
    replace_rotary(model)
    assert torch.equal(outputs(empty), outputs(model))
    result.undo()
    assert off(outputs(empty), outputs(model)) < 1e-5


def test_weights_that_are_assigned_leave_no_table_on_the_meta_device(model):
    with torch.device("meta"):
        empty = model_of(config_of(LLAMA))
    replace_rotary(empty)
    empty.load_state_dict(model.state_dict(), assign=True)
    replace_rotary(model)
    assert torch.equal(outputs(empty), outputs(model))


def test_saved_files_have_the_same_tensors_and_load_again(model, tmp_path):
    keys = list(model.state_dict())
    replace_rotary(model)
    assert list(model.state_dict()) == keys
    model.save_pretrained(tmp_path)
    again, info = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager", output_loading_info=True)
    assert not any(info.values())
    replace_rotary(again.eval())
    assert torch.equal(outputs(again), outputs(model))


@pytest.mark.parametrize("devices", [{"": "cpu"}, {"model": "cpu", "lm_head": "disk"}], ids=["cpu", "disk"])
def test_a_model_with_a_map_of_devices(model, devices, tmp_path):
    model.save_pretrained(tmp_path / "saved")
    mapped = AutoModelForCausalLM.from_pretrained(
        tmp_path / "saved", attn_implementation="eager", device_map=devices, offload_folder=tmp_path / "offloaded"
    )
    replace_rotary(mapped)
    replace_rotary(model)
    assert torch.equal(outputs(mapped.eval()), outputs(model))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # of peft
def test_a_wrapped_model_trains_as_before(model):
    from peft import LoraConfig, get_peft_model

    wrapped = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    assert [row.name for row in replace_rotary(wrapped).replaced] == ["base_model.model.model.rotary_emb"]
    wrapped(input_ids=IDS, labels=IDS).loss.backward()
    trained = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None for parameter in trained)
    merged = wrapped.merge_and_unload()
    assert len(rotary_parts(merged)) == 1


def test_casts_do_not_reach_the_tables(model):
    wanted = model_of(config_of(LLAMA))
    replace_rotary(wanted)
    model.bfloat16()
    result = replace_rotary(model)
    assert result.replaced[0].difference.largest > 1e-2  # the frequencies were cast
    ours, exact = rotary_parts(model.half().bfloat16())[0], rotary_parts(wanted)[0]
    x, positions = torch.zeros(1, 1, 1, dtype=torch.bfloat16), torch.tensor([[255]])
    assert [table.dtype for table in ours(x, positions)] == [torch.bfloat16] * 2
    assert all(map(torch.equal, ours(x, positions), exact(x, positions)))


def test_each_axis_of_positions_has_its_pairs():
    (family,) = (one for one in FAMILIES if one.model_type == "qwen2_vl_text")
    model = model_of(config_of(family))
    positions = torch.tensor([[[7, 8, 9]], [[0, 0, 1]], [[5, 3, 1]]])
    wanted = model.rotary_emb(torch.zeros(1, 3, 32), positions)
    replace_rotary(model)
    for one, other in zip(model.rotary_emb(torch.zeros(1, 3, 32), positions), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_the_text_model_of_a_multimodal_one_is_replaced_and_its_tower_listed():
    text = config_of(Family("qwen2_vl_text", {"rope_parameters": SECTIONS})).to_dict()
    tower = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "patch_size": 2}
    config = CONFIG_MAPPING["qwen2_vl"](
        text_config=text, vision_config=tower, tie_word_embeddings=False, image_token_id=21, vision_start_token_id=23
    )
    model = model_of(config, kind=AutoModelForImageTextToText)
    before = of_an_image(model)
    result = replace_rotary(model)
    assert [row.name for row in result.replaced] == ["model.language_model.rotary_emb"]
    assert [row.class_name for row in result.kept] == ["Qwen2VLVisionRotaryEmbedding"]
    lines = str(result).splitlines()
    assert max(map(len, lines)) <= 80
    assert "(Qwen2VLVisionRotaryEmbedding): it does not take positions `(axes, batch, length)`" in flat(lines)
    torch.testing.assert_close(of_an_image(model), before, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def of_an_image(model):
    """Return the logits of a prompt with an image, and of a token after it."""
    prompt = torch.tensor([[3, 4, 23, 21, 21, 21, 21, 24, 5, 6]])
    pixels = torch.randn(16, 3 * 2 * 2 * 2, generator=torch.Generator().manual_seed(0))
    image = {"pixel_values": pixels, "image_grid_thw": torch.tensor([[1, 4, 4]])}
    prefill = model(input_ids=prompt, mm_token_type_ids=prompt.eq(21).int(), **image, use_cache=True)
    token = model(input_ids=torch.tensor([[7]]), past_key_values=prefill.past_key_values)
    return torch.cat([prefill.logits, token.logits], dim=1)


def test_another_encoding_takes_the_place_of_that_of_the_config(model):
    scaled = YaRN(factor=4.0, original_max_position_embeddings=64)
    encoding = Rotary(head_dim=8, layout="half", scaling=scaled)
    with replace_rotary(model, encoding) as result:
        assert result.replaced[0].encoding == encoding
        assert result.replaced[0].difference.first == 0  # the attention factor
        found = outputs(model)
    with replace_rotary(model), replace_rotary(model, encoding):
        assert torch.equal(outputs(model), found)
    assert not rotary_parts(model)
    config = config_of(LLAMA)
    config.rope_parameters = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0} | {
        "original_max_position_embeddings": 64
    }
    assert load_rope(config) == encoding
    assert off(found, outputs(model_of(config))) < 1e-4


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (Rotary(head_dim=8, layout="interleaved"), "`encoding` must have layout 'half' in `model.rotary_emb`"),
        (Rotary(head_dim=16, layout="half"), "`encoding` must have head_dim 8"),
        (Rotary(head_dim=8, layout="half", rotary_dim=4), "`encoding` must have rotary_channels 8"),
        ({"sliding_attention": Rotary(head_dim=8, layout="half")}, "`encoding` must be for layers of the model"),
    ],
)
def test_an_encoding_that_does_not_fit_is_refused_before_anything_changes(model, encoding, message):
    with pytest.raises(ValueError, match=message):
        replace_rotary(model, encoding)
    assert not rotary_parts(model)


def test_modules_with_other_frequencies_than_their_config_says_are_kept(model):
    model.model.rotary_emb.inv_freq.mul_(0.5)
    result = replace_rotary(model)
    assert not result.replaced
    assert "its tables are not those of the encoding" in result.kept[0].reason
    with pytest.raises(ValueError, match=r"`encoding` fits no module of the model; `model\.rotary_emb`: its tables"):
        replace_rotary(model, Rotary(head_dim=8, layout="half"))


def flat(lines):
    return " ".join(map(str.strip, lines))


def test_modules_that_are_not_understood_are_listed_by_name():
    config = config_of(Family("hunyuan_vl_text", {"head_dim": 24, "rope_parameters": HUNYUAN}))
    result = replace_rotary(model_of(config))
    assert [row.class_name for row in result.kept] == ["HunYuanVLRotaryEmbedding"]
    assert "which is not a rotation" in flat(str(result).splitlines())


def test_layers_are_named_and_those_with_other_bases_get_encodings_of_their_own():
    config = config_of(next(one for one in FAMILIES if one.model_type == "granite_swa"))
    result = replace_rotary(model := model_of(config))
    assert [row.layers for row in result.replaced] == ["layers 1, 3", "layers 1, 3", "layer 2"]
    assert [row.layers for row in replace_rotary(model).replaced] == [row.layers for row in result.replaced]
    with pytest.raises(ValueError, match="must be a dict with one for each of"):
        replace_rotary(model, result.replaced[0].encoding)


def test_a_state_that_changes_the_tables_is_loaded_before():
    (family,) = (one for one in FAMILIES if one.model_type == "mistral_large4_text")
    with torch.device("meta"):
        result = replace_rotary(model_of(config_of(family)))
        assert "the weights have its alpha; load them before" in flat(str(result).splitlines())
    model = model_of(config_of(family))
    state = {name: weight.clone() for name, weight in model.state_dict().items()}
    result = replace_rotary(model)
    model.load_state_dict(state)
    state["rotary_emb.alpha"] += 0.5
    with pytest.raises(RuntimeError, match=r"`rotary_emb\.alpha` would change the replaced tables"):
        model.load_state_dict(state)
    result.undo()
    model.load_state_dict(state)
    assert "its tables are not those of the encoding" in replace_rotary(model).kept[0].reason


def test_a_model_without_rotary_module_is_refused():
    with pytest.raises(ValueError, match="`model` must have a rotary module, got T5Model, which has none"):
        replace_rotary(model_of(CONFIG_MAPPING["t5"](d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)))
