"""Hugging Face configs: load RoPE, factors of queries or all positional encodings, and write RoPE back."""

from .export import to_config as to_config
from .load_layers import load_layers as load_layers
from .load_position import PositionEncodings as PositionEncodings
from .load_position import load_position as load_position
from .load_query_scale import load_query_scale as load_query_scale
from .load_query_scale import load_softmax_factor as load_softmax_factor
from .load_rope import load_rope as load_rope
from .multimodal import multimodal_positions as multimodal_positions
from .parameters import layer_types as layer_types
from .vision import vision_positions as vision_positions
