"""What one run trains. Every contender is given the same Job; nothing here needs torch."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Job:
    layers: int = 8  # transformer blocks
    width: int = 512
    heads: int = 8
    vocab: int = 8192
    context: int = 256
    microbatch: int = 1  # sequences in a microbatch
    microbatches: int = 8  # microbatches in an update
    updates: int = 4  # timed
    warmup: int = 2  # run before the clock starts
    seed: int = 0
    lr: float = 1e-3
    onednn: int = 1  # whether torch may use oneDNN; on some CPUs it is faster without

    @property
    def cuttable_layers(self):
        """Embedding, then attention and MLP of every block, then the head."""
        return 2 * self.layers + 2

    @property
    def tokens_per_update(self):
        return self.microbatch * self.microbatches * self.context

    def arguments(self):
        """The command line that from_arguments() reads back."""
        return [part for field in dataclasses.fields(self)
                for part in (f"--{field.name}", str(getattr(self, field.name)))]


def add_arguments(parser):
    for field in dataclasses.fields(Job):
        parser.add_argument(f"--{field.name}", type=field.type, default=field.default)


def from_arguments(arguments):
    return Job(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Job)})
