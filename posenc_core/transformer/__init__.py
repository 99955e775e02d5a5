"""The Transformer of the texts: its model, decoding, and tasks to train it on."""

from .config import Transformer as Transformer
from .model import NORM_EPSILON as NORM_EPSILON
from .model import KeysValues as KeysValues
from .model import Memory as Memory
from .model import additive_rows as additive_rows
from .model import answer as answer
from .model import attention_position as attention_position
from .model import cross_attention as cross_attention
from .model import cross_attention_weights as cross_attention_weights
from .model import decode as decode
from .model import embed as embed
from .model import encode as encode
from .model import feed_forward as feed_forward
from .model import layer_norm as layer_norm
from .model import logsumexp as logsumexp
from .model import loss as loss
from .model import position_array as position_array
from .model import project as project
from .model import project_heads as project_heads
from .model import read as read
from .model import self_attention as self_attention
from .model import shift_right as shift_right
from .model import sum_all as sum_all
from .model import take_rows as take_rows
from .model import with_prefix as with_prefix
