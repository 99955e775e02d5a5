"""Small decoders for `check_model`, the same in each framework: rotations, biases and tables may be wrong."""

from importlib import import_module
from types import SimpleNamespace

from posenc_backends import load

WIDTH, HEAD = 32, 16  # of tokens, and of a head; two heads of queries share one of keys


def torch():
    """Return what PyTorch has under names of its own."""
    torch = import_module("torch")

    def cast(x, dtype):
        return x.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)

    def half(build):
        model = build()
        for parameter in model.parameters():
            parameter.data = parameter.data.bfloat16()
        return model

    torch.manual_seed(0)
    return SimpleNamespace(
        xp=torch,
        module=torch.nn.Module,
        forward="forward",
        cast=cast,
        take=lambda table, at: table[at],
        hold=lambda module, name, x: module.register_buffer(name, x),
        softmax=lambda x: torch.softmax(x, -1),
        attend=torch.nn.functional.scaled_dot_product_attention,
        linear=torch.nn.Linear,
        embedding=torch.nn.Embedding,
        layers=torch.nn.ModuleList,
        half=half,
        compiled=torch.compile,
    )


def jax():
    """Return what JAX and flax.nnx have under names of their own."""
    jax, nnx = import_module("jax"), import_module("flax.nnx")

    def attend(q, k, v, bias):
        return jax.nn.dot_product_attention(*(x.swapaxes(1, 2) for x in (q, k, v)), bias).swapaxes(1, 2)

    def half(build):
        model = build()
        nnx.update(model, jax.tree.map(lambda x: x.astype("bfloat16"), nnx.state(model, nnx.Param)))
        return model

    return SimpleNamespace(
        xp=jax.numpy,
        module=nnx.Module,
        forward="__call__",
        cast=lambda x, dtype: x.astype(dtype),
        take=lambda table, at: table[at],
        hold=lambda module, name, x: setattr(module, name, nnx.Variable(x)),
        softmax=nnx.softmax,
        attend=attend,
        linear=lambda *sizes: nnx.Linear(*sizes, rngs=nnx.Rngs(0)),
        embedding=lambda *sizes: nnx.Embed(*sizes, rngs=nnx.Rngs(0)),
        layers=nnx.List,
        half=half,
        compiled=jax.jit,
    )


def keras():
    """Return what Keras has under names of its own."""
    keras = import_module("keras")
    ops = keras.ops

    def hold(module, name, x):
        dtype = keras.backend.standardize_dtype(x.dtype)
        setattr(module, name, module.add_weight(x.shape, "zeros", dtype, trainable=False, autocast=False))
        getattr(module, name).assign(x)

    def attend(q, k, v, bias):
        return ops.swapaxes(ops.dot_product_attention(*(ops.swapaxes(x, 1, 2) for x in (q, k, v)), bias), 1, 2)

    def half(build):
        keras.config.set_dtype_policy("bfloat16")
        try:
            return build()
        finally:
            keras.config.set_dtype_policy("float32")

    library, compiler = {"tensorflow": "tensorflow.function", "jax": "jax.jit", "torch": "torch.compile"}[
        keras.backend.backend()
    ].split(".")
    keras.utils.set_random_seed(0)
    return SimpleNamespace(
        xp=ops,
        module=keras.layers.Layer,
        forward="call",
        cast=ops.cast,
        take=lambda table, at: ops.take(table, at, axis=0),
        hold=hold,
        softmax=ops.softmax,
        attend=attend,
        linear=lambda _, width: keras.layers.Dense(width),
        embedding=keras.layers.Embedding,
        layers=list,
        half=half,
        compiled=getattr(import_module(library), compiler),
    )


def mlx():
    """Return what MLX has under names of its own."""
    mx, nn = import_module("mlx.core"), import_module("mlx.nn")

    def half(build):
        model = build()
        model.set_dtype(mx.bfloat16)
        return model

    mx.random.seed(0)
    return SimpleNamespace(
        xp=mx,
        module=nn.Module,
        forward="__call__",
        cast=lambda x, dtype: x.astype(getattr(mx, dtype) if isinstance(dtype, str) else dtype),
        take=lambda table, at: table[at],
        hold=setattr,
        softmax=lambda x: mx.softmax(x, axis=-1),
        attend=lambda q, k, v, bias: mx.fast.scaled_dot_product_attention(q, k, v, scale=HEAD**-0.5, mask=bias),
        linear=nn.Linear,
        embedding=nn.Embedding,
        layers=list,
        half=half,
        compiled=mx.compile,
    )


FRAMEWORKS = {"torch": torch, "jax": jax, "keras": keras, "mlx": mlx}


def decoders(name):
    """Return the classes of rotations and of decoders in a framework, and `half`, which builds one in bfloat16."""
    of = FRAMEWORKS[name]()

    class Module(of.module):
        def __init_subclass__(cls):
            super().__init_subclass__()
            setattr(cls, of.forward, cls.run)

    ours = rotation_of_ours(Module, import_module("posenc_backends.jax.flax") if name == "jax" else load(name))
    bias, factor, rows = others(of, Module)
    decoder = decoder_of(of, Module, attention_of(of, Module, ours, bias, factor))

    class Counting(decoder):
        """Takes no positions."""

        def run(self, tokens):
            return super().run(tokens)

    table = rotation_by_table(of, Module)
    return SimpleNamespace(
        Table=table,
        Ours=ours,
        Decoder=decoder,
        Counting=Counting,
        Bias=bias,
        Factor=factor,
        Rows=rows,
        Learned=lambda length: of.embedding(length, WIDTH),
        half=of.half,
    )


