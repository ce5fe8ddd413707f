"""The whole sentence encoder with its attention computed by splitq, against the fp64 computation.

    test_encoder.py SPLITQ LIBRARY      the command line tool and libsplitq.so

Exit status 127, as a shell's for a command that is not there, where a package that it needs is not installed.
"""

import sys
import unittest
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sentence_encoder"
sys.path.insert(0, str(EXAMPLE))

try:
    import numpy as np

    import attention
    from c_abi import CAbi
    from encoder import SentenceEncoder, cosine_distances, find_model_dir
    from write_sample import SAMPLE, record_layers

    find_model_dir()
except ModuleNotFoundError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(127)

DISTANCE_LIMIT = 1e-4
SENTENCES = (SAMPLE / "sentences.txt").read_text().splitlines()
# Every length that matters: no word at all, one word, sentences, a page that fills many tiles of keys.
TEXTS = ["", "Stop."] + SENTENCES + [" ".join(SENTENCES * 2)]


class Encoder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.splitq, cls.library = sys.argv[1:3]
        cls.encoder = SentenceEncoder()
        cls.expected = cls.encoder.encode(TEXTS, attention.reference)

    def test_similarities_are_the_published_ones(self):
        # The first three sentences and these figures are the quick start of the Sentence Transformers documentation.
        embeddings = self.encoder.encode(SENTENCES[:3], attention.reference)
        published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
        np.testing.assert_allclose(embeddings @ embeddings.T, published, atol=1e-4)

    def test_a_sentence_is_nearest_to_its_paraphrase(self):
        embeddings = self.encoder.encode(SENTENCES, attention.CommandLine(self.splitq))
        similarity = embeddings @ embeddings.T - 2 * np.eye(len(SENTENCES))
        nearest = similarity.argmax(axis=1)
        for one, other in [(0, 1), (3, 4), (5, 6)]:
            self.assertEqual((nearest[one], nearest[other]), (other, one))

    def test_a_packed_sentence_is_as_if_alone(self):
        alone = np.concatenate([self.encoder.encode([text], attention.reference) for text in TEXTS])
        np.testing.assert_allclose(self.expected, alone, atol=1e-12)

    def test_embeddings_agree_with_fp64(self):
        ways = {f"command line, {dtype}": attention.CommandLine(self.splitq, dtype) for dtype in ("fp32", "fp16", "bf16")}
        ways |= {f"C interface, {dtype.__name__}": CAbi(self.library, dtype) for dtype in (np.float32, np.float16)}
        for way, splitq in ways.items():
            with self.subTest(way):
                embeddings = self.encoder.encode(TEXTS, splitq)
                distances = cosine_distances(embeddings, self.expected)
                print(f"{way}: cosine distance to fp64, largest of {len(TEXTS)} texts: {distances.max():.1e}")
                self.assertEqual(embeddings.shape, self.expected.shape)
                self.assertTrue((distances <= DISTANCE_LIMIT).all(), distances)

    def test_the_distance_sees_wrong_attention(self):
        def over_all_sentences(q, k, v, cu_seqlens):
            return attention.reference(q, k, v, cu_seqlens[[0, -1]])

        distances = cosine_distances(self.encoder.encode(TEXTS, over_all_sentences), self.expected)
        self.assertGreater(distances.min(), 100 * DISTANCE_LIMIT)

    def test_every_layer_agrees_with_fp64(self):
        for number, (q, k, v, cu_seqlens) in enumerate(record_layers(self.encoder, TEXTS)):
            with self.subTest(layer=number):
                # The inputs are rounded to fp32 before both.
                q, k, v = (x.astype(np.float32) for x in (q, k, v))
                out = attention.CommandLine(self.splitq)(q, k, v, cu_seqlens)
                np.testing.assert_allclose(out, attention.reference(q, k, v, cu_seqlens), rtol=0, atol=1e-5)

    def test_the_sample_is_what_the_layer_receives(self):
        sample = {path.stem: np.load(path) for path in SAMPLE.glob("*.npy")}
        q, k, v, cu_seqlens = record_layers(self.encoder, SENTENCES)[3]
        np.testing.assert_array_equal(sample["cu_seqlens"], cu_seqlens)
        for name, tensor in {"q": q, "k": k, "v": v}.items():
            np.testing.assert_allclose(sample[name], tensor, rtol=2**-11, atol=1e-6)
        expected = attention.reference(sample["q"], sample["k"], sample["v"], sample["cu_seqlens"])
        np.testing.assert_allclose(sample["out"], expected, rtol=1e-7, atol=1e-12)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
