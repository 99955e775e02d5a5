"""The page's training: d2l's data, trainer and prediction, on a few sentences in place of those it would download."""

from functools import partial
from itertools import takewhile
from types import SimpleNamespace

from .decoder import Sizes

# The four that the page translates, and four more; each twice, since d2l forgets words that come once.
PAIRS = (
    ("Go.", "Va !"),
    ("I lost.", "J'ai perdu."),
    ("He's calm.", "Il est calme."),
    ("I'm home.", "Je suis chez moi."),
    ("It rains.", "Il pleut."),
    ("We sing.", "Nous chantons."),
    ("She reads.", "Elle lit."),
    ("You won.", "Vous avez gagné."),
)
TEXT = "\n".join("\t".join(pair) for pair in PAIRS * 2)
ENGLISH = ["go .", "i lost .", "he's calm .", "i'm home ."]
FRENCH = ["va !", "j'ai perdu .", "il est calme .", "je suis chez moi ."]
STEPS = 9  # of a sentence, as on the page
HALVES = (slice(0, 8), slice(8, 16))
EPOCHS = 15
SEED = 0


def sizes(vocabulary, num_hiddens=256):
    """Those of the page, but for its dropout of 0.2: what is dropped is drawn anew in each framework."""
    return Sizes(len(vocabulary), num_hiddens, 64, 4, 2, 0.0)


class Translation:
    """The page from its data to its BLEU, with the trainer of the English edition.

    Args:
        original: d2l on the framework.
        patch: pytest's `MonkeyPatch`, for what d2l needs that the framework no longer has.
    """

    def __init__(self, original, patch):
        self.original, self.book, self.patch = original, original.book, patch
        self.data = self.sentences()

    def sentences(self):
        """d2l's data set, of the sentences above, in order."""
        book = self.book

        class Sentences(book.MTFraEng):
            def _download(self):
                return TEXT

            def get_dataloader(self, train):
                return [tuple(array[half] for array in self.arrays) for half in HALVES] if train else None

        return Sentences(batch_size=8, num_train=len(PAIRS) * 2, num_val=0)

    def model(self, arange_like=False):
        """An encoder and a decoder, called once, so that all its numbers are there; always the same ones."""
        self.seed()
        encoder = self.original.encoder(*sizes(self.data.src_vocab))
        decoder = self.original.decoder(sizes(self.data.tgt_vocab), arange_like)
        return self.started(self.joined(encoder, decoder))

    def seed(self):
        self.book.torch.manual_seed(SEED)

    def joined(self, encoder, decoder):
        pad = self.data.tgt_vocab["<pad>"]
        return self.book.Seq2Seq(encoder, decoder, tgt_pad=pad, lr=0.0015)

    def started(self, model):
        model(*self.data.arrays[:-1])
        return model

    def begin(self, model, other):
        """Give a model the numbers of another; where the names are d2l's, these are the same."""
        model.load_state_dict(other.state_dict())

    def fit(self, model):
        """The losses of all steps."""
        trainer = self.book.Trainer(max_epochs=EPOCHS, gradient_clip_val=1)
        model.board.display = False
        trainer.fit(model, self.data)
        return [float(point.y) for point in model.board.data["train_loss"]]

    def translated(self, model, english):
        """Return the translations of the model, and the weights of attention."""
        batch = self.data.build(english, [""] * len(english))
        tokens, weights = model.predict_step(batch, self.book.cpu(), STEPS, True)
        return self.texts(tokens), self.seen(model, weights)

    def texts(self, tokens):
        """Sentences of the numbers of words."""
        numbers = self.original.backend.to_numpy(tokens).astype(int).tolist()
        return [" ".join(takewhile("<eos>".__ne__, self.data.tgt_vocab.to_tokens(row))) for row in numbers]

    def seen(self, model, weights):
        """Of the encoder for each block, of the decoder for each step."""
        return SimpleNamespace(encoder=model.encoder.attention_weights, decoder=weights)

    def scores(self, texts):
        """The BLEU of translations."""
        return [self.book.bleu(text, true, k=2) for text, true in zip(texts, FRENCH, strict=True)]


class TorchTranslation(Translation):
    """Begun with embeddings as small as elsewhere.

    PyTorch's own come to 16 on the page: softmaxes saturate, and in three steps a rounding grows ten thousandfold.
    """

    def started(self, model):
        with self.book.torch.no_grad():
            for side in (model.encoder, model.decoder):
                side.embedding.weight /= side.embedding.embedding_dim**0.5
        return super().started(model)


class TensorFlowTranslation(Translation):
    """On Keras 3, whose models have a `loss` of their own, which hides d2l's."""

    def seed(self):
        self.book.tf.keras.utils.set_random_seed(SEED)

    def joined(self, encoder, decoder):
        model = super().joined(encoder, decoder)
        vars(model).pop("loss", None)
        model.configure_optimizers = partial(self.optimizer, model)
        return model

    def optimizer(self, model):
        """d2l's, compiled: operation by operation, it takes half of the training's time."""
        optimizer = self.book.tf.keras.optimizers.Adam(learning_rate=model.lr)
        optimizer.build(model.trainable_variables)
        apply = self.book.tf.function(optimizer.apply)
        optimizer.apply_gradients = lambda pairs: apply([gradient for gradient, _ in pairs])
        return optimizer

    def begin(self, model, other):
        for variable, value in zip(model.trainable_variables, other.trainable_variables, strict=True):
            variable.assign(value)