def rotation_by_table(of, Module):  # noqa: N803 - a class
    """Return a rotation with a table of `length` rows, or with cosine and sine where it has none."""
    xp = of.xp

    def cos_sin(at, frequencies):
        angles = of.cast(at, "float32")[..., None] * of.cast(frequencies, "float32")
        return xp.cos(angles), xp.sin(angles)

    class Table(Module):
        def __init__(self, length=None, *, first=0, base=1e4, pairs=8, layout="half", dtype="float32", compiles=False):
            super().__init__()
            self.cos_sin = of.compiled(cos_sin) if compiles else cos_sin
            self.first, self.length, self.order = first, length, layout
            frequencies = of.cast(float(base) ** -(xp.arange(pairs) / pairs), dtype)
            of.hold(self, "_frequencies", frequencies)
            if length is not None:
                for name, table in zip(("_cosine", "_sine"), cos_sin(xp.arange(length), frequencies), strict=True):
                    of.hold(self, name, table)

        def run(self, x, at):
            at = at + self.first
            if self.length is None:
                cosine, sine = self.cos_sin(at, self._frequencies[...])
            else:
                at = xp.clip(at, 0, self.length - 1)
                cosine, sine = of.take(self._cosine[...], at), of.take(self._sine[...], at)
            width = 2 * cosine.shape[-1]
            turned = turn(xp, of.cast(x[..., :width], "float32"), cosine[:, None], sine[:, None], self.order)
            return xp.concatenate([of.cast(turned, x.dtype), x[..., width:]], axis=-1)

    return Table


def turn(xp, x, cosine, sine, layout):
    half = x.shape[-1] // 2
    a, b = (x[..., :half], x[..., half:]) if layout == "half" else (x[..., ::2], x[..., 1::2])
    both = [a * cosine - b * sine, b * cosine + a * sine]
    return xp.concatenate(both, axis=-1) if layout == "half" else xp.reshape(xp.stack(both, axis=-1), x.shape)


def rotation_of_ours(Module, backend):  # noqa: N803
    """Return a rotation by our layer."""

    class Ours(Module):
        def __init__(self, encoding):
            super().__init__()
            self.rotate = backend.RotaryEmbedding(encoding)

        def run(self, x, at):
            return self.rotate(x, positions=at)

    return Ours


def others(of, Module):  # noqa: N803
    """Return ALiBi, by slopes and in the framework's own attention or not, a factor of queries, and sinusoids."""
    xp = of.xp

    class Bias(Module):
        def __init__(self, *slopes, is_fused=False):
            super().__init__()
            self.slopes, self.is_fused = slopes, is_fused

        def run(self, queries, keys):
            distances = of.cast(xp.abs(queries[..., None] - keys), "float32")
            return xp.stack([distances * -slope for slope in self.slopes], axis=1)

    class Factor(Module):
        def run(self, q, at):
            return q * (1 + of.cast(at, "float32")[:, None, :, None] / 1000)

    class Rows(Module):
        def __init__(self, first=0):
            super().__init__()
            self.first = first

        def run(self, at):
            frequencies = 1e4 ** -(of.cast(xp.arange(WIDTH // 2), "float32") / (WIDTH // 2))
            angles = of.cast(at + self.first, "float32")[..., None] * frequencies
            return xp.concatenate([xp.sin(angles), xp.cos(angles)], axis=-1)

    return Bias, Factor, Rows


def attention_of(of, Module, ours, bias, factor):  # noqa: N803
    """Return attention, by the framework's own function after a layer of ours."""
    xp = of.xp

    class Attention(Module):
        def __init__(self, encode):
            super().__init__()
            self.project, self.encode = of.linear(WIDTH, 4 * HEAD), encode

        def run(self, x, at, past):
            parts = xp.swapaxes(xp.reshape(self.project(x), (*x.shape[:2], 4, HEAD)), 1, 2)
            q, k, v = parts[:, :2], parts[:, 2:3], parts[:, 3:]
            if isinstance(self.encode, factor):
                q = self.encode(q, at)
            elif self.encode is not None and not isinstance(self.encode, bias):
                q, k = self.encode(q, at), self.encode(k, at)
            if past is not None:
                k, v = (xp.concatenate(both, axis=2) for both in zip(past, (k, v), strict=True))
            keys, values = (xp.concatenate([one, one], axis=1) for one in (k, v))
            added = None
            if isinstance(self.encode, bias):
                added = self.encode(at, xp.arange(k.shape[2]))
            if isinstance(self.encode, ours) or (added is not None and self.encode.is_fused):
                mixed = of.attend(q, keys, values, added)
            else:
                scores = xp.einsum("bhsd,bhqd->bhqs", keys, q) / 4
                scores = scores if added is None else scores + added
                mixed = xp.einsum("bhqs,bhsd->bhqd", of.softmax(scores), values)
            return xp.reshape(xp.swapaxes(mixed, 1, 2), x.shape), (k, v)

    return Attention


def decoder_of(of, Module, attention):  # noqa: N803
    """Return a decoder that takes positions, and returns the tokens, and the keys and values of each layer."""
    xp = of.xp

    class Decoder(Module):
        def __init__(self, *encodings, rows=None, forgets=False):
            super().__init__()
            self.embedding, self.rows = of.embedding(9, WIDTH), rows
            self.blocks = of.layers([attention(one) for one in encodings])
            self.forgets = forgets

        def run(self, tokens, positions=None, past=None):
            if positions is None:
                start = 0 if past is None or self.forgets else past[0][0].shape[2]
                positions = xp.arange(start, start + tokens.shape[1])[None]
            x, kept = self.embedding(tokens), []
            x = x if self.rows is None else x + self.rows(positions)
            for block, before in zip(self.blocks, past or [None] * len(self.blocks), strict=True):
                change, both = block(x, positions, before)
                x, kept = x + change, [*kept, both]
            return x, kept

    return Decoder
