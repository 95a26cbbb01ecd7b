"""Helpers for tests of folders in Hugging Face's layout."""
import torch
from safetensors.torch import load_file

from support import TINY, TestCase, twobw

# TINY without the keys of the model.
TRAINING = {key: value for key, value in TINY.items() if not key.startswith("model.")}


def make_biases_matter(model):
    """Biases begin at 0 and gains at 1, which would hide errors."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model.eval()


class FolderTestCase(TestCase):
    def call(self, *arguments):
        process = twobw(*arguments)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        return process.stdout

    def refused(self, *arguments):
        process = twobw(*arguments)
        self.assertEqual(process.returncode, 2, process.stdout + process.stderr)
        self.assertRegex(process.stderr, r"\Atwobw: [^\n]+\n\Z")
        return process.stderr

    def save(self, model, name="source", **options):
        make_biases_matter(model).save_pretrained(self.folder / name, **options)
        return self.folder / name

    def weights(self, folder):
        tensors = {}
        for path in sorted(folder.glob("*.safetensors")):
            tensors.update(load_file(path))
        return tensors

    def assert_same_tensors(self, before, after):
        self.assertEqual(set(before), set(after))
        for name, tensor in before.items():
            self.assertTrue(torch.equal(tensor, after[name]), name)