class MXNetTranslation(Translation):
    def seed(self):
        self.book.npx.random.seed(SEED)

    def begin(self, model, other):
        learned = ([p for p in one.collect_params().values() if p.grad_req != "null"] for one in (model, other))
        for parameter, value in zip(*learned, strict=True):
            parameter.set_data(value.data())


class JAXTranslation(Translation):
    """A model of Flax, and its parameters beside it. d2l's trainer asks JAX for a name that it has no more."""

    def __init__(self, original, patch):
        super().__init__(original, patch)
        self.jax = original.jax
        patch.setattr(self.jax.random, "PRNGKeyArray", self.jax.Array, raising=False)

    def seed(self):
        """Nothing: all that is drawn is drawn from keys."""

    def joined(self, encoder, decoder):
        pad = self.data.tgt_vocab["<pad>"]
        return self.book.Seq2Seq(encoder, decoder, tgt_pad=pad, lr=0.0015, training=True)

    def started(self, model):
        keys = {name: self.jax.random.key(SEED, impl="rbg") for name in ("params", "dropout")}
        return SimpleNamespace(
            module=model, parameters=self.compiled(model.init)(keys, *self.data.arrays[:-1])["params"]
        )

    def begin(self, model, other):
        model.parameters = self.original.renamed(other.parameters, model.parameters)

    def fit(self, model):
        """With d2l's step and optimizer, compiled: traced anew for each batch, they take half of the time."""
        module, optimizer = model.module, self.book.optax.adam(learning_rate=model.module.lr)
        step = self.jax.jit(self.jax.value_and_grad(module.loss, has_aux=True))

        def training_step(params, batch, state):
            value, gradients = step(params, batch[:-1], batch[-1], state)
            module.plot("loss", value[0], train=True)
            return value, gradients

        compiled = self.book.optax.GradientTransformation(optimizer.init, self.jax.jit(optimizer.update))
        for name, method in (
            ("apply_init", lambda *_, **__: {"params": model.parameters}),
            ("configure_optimizers", lambda: compiled),
            ("training_step", training_step),
        ):
            object.__setattr__(module, name, method)
        trainer = self.book.Trainer(max_epochs=EPOCHS, gradient_clip_val=1)
        module.board.display = False
        trainer.fit(module, self.data, key=self.jax.random.key(SEED))
        model.parameters = trainer.state.params
        return [float(point.y) for point in module.board.data["train_loss"]]

    def translated(self, model, english):
        batch = self.data.build(english, [""] * len(english))
        predict = partial(model.module.predict_step, num_steps=STEPS, save_attention_weights=True)
        tokens, (decoder, encoder) = self.compiled(predict)(model.parameters, batch)
        return self.texts(tokens), SimpleNamespace(encoder=encoder, decoder=decoder)

    def compiled(self, function):
        """In a hurry: it runs once."""
        return self.jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


class PaddleTranslation(Translation):
    """The page of the Chinese edition, which trains and predicts by functions.

    What it hides, it finds by comparing integers with float32 numbers, which Paddle 3 does not do.
    """

    def seed(self):
        self.book.paddle.seed(SEED)

    def sentences(self):
        book, hidden = self.book, self.book.sequence_mask
        changed = {
            "sequence_mask": lambda x, lengths, value=0: hidden(x.astype("float32"), lengths.astype("float32"), value),
            "read_data_nmt": lambda: TEXT,
            "load_array": lambda arrays, _: [tuple(array[half] for array in arrays) for half in HALVES],
        }
        for name, function in changed.items():
            self.patch.setattr(book, name, function)
        batches, src_vocab, tgt_vocab = book.load_data_nmt(8, STEPS)
        return SimpleNamespace(batches=batches, src_vocab=src_vocab, tgt_vocab=tgt_vocab)

    def joined(self, encoder, decoder):
        return self.book.EncoderDecoder(encoder, decoder)

    def started(self, model):
        return model

    def fit(self, model):
        losses = []

        class Noted(self.book.Accumulator):
            def add(self, loss, tokens):
                losses.append(float(loss) / float(tokens))
                super().add(loss, tokens)

        with self.patch.context() as patch:
            patch.setattr(self.book, "Accumulator", Noted)
            patch.setattr(self.book, "Animator", lambda **_: SimpleNamespace(add=lambda *_: None))
            self.book.train_seq2seq(model, self.data.batches, 0.0015, EPOCHS, self.data.tgt_vocab, "cpu")
        return losses

    def translated(self, model, english):
        vocabularies = self.data.src_vocab, self.data.tgt_vocab
        found = [self.book.predict_seq2seq(model, text, *vocabularies, STEPS, "cpu", True) for text in english]
        return [text for text, _ in found], self.seen(model, found[-1][1])


TRANSLATIONS = {
    "torch": TorchTranslation,
    "mxnet": MXNetTranslation,
    "tensorflow": TensorFlowTranslation,
    "jax": JAXTranslation,
    "paddle": PaddleTranslation,
}
